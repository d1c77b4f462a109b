"""Score within the memory there is: where it runs out, recompute layers, then shrink the packs."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel

from evenhand.prefixtree.scoring import LOGIT_BUDGET, TOKEN_BUDGET, Batch, Scores, score
from evenhand.prefixtree.support import base_model

SMALLEST_PACK = 256

logger = logging.getLogger(__name__)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on an accelerator or on the CPU."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


class Frugality:
    """How much is computed at once. Starts generous, tightens when memory runs out, and stays so for the run."""

    def __init__(self) -> None:
        self.recompute = False
        self.token_budget = TOKEN_BUDGET

    def tighten(self) -> bool:
        """Compute less at once from now on, and say so; False where nothing is left to try."""
        if not self.recompute:
            self.recompute = True
            logger.warning("Prefix tree: out of memory; layers are computed again in the backward pass from now on.")
            return True
        if self.token_budget <= SMALLEST_PACK:
            return False
        self.token_budget //= 2
        logger.warning("Prefix tree: out of memory; packs of at most %d tokens from now on.", self.token_budget)
        return True

    def score(
        self, model: torch.nn.Module, batch: Batch, temperature: float, device: torch.device, one_pass: bool = False
    ) -> Scores:
        """:func:`scoring.score`, tried again with less at once when memory runs out.

        ``one_pass`` keeps to a single pass through the model, whatever its size.
        """
        base = base_model(model)
        vocabulary = 1 if base is None else int(base.config.vocab_size)
        while True:
            budget = None if one_pass else min(self.token_budget, LOGIT_BUDGET // vocabulary)
            try:
                with _recomputing(base, self.recompute and torch.is_grad_enabled()):
                    return score(model, batch, temperature, device, token_budget=budget)
            except RuntimeError as error:  # torch.OutOfMemoryError is one
                if not out_of_memory(error) or not self.tighten():
                    raise


@contextmanager
def _recomputing(base: PreTrainedModel | None, wanted: bool) -> Iterator[None]:
    """Gradient checkpointing inside, where it was off; a layer called inside keeps it for its backward pass."""
    if base is None or not wanted or base.is_gradient_checkpointing:
        yield
        return
    base.gradient_checkpointing_enable({"use_reentrant": False})
    try:
        yield
    finally:
        base.gradient_checkpointing_disable()
