"""The real dtypes of a model's weights: chosen, counted, and kept through saving and loading.

A trainer's ``bf16`` switch says nothing about them. In BF16 an update smaller than half a unit in the last place is
rounded away, and norm weights sit near 1, where that unit is large; so norms may be kept at FP32 in a BF16 body.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from evenhand.config import Precision

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

# Parameter groups, in the order in which they are shown; the first whose pattern stands in a parameter's name.
GROUPS = (
    ("norms", ("norm", "ln_f", "ln_1", "ln_2")),
    ("embeddings", ("embed_tokens", "wte", "wpe", "embeddings")),
    ("head", ("lm_head",)),
    ("attention", ("attn", "attention")),
    ("MLP", ("mlp", "feed_forward", "experts")),
)
OTHER = "other"


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """One group of parameters: how many scalars, at which dtypes."""

    name: str
    parameters: int
    dtypes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


def group_of(parameter_name: str) -> str:
    """The group that a parameter belongs to, by its name."""
    return next((group for group, parts in GROUPS if any(part in parameter_name for part in parts)), OTHER)


def census(model: nn.Module) -> list[ParameterGroup]:
    """Parameters and real dtypes by group. Tied weights are counted once."""
    counts: dict[str, int] = {}
    dtypes: dict[str, set[str]] = {}
    for name, parameter in model.named_parameters():
        group = group_of(name)
        counts[group] = counts.get(group, 0) + parameter.numel()
        dtypes.setdefault(group, set()).add(str(parameter.dtype).removeprefix("torch."))
    order = [*(group for group, _ in GROUPS), OTHER]
    return [ParameterGroup(name, counts[name], tuple(sorted(dtypes[name]))) for name in order if name in counts]


def apply_precision(model: PreTrainedModel, precision: Precision) -> None:
    """Cast body and norms in place, and have every norm return its output at its input's dtype.

    Without that cast an FP32 norm feeds FP32 to the next BF16 layer. Buffers (rotary frequencies) stay as they are.
    """
    body, norms = DTYPES[precision.body], DTYPES[precision.norms]
    for name, parameter in model.named_parameters():
        parameter.data = parameter.data.to(norms if group_of(name) == "norms" else body)
    if body != norms:
        keep_output_dtype(model)


def keep_output_dtype(model: nn.Module) -> None:
    """Hook every norm so that its output has the dtype of its input. Doing it twice is harmless."""
    for module in norm_modules(model):
        if not getattr(module, "_evenhand_keeps_dtype", False):
            module.register_forward_hook(cast_output)
            module._evenhand_keeps_dtype = True  # type: ignore[assignment]


def cast_output(module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
    """A norm's output at its input's dtype."""
    del module
    return output.to(inputs[0].dtype)


def norm_modules(model: nn.Module) -> Iterator[nn.Module]:
    """Modules that hold the weights of the group ``norms`` themselves."""
    for name, module in model.named_modules():
        own = [f"{name}.{parameter}" for parameter, _ in module.named_parameters(recurse=False)]
        if own and all(group_of(one) == "norms" for one in own):
            yield module
