"""``loss-zero-is-normal``."""

from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.signals import alive
from evenhand.records import Severity

# "About zero": below what people report as alarming (0.0 to 0.0001) and above what the entropy term of the reference
# configuration adds (0.01 x 0.6).
ABOUT_ZERO = 0.01
FEWEST_ROWS = 3  # one row may be anything


class LossZeroIsNormal(Rule):
    """The printed loss is about zero while gradient and group spread are alive.

    ## Why it matters

    With one update per generation the ratio of new to old policy is exactly 1 and advantages sum to zero inside a
    group, so the policy loss prints as about zero. Its gradient is not zero. Loss is no measure of progress here, and
    people stop sound runs over it.

    ## Example

    `loss` 0.0 on every row, `grad_norm` 0.09 to 0.12, `reward_std` 0.54 to 0.79.

    ## Remedy

    Nothing. Judge the run by its reward terms and by a held-out score.
    """

    code: ClassVar[str] = "loss-zero-is-normal"
    severity: ClassVar[Severity] = "ok"
    live: ClassVar[bool] = False

    def judge(self, history: History) -> Verdict:
        """Loss about zero on nearly all rows, gradient and spread alive at the end."""
        loss = history.get("loss").finite
        if len(loss) < FEWEST_ROWS:
            return self.unknown(f"{len(loss)} rows with a loss, {FEWEST_ROWS} are needed")
        spread = history.get("reward_std").finite
        if float(np.median(np.abs(loss.values))) > ABOUT_ZERO or not alive(history):
            return None
        if len(spread) and float(np.median(spread.values)) <= 0:
            return None
        gradient = history.get("grad_norm").finite.values
        return self.finding(
            f"A loss of about 0 is normal: with one update per generation it says nothing about progress. The gradient "
            f"(norm {gradient.min():.3g} to {gradient.max():.3g}) and the spread inside groups are alive, so the "
            "updates are real.",
            step=loss.steps[0],
            evidence={
                "loss": [loss.values.min(), loss.values.max()],
                "grad_norm": [gradient.min(), gradient.max()],
                "reward_std": [spread.values.min(), spread.values.max()] if len(spread) else None,
                "rows": len(loss),
            },
            remedy="Judge by the reward terms and a held-out score.",
        )

    def sick(self) -> History:
        """Zero loss, live gradient."""
        return history_of(
            {
                "loss": [0.0] * 4, "grad_norm": [0.09, 0.1, 0.11, 0.1], "reward_std": [0.6, 0.7, 0.5, 0.6],
                "reward": [1.7, 1.9, 1.7, 1.8],
            }
        )  # fmt: skip


RULE = LossZeroIsNormal()
