"""Real dtypes of a model's weights: set them, count them, keep them.

A BF16 weight near 1.0 moves in units of 1/256 or 1/128, so an update of 1e-5 is rounded away: RMSNorm weights never
train unless they are FP32. Such a norm multiplies FP32 weights into BF16 activations and gives FP32 out; its output
is therefore cast back to the dtype of its input, or every later layer would be fed FP32.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from evenhand.config import DataType, Precision
from evenhand.errors import ModelError
from evenhand.models.device import check_dtype

DTYPES: Mapping[DataType, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
GROUPS = ("embeddings", "attention", "MLP", "norms", "head", "other")


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """How many parameters of one kind there are, in all and by real dtype. Tied weights count once."""

    name: str  # one of GROUPS
    parameters: int
    dtypes: Mapping[str, int]  # "float32" -> number of parameters

    def to_json(self) -> dict[str, Any]:
        """Plain types, under the field names."""
        return {"name": self.name, "parameters": self.parameters, "dtypes": dict(self.dtypes)}


def parameter_group(name: str) -> str:
    """The group of a parameter, told from its dotted name as the usual decoder models write them."""
    parts = name.lower().split(".")
    owner = parts[-2] if len(parts) > 1 else parts[-1]
    if "norm" in owner or owner.startswith("ln"):
        return "norms"  # first, since q_norm and k_norm stand inside attention
    kinds = {
        "head": ("lm_head", "embed_out"),
        "embeddings": ("embed", "wte", "wpe"),
        "attention": ("attn", "attention"),
        "MLP": ("mlp", "feed_forward", "experts", "ffn"),
    }
    return next((group for group, marks in kinds.items() if any(m in p for m in marks for p in parts)), "other")


def census(model: nn.Module) -> list[ParameterGroup]:
    """Parameters by group and real dtype; groups without any are left out."""
    counted: dict[str, Counter[str]] = {group: Counter() for group in GROUPS}
    for name, weights in model.named_parameters():
        counted[parameter_group(name)][dtype_name(weights.dtype)] += weights.numel()
    return [ParameterGroup(name, dtypes.total(), dict(dtypes)) for name, dtypes in counted.items() if dtypes]


def dtype_name(dtype: torch.dtype) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def apply_precision(model: PreTrainedModel, precision: Precision) -> None:
    """Cast weights in place: norms to one dtype, the rest to the other; then let norms give back their input's dtype.

    A trainer built before holds the old dtypes' optimiser: change precision first, then build it.

    Raises:
        DeviceError: the model's device does not compute at a dtype.
        ModelError: a norm that takes only one dtype (``torch.nn.LayerNorm``) is asked to mix two.
    """
    body, norms = DTYPES[precision.body], DTYPES[precision.norms]
    for dtype in {body, norms}:
        if model.device.type != "meta":
            check_dtype(dtype, model.device)
    layer_norm = next((name for name, module in norm_modules(model) if isinstance(module, nn.LayerNorm)), None)
    if layer_norm is not None and body != norms:
        raise ModelError(
            f"{layer_norm} is a LayerNorm, which computes in one dtype only.",
            f"Use --set precision.norms={precision.body}.",
        )
    for name, weights in model.named_parameters():
        weights.data = weights.data.to(norms if parameter_group(name) == "norms" else body)
    if body != norms:
        cast_norm_outputs(model)


def cast_norm_outputs(model: nn.Module) -> None:
    """Give every norm's output the dtype of its input. Does nothing where that is done already."""
    for _, module in norm_modules(model):
        if as_input not in module._forward_hooks.values():  # torch has no public question for it
            module.register_forward_hook(as_input)


def norm_modules(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Modules that own weights of the group ``norms``, by name."""
    return [
        (name, module)
        for name, module in model.named_modules()
        if any(parameter_group(f"{name}.{own}") == "norms" for own, _ in module.named_parameters(recurse=False))
    ]


def as_input(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
    """Forward hook: the output at the dtype of the first input."""
    del module
    return output.to(inputs[0].dtype) if inputs else output
