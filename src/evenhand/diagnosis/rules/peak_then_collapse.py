"""``peak-then-collapse``."""

from typing import ClassVar

from evenhand.diagnosis.held_out import fallen
from evenhand.diagnosis.history import History, Series, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.statistics import DROP_Z, Drop, drop_of, trend_of
from evenhand.records import Severity

# Share of what was gained (from the lowest level before the peak) that must be lost. Reward also falls a little where
# the data's order brings harder prompts: half of the gain is far beyond that.
LOST = 0.5
# ... and this share of the level itself: rewards swing by a tenth with the order of the data.
FALLEN = 0.25


class PeakThenCollapse(Rule):
    """The reward, or a held-out score, has lost half of what it had gained, or a quarter of where it began.

    ## Why it matters

    The best model lies behind, and every further step leads away from it. Often text turns repetitive at the same time,
    with KL or entropy swinging.

    ## Example

    Reward rises to 1.3 by step 250 and falls to 0 between steps 270 and 300, shortly after the first epoch.

    ## Remedy

    Stop. Take the checkpoint named here, lower the learning rate or raise `beta`, and do not pass the first epoch
    without a held-out score.
    """

    code: ClassVar[str] = "peak-then-collapse"
    severity: ClassVar[Severity] = "stop"
    explains: ClassVar[frozenset[str]] = frozenset({"reward-flat", "sampled-score-is-not-dev-score"})

    def judge(self, history: History) -> Verdict:
        """A drop of six standard errors from the best smoothed level that takes half of the gain; or a held-out one."""
        reward = history.get("reward").finite
        drop = collapse_of(reward)
        fall = fallen(history)
        if drop_of(reward) is None and fall is None:
            return self.unknown(f"{len(reward)} rows with a reward; a peak and a fall need at least 15")
        if drop is not None:
            keep = best_checkpoint(history, drop.peak_step)
            return self.finding(
                f"The reward fell from {drop.peak:.3g} at step {drop.peak_step:.0f} to {drop.last:.3g}, beyond noise: "
                f"the best model lies behind{f', in checkpoint {keep}' if keep is not None else ''}.",
                step=drop.onset,
                evidence={
                    "peak": drop.peak, "peak_step": drop.peak_step, "last": drop.last, "z": min(drop.z, 1e6),
                    "checkpoint": keep, "kl": self.rising(history, "kl"), "rows": len(reward),
                },
                remedy="Stop, keep that checkpoint, lower the learning rate or raise beta.",
            )  # fmt: skip
        if fall is not None and fall.clear and not fall.reward_rises and fall.lost >= LOST:
            keep = best_checkpoint(history, fall.peak_step)
            return self.finding(
                f"The held-out {fall.metric} fell from {fall.peak:.3g} at step {fall.peak_step:.0f} to {fall.last:.3g}"
                f", beyond noise: the best model lies behind{f', in checkpoint {keep}' if keep is not None else ''}.",
                step=fall.onset,
                evidence={"metric": fall.metric, "peak": fall.peak, "last": fall.last, "z": fall.z, "checkpoint": keep},
                remedy="Stop, keep that checkpoint, lower the learning rate or raise beta.",
            )
        return None

    def rising(self, history: History, name: str) -> bool | None:
        """Whether a key rises beyond noise; None where that cannot be judged."""
        trend = trend_of(history.get(name))
        return None if trend is None else trend.rises

    def sick(self) -> History:
        """A climb to 1.3 and a fall to nothing."""
        climb = [0.4 + 0.03 * step + 0.04 * (-1) ** step for step in range(30)]
        fall = [1.2, 0.9, 0.6, 0.4, 0.2] + [0.05, 0.0] * 4
        return history_of({"reward": climb + fall, "grad_norm": [0.4] * 43}, interval=10, checkpoints=(100, 200, 300))


def collapse_of(reward: Series) -> Drop | None:
    """The fall of a reward where it is beyond noise, and half of the gain and a quarter of the level are gone."""
    drop = drop_of(reward)
    if drop is None or drop.z < DROP_Z:
        return None
    gain, fall = drop.peak - drop.floor, drop.peak - drop.last
    deep = fall >= LOST * gain and fall >= FALLEN * max(abs(drop.peak), abs(drop.last), gain)
    return drop if deep else None


def best_checkpoint(history: History, peak_step: float) -> int | None:
    """The kept checkpoint nearest to the peak that is not after it; else the nearest."""
    if not history.checkpoints:
        return None
    earlier = [kept for kept in history.checkpoints if kept <= peak_step]
    return max(earlier) if earlier else min(history.checkpoints)


RULE = PeakThenCollapse()
