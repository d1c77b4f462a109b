"""``collapsing``."""

from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.rules.solved import success_level, top_reward
from evenhand.diagnosis.signals import uniform_share
from evenhand.diagnosis.statistics import level_window
from evenhand.records import Severity

# Entropy has to fall below a tenth of where it began. Healthy runs of the reference and of small models fall to a
# third or a fifth while they learn; the reference collapse fell to a sixth in ten steps and to 1/300 in twenty.
ENTROPY_RATIO = 0.1
# Uniform groups must have become the rule, from not being it.
UNIFORM_NOW = 0.7
# A reward this share of its range above the start is being earned: then uniform groups come from success.
PROGRESS = 0.5


class Collapsing(Rule):
    """Entropy falls by orders of magnitude while uniform groups take over, without the reward rising.

    ## Why it matters

    This is a collapse on its way. A few steps later no group has spread and nothing can be learned any more.

    ## Example

    Entropy 0.61, 0.33, 0.09, 0.02 with zero-variance groups 0.25, 0.5, 0.75, 1.0 over 20 steps, reward standing still.

    ## Remedy

    Stop and go back to a checkpoint with live entropy; lower the learning rate, or raise `entropy_coef` or `beta`.
    """

    code: ClassVar[str] = "collapsing"
    severity: ClassVar[Severity] = "warn"
    explains: ClassVar[frozenset[str]] = frozenset({"reward-flat", "groups-uniform"})

    def judge(self, history: History) -> Verdict:
        """Both movements, in the same stretch, with no success behind them."""
        entropy, share = history.get("entropy").finite, uniform_share(history).finite
        if not len(entropy) or not len(share):
            return self.unknown("entropy or frac_reward_zero_std was not logged")
        window = min(level_window(len(entropy)), max(1, len(entropy) // 3))
        if len(entropy) < 3:
            return self.unknown(f"{len(entropy)} rows with entropy, 3 are needed")
        began, now = float(entropy.values[:window].mean()), float(entropy.tail(window).values.mean())
        uniform_then = float(share.values[:window].mean())
        uniform_now = float(share.tail(window).values.mean())
        falling = began > 0 and now < ENTROPY_RATIO * began
        if not falling or uniform_now < UNIFORM_NOW or uniform_now <= uniform_then or self.earning(history):
            return None
        low = np.flatnonzero(entropy.values >= ENTROPY_RATIO * began)
        onset = float(entropy.steps[min(int(low[-1]) + 1, len(entropy) - 1)])
        if success_level(history, onset) is not None:
            return None
        return self.finding(
            f"Entropy fell from {began:.3g} to {now:.3g} and uniform groups rose from {uniform_then:.0%} to "
            f"{uniform_now:.0%} without the reward following: a collapse is on its way.",
            step=onset,
            evidence={"entropy": [began, now], "uniform_groups": [uniform_then, uniform_now]},
            remedy="Lower the learning rate, or raise entropy_coef or beta, from a checkpoint before this step.",
        )

    def earning(self, history: History) -> bool:
        """Whether the reward now stands in the upper half of its range, above where it began."""
        reward = history.get("reward").finite
        if len(reward) < 3:
            return False
        window = min(level_window(len(reward)), max(1, len(reward) // 3))
        began, now = float(reward.values[:window].mean()), float(reward.tail(window).values.mean())
        best = top_reward(history)
        return now > began and now - began >= PROGRESS * (best - began)

    def sick(self) -> History:
        """Entropy gone in twelve steps, reward unmoved."""
        return history_of(
            {
                "entropy": [0.6, 0.58, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.01],
                "frac_reward_zero_std": [0, 0.25, 0, 0.25, 0.5, 0.5, 0.5, 0.75, 0.75, 0.75, 0.75, 1.0],
                "reward": [0.4, 0.5, 0.4, 0.45, 0.4, 0.5, 0.4, 0.4, 0.5, 0.4, 0.45, 0.4], "grad_norm": [1.0] * 12,
            }
        )  # fmt: skip


RULE = Collapsing()
