"""``sampled-score-is-not-dev-score``."""

from typing import ClassVar

from evenhand.diagnosis.held_out import difference_z, goal_series
from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.statistics import TREND_Z, trend_of
from evenhand.records import Severity


class SampledScoreIsNotDevScore(Rule):
    """The sampled training reward rises beside a held-out score that stands still.

    ## Why it matters

    The two are different numbers: training samples at a temperature on training problems, a dev score decodes greedily
    on others. A policy that only becomes surer of what it already preferred raises the first and not the second.

    ## Example

    Training reward 0.4 to 0.9 over 100 steps, dev accuracy 0.30, 0.32, 0.28, 0.30, 0.32.

    ## Remedy

    Report the held-out score. If it should move and does not, look at which predictions change.
    """

    code: ClassVar[str] = "sampled-score-is-not-dev-score"
    severity: ClassVar[Severity] = "note"
    live: ClassVar[bool] = False

    def judge(self, history: History) -> Verdict:
        """A rise beyond noise on one side, none on the other, over at least three evaluations."""
        found, reward = goal_series(history), trend_of(history.get("reward"))
        if found is None:
            return self.unknown("no held-out score was logged")
        metric, series = found
        if reward is None or len(series) < 3:
            return self.unknown("too few rows or evaluations to compare two trends")
        z = difference_z(history, metric, float(series.steps[0]), float(series.steps[-1]))
        if z is None:
            trend = trend_of(series)
            z = trend.z if trend is not None else 0.0
            if trend is None and abs(float(series.values[-1] - series.values[0])) > 0.05 * abs(float(series.values[0])):
                return None
        if not reward.rises or z >= TREND_Z - 1 or float(series.values[-1]) >= 0.95:
            return None
        return self.finding(
            f"The sampled training reward rises by {reward.change:.3g} while the held-out {metric} stays at "
            f"{series.values[-1]:.3g}: different problems, different decoding. Only the second says what was learned.",
            step=series.steps[0],
            evidence={"reward_change": reward.change, metric: [series.values[0], series.values[-1]], "z": z},
            remedy="Report the held-out score.",
        )

    def sick(self) -> History:
        """Reward doubles, dev stands."""
        reward = [0.4 + 0.05 * step for step in range(10)]
        dev = [0.30, 0.32, 0.28, 0.30, 0.32, 0.30, 0.29, 0.31, 0.30, 0.30]
        return history_of({"reward": reward, "eval/accuracy": dev, "grad_norm": [0.5] * 10}, interval=10)


RULE = SampledScoreIsNotDevScore()
