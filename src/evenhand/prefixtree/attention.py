"""One attention function for Transformers models that hands the work to a plan, where a plan is given.

``model(..., prefix_tree=plan)`` reaches every layer as a keyword, also when gradient checkpointing computes a layer
again. Without a plan the model computes what it computed before, so the function may stay installed. Taking it out
again before a checkpointed backward pass would mix two kinds of attention.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface

from evenhand.prefixtree.blocks import Block, cut
from evenhand.prefixtree.tree import PrefixTree

PREFIX = "evenhand_tree_"
# What can stand behind ours. Flash kernels take no mask of their own, so their models keep the plain path.
REPLACEABLE = ("sdpa", "eager")


@dataclass(frozen=True, slots=True)
class Heads:
    """What one layer hands to its attention. Axes: batch 1, heads, nodes, head size."""

    query: torch.Tensor  # [1, H, N, D]
    key: torch.Tensor  # [1, K, N, D] with K key-value heads, each shared by H / K query heads
    value: torch.Tensor
    scaling: float
    window: int | None  # how many tokens back a query sees, itself included; None: all
    softcap: float | None
    layer: int


class AttentionPlan(Protocol):
    """Computes attention for all layers of one pass through a model."""

    def attend(self, heads: Heads) -> torch.Tensor:
        """Attention output, [1, H, N, D]."""


def install(model: PreTrainedModel) -> None:
    """Let the model take plans. Does nothing where that is already so; attention without a plan stays what it was."""
    current = model.config._attn_implementation
    if current.startswith(PREFIX):
        return
    name = PREFIX + current
    AttentionInterface.register(name, _attention_for(current))
    AttentionMaskInterface.register(name, AttentionMaskInterface()[current])
    model.set_attn_implementation(name)


def replaced(model: PreTrainedModel) -> str:
    """The attention that the model uses where no plan is given."""
    return str(model.config._attn_implementation).removeprefix(PREFIX)


def tree_options(model: torch.nn.Module) -> dict[str, Any]:
    """Keywords for every pass on a tree. Expert models would compute their balancing loss, over a padding mask that a
    tree does not have."""
    config = getattr(getattr(model, "module", model), "config", None)
    return {"use_cache": False, **({"output_router_logits": False} if hasattr(config, "output_router_logits") else {})}


def no_mask(device: torch.device) -> torch.Tensor:
    """A four-dimensional mask is passed on as it is, so no mask over all nodes is built only to be ignored."""
    return torch.zeros(1, 1, 1, 1, device=device)


def _attention_for(plain: str) -> Callable[..., tuple[torch.Tensor, torch.Tensor | None]]:
    def attention(
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **options: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        plan: AttentionPlan | None = options.pop("prefix_tree", None)
        if plan is None:
            return _plain(plain, module)(module, query, key, value, attention_mask, **options)
        scaling = options.get("scaling")
        heads = Heads(
            query=query,
            key=key,
            value=value,
            scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
            window=options.get("sliding_window"),
            softcap=options.get("softcap"),
            layer=int(module.layer_idx),  # type: ignore[arg-type]
        )
        return plan.attend(heads).transpose(1, 2).contiguous(), None

    return attention


def _plain(name: str, module: torch.nn.Module) -> Callable[..., tuple[torch.Tensor, torch.Tensor | None]]:
    """Eager attention is each architecture's own function, kept beside its layers."""
    if name == "eager":
        eager: Callable[..., tuple[torch.Tensor, torch.Tensor | None]] = sys.modules[
            type(module).__module__
        ].eager_attention_forward
        return eager
    found: Callable[..., tuple[torch.Tensor, torch.Tensor | None]] = AttentionInterface()[name]
    return found


