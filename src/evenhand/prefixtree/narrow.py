"""Faster products of few rows with a large weight, on a CPU in FP32.

A decode step is bound by reading the weights once. For 1 to 64 rows the library's product of the input with the
transposed weight packs the weight anew each time and reaches a fraction of the memory's speed; the same product written
as weight times transposed input does not (measured on two cores with AVX-512: 4 rows times 576 × 49,152 in 2.6 ms
instead of 13). Sums are rounded in another order, as between any two batch sizes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch.nn import functional

# More rows than this: the library's own way is as fast.
MOST_ROWS = 64
# A weight of fewer numbers than this stays in the processor's cache, where the library's way is the faster one.
LEAST_WEIGHT = 2**16
# Up to 15 rows one product is slower than products of this many rows each.
CHUNK = 4
FIRST_WIDE = 16
# A weight that takes so many times more than it gives is no longer slow in the library's way from 9 rows on.
TAPERING = 2
FIRST_TAPERING = 9


@contextmanager
def narrow_products(model: torch.nn.Module) -> Iterator[None]:
    """Inside, the model's FP32 linear layers on a CPU multiply few rows the fast way. Not for gradients."""
    changed = []
    for module in model.modules():
        # a forward of its own belongs to a hook or an adapter, which is left alone
        if type(module) is torch.nn.Linear and "forward" not in vars(module) and _suits(module.weight):
            module.forward = partial(narrow_linear, module)  # type: ignore[method-assign]
            changed.append(module)
    try:
        yield
    finally:
        for module in changed:
            del module.forward


def _suits(weight: torch.Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.numel() >= LEAST_WEIGHT


def narrow_linear(module: torch.nn.Linear, rows: torch.Tensor) -> torch.Tensor:
    """``rows @ weight.T + bias`` for rows [..., in] -> [..., out]."""
    count = rows.numel() // rows.shape[-1]
    if count > MOST_ROWS or rows.dtype != torch.float32:
        return functional.linear(rows, module.weight, module.bias)
    flat = rows.reshape(count, rows.shape[-1])
    product = narrow_product(flat, module.weight)
    if module.bias is not None:
        product = product + module.bias
    return product.reshape(*rows.shape[:-1], product.shape[-1])


def narrow_product(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """rows [M, in] with weight [out, in] -> [M, out], in the form that is fastest for M."""
    count = len(rows)
    if count == 1:  # a product of two rows is faster than the library's for one
        return torch.mm(weight, rows.expand(2, -1).t()).t()[:1]
    if FIRST_TAPERING <= count < FIRST_WIDE and weight.shape[1] >= TAPERING * weight.shape[0]:
        return functional.linear(rows, weight)
    if CHUNK < count < FIRST_WIDE:
        return torch.cat([narrow_product(part, weight) for part in rows.split(CHUNK)])
    return torch.mm(weight, rows.t()).t()
