"""``loss-tracks-beta-kl``."""

from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import Floats, History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.records import Severity

# A printed loss is rounded to four digits after the point.
ROUNDING = 6e-5
# beta x KL may miss the loss by this share: both are means over slightly different rows.
TOLERANCE = 0.25
# TRL's default before it became 0, taken where no beta is known.
OLD_DEFAULT_BETA = 0.04


class LossTracksBetaKl(Rule):
    """The loss rises because it is beta times KL.

    ## Why it matters

    The policy term of the loss prints as about zero, so with beta above 0 what is printed is the KL term. It rises as
    the policy leaves its reference, which is what training is for; to an eye used to supervised training it looks like
    divergence.

    ## Example

    `loss` 0.0, 0.0, 0.0001 beside `kl` 0.0004, 0.0010, 0.0025 with beta 0.04.

    ## Remedy

    Nothing. Look at reward against KL instead of at the loss.
    """

    code: ClassVar[str] = "loss-tracks-beta-kl"
    severity: ClassVar[Severity] = "ok"
    explains: ClassVar[frozenset[str]] = frozenset({"loss-zero-is-normal"})
    live: ClassVar[bool] = False

    def judge(self, history: History) -> Verdict:
        """Loss rises, and equals beta x KL row by row up to rounding."""
        steps, (loss, kl) = history.aligned("loss", "kl")
        if len(steps) < 2:
            return self.unknown("loss and kl were not both logged on two rows")
        third = max(1, len(loss) // 3)
        rise = float(loss[-third:].mean() - loss[:third].mean())
        if not (np.isfinite(loss).all() and np.isfinite(kl).all()) or rise < 2e-5 or rise < 0.2 * abs(loss[0]):
            return None
        beta, said = self.beta(history, loss, kl)
        if beta is None or not self.equal(loss, beta * kl):
            return None
        return self.finding(
            f"The loss rises from {loss[0]:.2g} to {loss[-1]:.2g} because it is beta x KL ({beta:.3g} x {kl[-1]:.3g}): "
            "the policy leaves its reference, as it should. This is no divergence.",
            step=steps[0],
            evidence={"beta": beta, "beta_is": said, "loss": loss[[0, -1]].tolist(), "kl": kl[[0, -1]].tolist()},
            remedy="Judge the run by reward against KL.",
        )

    def beta(self, history: History, loss: Floats, kl: Floats) -> tuple[float | None, str]:
        """The KL coefficient: from the settings, or the one that fits the rows best."""
        known = history.setting("beta")
        if known is not None:
            return (known if known > 0 else None), "a setting"
        square = float((kl * kl).sum())
        if square <= 0:
            return None, ""
        fitted = float((loss * kl).sum()) / square
        if self.equal(loss, OLD_DEFAULT_BETA * kl):
            return OLD_DEFAULT_BETA, "TRL's old default, which fits"
        return (fitted if 1e-4 <= fitted <= 1.0 else None), "fitted"

    def equal(self, loss: Floats, expected: Floats) -> bool:
        """Whether the rows agree, all but one in ten."""
        near = np.abs(loss - expected) <= np.maximum(ROUNDING, TOLERANCE * np.abs(expected))
        return float(near.mean()) >= 0.9

    def sick(self) -> History:
        """The first rows of a run with beta 0.04."""
        return history_of(
            {
                "loss": [0.0, 0.0, 0.0001, 0.0003, 0.0008], "kl": [0.0004, 0.001, 0.0025, 0.0075, 0.02],
                "reward_std": [0.8, 0.75, 0.7, 0.7, 0.6], "grad_norm": [1.67, 0.98, 0.5, 0.6, 0.7],
            }
        )  # fmt: skip


RULE = LossTracksBetaKl()
