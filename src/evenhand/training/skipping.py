"""An update's passes without the completions that have no gradient.

Where a loss holds advantages alone, without a KL penalty and without an entropy bonus, a completion whose advantages
are all 0 adds exactly 0 to the gradient: it counts in the loss's denominators and nowhere else. Denominators need its
mask, which is known without computing it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from trl import GRPOTrainer

from evenhand.prefixtree.support import dropout_refusal


@dataclass(frozen=True, slots=True)
class Taught:
    """The rows of a micro-batch that are computed, and what stands in for the others.

    Attributes:
        rows: Indices of the rows that are computed, ascending, [K].
        mask: The tokens that the loss is over, [B, C].
        old: Log-probabilities before the update, [B, C]; None where TRL takes those of this very pass.
    """

    rows: torch.Tensor
    mask: torch.Tensor
    old: torch.Tensor | None

    @classmethod
    def of(cls, inputs: Mapping[str, Any]) -> "Taught | None":
        """Of a micro-batch of TRL's; None where every row has a gradient.

        One row always stays, the shortest that has a token: so gradients exist, as zeros, and an optimiser's momentum
        moves the weights as it does without skipping.
        """
        mask = loss_mask(inputs)
        teaching = with_gradient(inputs["advantages"], mask)
        if not teaching.any():
            lengths = inputs["prompt_mask"].sum(dim=1) + mask.sum(dim=1)
            empty = mask.sum(dim=1) == 0
            teaching[(lengths + empty * (int(lengths.max()) + 1)).argmin()] = True
        if teaching.all():
            return None
        return cls(teaching.nonzero().squeeze(1), mask, inputs.get("old_per_token_logps"))

    def log_probabilities(self, computed: torch.Tensor) -> torch.Tensor:
        """Of all rows, [B, C], from those computed, [K, C]: a row left out has a ratio of 1 to the old policy."""
        # without old ones TRL divides by these very ones, so that any number gives the ratio 1
        others = torch.zeros_like(self.mask) if self.old is None else self.old
        return others.to(computed.dtype).index_copy(0, self.rows, computed)

    def entropies(self, computed: torch.Tensor) -> torch.Tensor:
        """Of all rows, [B, C], from those computed, [K, C].

        Those of a row left out are not known. It gets the mean over the tokens of the rows that were computed, so that
        what TRL logs as ``entropy`` is the entropy of the completions that teach.
        """
        seen = self.mask[self.rows].to(computed.dtype)
        mean = (computed * seen).sum() / seen.sum().clamp(min=1.0)
        return mean.expand(self.mask.shape).index_copy(0, self.rows, computed)


def taught_rows(trainer: GRPOTrainer, inputs: Mapping[str, Any]) -> Taught | None:
    """The rows that an update must compute; None where it must compute all of them."""
    return Taught.of(inputs) if advantages_alone(trainer, inputs) else None


def advantages_alone(trainer: GRPOTrainer, inputs: Mapping[str, Any]) -> bool:
    """Whether the gradient of each row is that of its advantages' term, and of no other row's business.

    With dropout, leaving rows out would draw other numbers for those that stay.
    """
    other_terms = trainer.beta != 0.0 or trainer._entropy_bonus_enabled or trainer.aux_loss_enabled
    over_rows = trainer.top_entropy_quantile < 1.0 or trainer.off_policy_mask_threshold is not None
    elsewhere = trainer.use_vllm or trainer.args.use_liger_kernel or "num_images" in inputs
    return not (other_terms or over_rows or elsewhere or dropout_refusal(trainer.model))


def loss_mask(inputs: Mapping[str, Any]) -> torch.Tensor:
    """The tokens that the loss is over, [B, C]: a completion's, without what tools wrote."""
    mask: torch.Tensor = inputs["completion_mask"]
    return mask * inputs["tool_mask"] if "tool_mask" in inputs else mask


def with_gradient(advantages: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Which rows have a token with an advantage, [B], from advantages [B] or [B, C] and the loss's mask [B, C]."""
    columns = advantages if advantages.ndim > 1 else advantages[:, None]
    return ((columns != 0) & mask.bool()).any(dim=1)
