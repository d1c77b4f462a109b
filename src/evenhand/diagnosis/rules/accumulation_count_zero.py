"""``accumulation-count-zero``."""

from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.records import Severity


def gradient_alone_is_nan(history: History) -> bool:
    """Whether the gradient is NaN from the first row on while everything else stays finite.

    Not so where the loss is exactly 0.0: that is how TRL logs a NaN loss.
    """
    gradient, loss = history.get("grad_norm"), history.get("loss")
    if not len(gradient) or not np.isnan(gradient.values).all() or not len(loss):
        return False
    others = [history.get(name).values for name in ("loss", "kl", "entropy")]
    finite = all(np.isfinite(values).all() for values in others)
    return finite and bool(np.any(loss.values != 0.0)) and not any(len(steps) for steps in history.nulls.values())


class AccumulationCountZero(Rule):
    """The gradient is NaN from the first row on, and nothing else is.

    ## Why it matters

    The forward pass is sound, so the weights are; the gradient is divided by a count that came out as zero. That
    happens where a device receives fewer completions than one micro-batch. No update takes place.

    ## Example

    Four devices, `grad_norm` nan on every row, `loss` 0.013, 0.009, 0.011; the same script on one device is fine.

    ## Remedy

    Give every device at least one micro-batch: completions per update / devices >= micro-batch size.
    """

    code: ClassVar[str] = "accumulation-count-zero"
    severity: ClassVar[Severity] = "stop"

    def judge(self, history: History) -> Verdict:
        """Holds on all rows or on none."""
        if not gradient_alone_is_nan(history):
            return None
        gradient = history.get("grad_norm")
        return self.finding(
            "The gradient norm is NaN from the first row while the loss stays finite: the mean over micro-batches "
            "divides by zero, or one device gets fewer completions than one micro-batch.",
            step=gradient.steps[0],
            evidence={"rows": len(gradient), "finite_losses": len(history.get("loss"))},
            remedy="Make completions per update / devices at least one micro-batch, then start again.",
        )

    def sick(self) -> History:
        """A finite loss beside a NaN gradient."""
        nan = float("nan")
        return history_of({"loss": [0.013, 0.009, 0.011], "grad_norm": [nan, nan, nan], "reward": [0.3, 0.4, 0.3]})


RULE = AccumulationCountZero()
