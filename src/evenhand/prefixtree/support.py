"""Which models may take the tree, and why another keeps the plain path.

Whatever is not known to give the plain path's result is refused with a reason, never computed differently in silence.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

from evenhand.prefixtree.attention import REPLACEABLE, TreeAttention, install, no_mask, replaced, tree_options
from evenhand.prefixtree.tree import PrefixTree

# Each is held to the plain path, values and gradients, by tests/prefixtree/test_equivalence.py.
ARCHITECTURES = (
    "gemma2",
    "gemma3_text",
    "granite",
    "llama",
    "mistral",
    "olmo2",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "smollm3",
)
# Rotary embeddings that depend on a token's position alone, not on how long the longest sequence is.
POSITIONAL_ROPE = ("default", "linear", "llama3", "yarn", "proportional")
# Relative difference of logits that rounding explains.
ROUNDING = {torch.float32: 1e-3, torch.float64: 1e-6}
ROUNDING_OF_HALF = 0.1


def base_model(model: torch.nn.Module) -> PreTrainedModel | None:
    """The Transformers model inside wrappers for several processes and adapters; None for anything else."""
    inner: Any = _unwrapped(model)
    if hasattr(inner, "get_base_model"):
        inner = inner.get_base_model()
    return inner if isinstance(inner, PreTrainedModel) else None


def _unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    inner: Any = model
    while hasattr(inner, "module"):
        inner = inner.module
    return inner  # type: ignore[no-any-return]


def refusal(model: torch.nn.Module) -> str | None:
    """Why the model must keep the plain path, as the end of "because …"; None where it may take the tree.

    The answer of a model that may is checked once by computing: see :func:`differs`.
    """
    base = base_model(model)
    if base is None:
        return f"{type(model).__name__} is not a Transformers model"
    return _refused_configuration(base.config) or _refused_attention(base) or _refused_adapter(model)


def dropout_refusal(model: torch.nn.Module) -> str | None:
    """Why the model must keep the plain path in its present mode: dropout would fall on shared tokens once."""
    base = base_model(model)
    if base is None or not model.training:
        return None
    dropping = any(
        isinstance(module, torch.nn.Dropout) and module.p > 0 and module.training for module in model.modules()
    )
    rates = ("attention_dropout", "resid_pdrop", "embd_pdrop", "hidden_dropout")
    if dropping or any(getattr(base.config, rate, 0.0) for rate in rates):
        return "dropout is on, and completions would share what it drops"
    return None


def _refused_configuration(config: Any) -> str | None:
    if config.model_type not in ARCHITECTURES:
        return f"the architecture {config.model_type} has not been tested on the tree"
    if getattr(config, "use_bidirectional_attention", False) or not getattr(config, "is_causal", True):
        return "its attention looks ahead"
    ropes = getattr(config, "rope_parameters", None) or {}
    nested = list(ropes.values()) if ropes and all(isinstance(value, dict) for value in ropes.values()) else [ropes]
    kinds = {rope.get("rope_type", "default") for rope in nested}
    if not kinds <= set(POSITIONAL_ROPE):
        return f"its position encoding ({', '.join(sorted(kinds))}) depends on the length of the sequence"
    return None


def _refused_attention(base: PreTrainedModel) -> str | None:
    plain = replaced(base)
    if plain not in REPLACEABLE:
        return f"the attention {plain} cannot be replaced; load the model with attn_implementation='sdpa'"
    if getattr(base.config, "attn_logit_softcapping", None) and plain != "eager":
        return f"{plain} attention ignores its soft cap; load it with attn_implementation='eager'"
    return None


def _refused_adapter(model: torch.nn.Module) -> str | None:
    adapters = getattr(_unwrapped(model), "peft_config", {})
    if isinstance(adapters, dict) and any(
        getattr(adapter, "is_prompt_learning", False) for adapter in adapters.values()
    ):
        return "its adapter adds virtual tokens"
    return None


@torch.no_grad()
@contextmanager
def head_formats(base: PreTrainedModel) -> Iterator[set[torch.dtype]]:
    """Collects the formats in which the model's head computes.

    Under autocast these are not the logits' own: Accelerate wraps ``forward`` in it and converts what comes out.
    """
    formats: set[torch.dtype] = set()
    head = base.get_output_embeddings()
    if head is None:
        yield formats
        return
    hook = head.register_forward_hook(lambda _module, _inputs, output: formats.add(output.dtype))
    try:
        yield formats
    finally:
        hook.remove()


def differs(model: torch.nn.Module) -> str | None:
    """Whether a first small tree gives other logits than the plain path; then how, as the end of "because …".

    Three short sequences that share a beginning pass through the model both ways. Installs the attention.
    """
    base = base_model(model)
    if base is None:
        return f"{type(model).__name__} is not a Transformers model"
    install(base)
    vocabulary = int(base.config.vocab_size)
    stem = [(7 * index + 3) % vocabulary for index in range(12)]
    sequences = [stem + [(start + 5 * index) % vocabulary for index in range(8)] for start in (1, 1, 2)]
    sequences[1] = sequences[1][:15] + [(token + 1) % vocabulary for token in sequences[1][15:]]
    tree = PrefixTree.of(sequences)
    with head_formats(base) as formats:
        on_tree = base(
            input_ids=torch.tensor([tree.tokens], device=base.device),
            position_ids=torch.tensor([tree.depths], device=base.device),
            attention_mask=no_mask(base.device),
            prefix_tree=TreeAttention(tree, base.device),
            **tree_options(base),
        ).logits[0]
        plain = base(input_ids=torch.tensor(sequences, device=base.device), use_cache=False).logits
    paths = torch.tensor(tree.paths, device=base.device)
    difference = ((on_tree[paths] - plain).float().norm() / plain.float().norm()).item()
    allowed = max(ROUNDING.get(computed_in, ROUNDING_OF_HALF) for computed_in in {plain.dtype, *formats})
    if not difference <= allowed:  # also where it is NaN
        return f"its logits on a trial tree differ by {difference:.1e} from the plain path's"
    return None
