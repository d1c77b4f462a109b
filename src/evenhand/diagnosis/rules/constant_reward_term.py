"""``constant-reward-term``."""

from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import History, RewardPart, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.signals import goal_part
from evenhand.records import Severity

# A mean over sampled completions that repeats to the last digit is no accident unless it is 0 or 1: three rows do.
FEWEST_ROWS = 3
# A goal that is never earned may be a hard one at its beginning: ten rows of a healthy start must not be accused.
FEWEST_ROWS_AT_ZERO = 20


class ConstantRewardTerm(Rule):
    """The term that stands for the task itself never varies, while others do.

    ## Why it matters

    A constant has no gradient. Often it is what a reward function returns where the gold answer cannot be read; the run
    then optimises style alone, and the total still creeps up.

    ## Example

    `rewards/accuracy_reward` 0.5 on every row while `rewards/reasoning_steps_reward` rises from 0.893 to 0.913.

    ## Remedy

    Count how many gold answers the reward function can read; run the preflight checks on it.
    """

    code: ClassVar[str] = "constant-reward-term"
    severity: ClassVar[Severity] = "stop"
    explains: ClassVar[frozenset[str]] = frozenset({"reward-flat"})

    def judge(self, history: History) -> Verdict:
        """The goal's term has one value on all rows, and the total has more."""
        goal = goal_part(history)
        if goal is None:
            return self.unknown("no reward term is known to be the goal") if len(history.parts()) != 1 else None
        values = goal.mean.finite.values
        reward = history.get("reward").finite.values
        if len(values) < FEWEST_ROWS or not self.constant(goal):
            return None
        level = float(values[0])
        if level in {0.0, 1.0} and len(values) < FEWEST_ROWS_AT_ZERO:
            return None
        if len(np.unique(reward)) < 2 or level == 1.0:  # all constant is another event; all right is none
            return None
        return self.finding(
            f"The goal's reward {goal.name} is {level:.4g} on all {len(values)} rows: it has no gradient, so the run "
            "optimises only the other terms.",
            step=goal.mean.steps[0],
            evidence={"term": goal.name, "value": level, "rows": len(values)},
            remedy="Check that the reward can read the gold answers (evenhand preflight).",
        )

    def constant(self, goal: RewardPart) -> bool:
        """One value on every row, and no spread inside a batch where that was logged."""
        spread = goal.std.finite.values
        return bool(np.ptp(goal.mean.finite.values) < 1e-9) and not np.any(spread > 1e-9)

    def sick(self) -> History:
        """Accuracy stuck at its neutral value."""
        return history_of(
            {
                "reward": [1.382, 1.386, 1.403], "reward_std": [0.153, 0.145, 0.136], "grad_norm": [3.3, 3.7, 4.1],
                "rewards/accuracy_reward/mean": [0.5] * 3, "rewards/format_reward/mean": [0.0] * 3,
                "rewards/reasoning_steps_reward/mean": [0.893, 0.898, 0.913],
            }
        )  # fmt: skip


RULE = ConstantRewardTerm()