def attend(
    heads: Heads, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Softmax attention with an additive mask, soft-capped where the layer says so.

    Args:
        heads: The layer's scaling and soft cap.
        query: [B, H, Q, D].
        key: [B, H, S, D], already repeated to the query's heads.
        value: [B, H, S, D].
        mask: Broadcasts to [B, H, Q, S]; minus infinity where a query must not look.
    """
    if heads.softcap is None:
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=heads.scaling)
    scores = torch.matmul(query, key.transpose(-1, -2)) * heads.scaling
    scores = torch.tanh(scores / heads.softcap) * heads.softcap + mask
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    return torch.matmul(weights, value)


class TreeAttention:
    """Every node of a tree sees its ancestors and itself. Nodes stand in one row, in preorder.

    Keys of all blocks are gathered at once, and queries cut at once: a gather or a cut for each block would cost a
    buffer over the whole tree for each of them in the backward pass. The masks are built once and serve all layers.
    """

    def __init__(self, tree: PrefixTree, device: torch.device) -> None:
        blocks = cut(tree)
        keys = [_keys(tree, block, device) for block in blocks]
        self._query_sizes = [block.stop - block.start for block in blocks]
        self._key_sizes = [len(index) for index in keys]
        self._keys = torch.cat(keys)
        self._deepest = max(tree.depths, default=0)
        depths = torch.tensor(tree.depths, device=device)
        ends = torch.tensor(tree.ends, device=device)
        queries = torch.arange(len(tree), device=device).split(self._query_sizes)
        self._seen = [_seen(nodes, index, ends) for nodes, index in zip(queries, keys, strict=True)]  # [Q, S] each
        self._distances = [depths[nodes][:, None] - depths[index] for nodes, index in zip(queries, keys, strict=True)]
        self._masks: dict[tuple[int | None, torch.dtype], list[torch.Tensor]] = {}

    def attend(self, heads: Heads) -> torch.Tensor:
        """Attention output of one layer, [1, H, N, D].

        For a backward pass it is computed again: kept, the keys and values gathered for every block, each ancestor
        once for every block below it, would be the largest thing in memory.
        """
        if not (torch.is_grad_enabled() and heads.query.requires_grad):
            return self._blocks(heads)
        output: torch.Tensor = checkpoint(self._blocks, heads, use_reentrant=False, preserve_rng_state=False)
        return output

    def _blocks(self, heads: Heads) -> torch.Tensor:
        """Block by block."""
        repeats = heads.query.shape[1] // heads.key.shape[1]
        pieces = zip(
            heads.query.split(self._query_sizes, dim=2),
            _repeated(heads.key.index_select(2, self._keys), repeats).split(self._key_sizes, dim=2),
            _repeated(heads.value.index_select(2, self._keys), repeats).split(self._key_sizes, dim=2),
            self._additive(heads.window, heads.query.dtype),
            strict=True,
        )
        return torch.cat([attend(heads, query, key, value, mask) for query, key, value, mask in pieces], dim=2)

    def _additive(self, window: int | None, dtype: torch.dtype) -> list[torch.Tensor]:
        """One additive mask [1, 1, Q, S] for each block, made once for each kind of layer."""
        if window is not None and window > self._deepest:
            window = None
        if (window, dtype) not in self._masks:
            seen = self._seen
            if window is not None:
                seen = [see & (back < window) for see, back in zip(seen, self._distances, strict=True)]
            masks = [torch.zeros(see.shape, dtype=dtype, device=see.device) for see in seen]
            for mask, see in zip(masks, seen, strict=True):
                mask.masked_fill_(~see, -torch.inf)
            self._masks[window, dtype] = [mask[None, None] for mask in masks]
        return self._masks[window, dtype]


def _keys(tree: PrefixTree, block: Block, device: torch.device) -> torch.Tensor:
    """Nodes that a block looks at: the path above it, then its own."""
    return torch.tensor([*tree.ancestors(block.above), *range(block.start, block.stop)], device=device)


def _seen(queries: torch.Tensor, keys: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Whether each key is the query or one of its ancestors, [Q, S]: subtrees are intervals of the preorder."""
    return (keys[None, :] <= queries[:, None]) & (queries[:, None] < ends[keys][None, :])


def _repeated(states: torch.Tensor, repeats: int) -> torch.Tensor:
    """[1, K, S, D] -> [1, K × repeats, S, D]: key-value heads for the query heads that share them."""
    if repeats == 1:
        return states
    batch, heads, length, size = states.shape
    return states[:, :, None].expand(batch, heads, repeats, length, size).reshape(batch, -1, length, size)
