"""``gradient-zero-despite-spread``."""

from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.records import Severity

FEWEST_ROWS = 3  # an exact zero beside live advantages is no accident on one row; three allow for a warm-up row


class GradientZeroDespiteSpread(Rule):
    """Groups have spread, and the gradient norm is exactly zero all the same.

    ## Why it matters

    Advantages are there and do not arrive: the loss is detached from the weights, an adapter is not trainable, or the
    engine reports no norm. Unlike a collapse, more varied rewards do not help.

    ## Example

    `reward_std` 0.44 and `frac_reward_zero_std` 0.0 beside `grad_norm` 0.0 and `kl` 0.0 on every row.

    ## Remedy

    Check that parameters require a gradient after the trainer is built, and that the distributed engine reports its
    norm; `evenhand probe` measures whether weights move.
    """

    code: ClassVar[str] = "gradient-zero-despite-spread"
    severity: ClassVar[Severity] = "stop"
    explains: ClassVar[frozenset[str]] = frozenset({"reward-flat", "loss-zero-is-normal", "updates-swallowed"})

    def judge(self, history: History) -> Verdict:
        """All rows with spread have a gradient of exactly zero, and the KL has not moved either."""
        steps, (gradient, spread) = history.aligned("grad_norm", "reward_std")
        if not len(steps):
            return self.unknown("grad_norm and reward_std were not both logged")
        uniform = history.get("frac_reward_zero_std")
        same = np.isin(steps, uniform.steps[uniform.values >= 1.0])
        lively = (spread > 1e-6) & ~same
        kl = history.get("kl").finite.values
        if int(lively.sum()) < FEWEST_ROWS or np.any(gradient[lively] != 0) or np.any(np.abs(kl) > 1e-4):
            return None
        return self.finding(
            f"Groups have spread on {int(lively.sum())} rows and the gradient norm is exactly 0 on all of them: the "
            "loss does not reach the weights.",
            step=steps[lively][0],
            evidence={"rows": int(lively.sum()), "reward_std": float(spread[lively].mean())},
            remedy="Check which parameters require a gradient, then run evenhand probe.",
        )

    def sick(self) -> History:
        """Spread without a gradient."""
        return history_of(
            {
                "grad_norm": [0.0] * 5, "reward_std": [0.44, 0.4, 0.5, 0.41, 0.39], "frac_reward_zero_std": [0.0] * 5,
                "reward": [0.34, 0.4, 0.3, 0.36, 0.35], "kl": [0.0] * 5, "loss": [0.0] * 5,
            }
        )  # fmt: skip


RULE = GradientZeroDespiteSpread()
