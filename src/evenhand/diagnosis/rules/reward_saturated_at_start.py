"""``reward-saturated-at-start``."""

from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.signals import per_row, starts_at_the_start, uniform_share
from evenhand.records import Severity

# Completions that must all have earned the same. A model that is right in 99 % would show 80 equal ones by luck in 45
# runs of 100, so the share of uniform rows alone is not enough: nothing at all may have varied.
FEWEST_COMPLETIONS = 80
FEWEST_ROWS = 3


class RewardSaturatedAtStart(Rule):
    """From the first row on every completion earns the same, and nothing changes.

    ## Why it matters

    The first model is already at the reward's ceiling, or never leaves its floor. Either way there is nothing to
    prefer, and more steps cannot help.

    ## Example

    `reward` 4.0, `reward_std` 0.0, `frac_reward_zero_std` 1.0 and `grad_norm` 0.0 from the first row.

    ## Remedy

    At the ceiling: harder prompts, or a reward with headroom. At the floor: partial credit, easier prompts, a longer
    completion limit, or examples to learn the form from first.
    """

    code: ClassVar[str] = "reward-saturated-at-start"
    severity: ClassVar[Severity] = "stop"
    explains: ClassVar[frozenset[str]] = frozenset(
        {
            "groups-uniform", "solved", "reward-flat", "constant-reward-term", "format-saturated",
            "collapsed-identical-rollouts", "updates-swallowed", "loss-zero-is-normal",
        }
    )  # fmt: skip

    def judge(self, history: History) -> Verdict:
        """One reward on all rows from the start of the run, with all groups uniform."""
        reward, share = history.get("reward").finite, uniform_share(history).finite
        if not len(reward) or not len(share):
            return self.unknown("reward or the spread inside groups was not logged")
        enough = len(reward) >= FEWEST_ROWS and len(reward) * per_row(history) >= FEWEST_COMPLETIONS
        constant = float(np.ptp(reward.values)) < 1e-9 and float(share.values.min()) >= 1
        varied = any(np.any(part.std.values > 1e-9) for part in history.parts())
        if not (enough and constant and starts_at_the_start(history)) or varied:
            return None
        level = float(reward.values[0])
        ceiling = level > 0
        where = "at the top of what it can earn" if ceiling else "at the bottom"
        return self.finding(
            f"Every completion earns {level:.4g} from the first row on: the first model is {where}, there is nothing "
            "to prefer, and more steps cannot help.",
            step=reward.steps[0],
            evidence={"reward": level, "rows": len(reward)},
            remedy="Use harder prompts or a reward with headroom."
            if ceiling
            else "Give partial credit, easier prompts or a longer limit.",
        )

    def sick(self) -> History:
        """Twelve rows at 4.0."""
        rows = 12
        return history_of(
            {
                "reward": [4.0] * rows, "reward_std": [0.0] * rows, "frac_reward_zero_std": [1.0] * rows,
                "grad_norm": [0.0] * rows, "loss": [0.0] * rows,
            }
        )  # fmt: skip


RULE = RewardSaturatedAtStart()
