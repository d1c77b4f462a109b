"""``reward-flat``."""

from typing import ClassVar

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.signals import at_top
from evenhand.diagnosis.statistics import FEWEST_ROWS, trend_of
from evenhand.records import Severity


class RewardFlat(Rule):
    """The reward shows no trend that noise would not make by itself.

    ## Why it matters

    The run is training, but nothing says that it improves. On a short log that may be all that can be said; on a long
    one it is time to look at the reward's terms and at a held-out score.

    ## Example

    `reward` 1.72, 1.88, 1.68, 1.97, 1.76, 1.79, 1.85, 1.75 over 120 steps.

    ## Remedy

    Go on if the log is short. Else look whether terms cancel each other, whether the learning rate moves the weights
    (`evenhand probe`), and whether groups have spread.
    """

    code: ClassVar[str] = "reward-flat"
    severity: ClassVar[Severity] = "note"
    live: ClassVar[bool] = False

    def judge(self, history: History) -> Verdict:
        """At least eight rows, and a rank trend inside the 95 % band of no trend."""
        reward = history.get("reward").finite
        trend = trend_of(reward)
        if trend is None:
            return self.unknown(f"{len(reward)} rows with a reward; a trend needs {FEWEST_ROWS}")
        best = history.setting("reward_max")
        done = best is not None and at_top(reward) and float(reward.values[-1]) >= 0.95 * best
        if not trend.flat or done:
            return None
        return self.finding(
            f"The reward shows no trend beyond noise over {len(reward)} rows: {trend.change:+.3g} against "
            f"{trend.noise:.3g} from row to row. The run trains, but not visibly for the better.",
            step=reward.steps[0],
            evidence={
                "change": trend.change, "noise": trend.noise, "z": trend.z, "rows": len(reward),
                "steps": [reward.steps[0], reward.steps[-1]],
            },
            remedy="Look at each reward term and at a held-out score; with few rows, go on.",
        )  # fmt: skip

    def sick(self) -> History:
        """Eight rows around 1.8."""
        return history_of({"reward": [1.72, 1.88, 1.68, 1.97, 1.76, 1.79, 1.85, 1.75], "grad_norm": [0.1] * 8})


RULE = RewardFlat()
