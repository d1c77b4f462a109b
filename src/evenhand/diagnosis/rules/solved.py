"""``solved``."""

from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.signals import at_top, dead_since, goal_part, starts_at_the_start, uniform_share, usual_range
from evenhand.diagnosis.statistics import level_window
from evenhand.records import Severity

# Share of uniform groups from which somebody would worry.
WORRYING = 0.9
# The last level must reach this share of what the reward can pay (or, where that is unknown, of the best row).
OF_MAXIMUM = 0.97
# Spread from row to row, as a share of the top. One wrong completion in 32 moves a row by 2 %; a policy that answers
# only some prompts moves it by 30 %.
UNEVEN = 0.1
# Above this a held-out score does not contradict that the task is solved.
HELD_OUT_GOOD = 0.8


def success_level(history: History, onset: float) -> float | None:
    """The reward's level since ``onset`` where it is at its top and stays there, else None.

    At its top means: at the highest level of the whole log, even from row to row (prompts differ, so a policy that is
    right about some of them only would vary), and the goal's own term at its top as well.
    """
    reward = history.get("reward").finite
    late = reward.since(onset)
    if len(late) < 2:
        return None
    level = float(late.values.mean())
    best = top_reward(history)
    span = max(best - float(reward.values.max()) + usual_range(reward), 1e-12)
    even = float(late.values.std()) <= UNEVEN * max(span, abs(best))
    paid = level >= best - (1 - OF_MAXIMUM) * max(span, abs(best)) and (level > 0 or level > best - 0.8 * span)
    goal = goal_part(history)
    goal_reached = goal is None or (at_top(goal.mean) and float(goal.mean.finite.values[-1]) > 0)
    if not (even and paid and goal_reached) or held_out_contradicts(history):
        return None
    return level


def top_reward(history: History) -> float:
    """What a completion can earn at most: as the task says, else the best row so far."""
    known = history.setting("reward_max")
    return known if known is not None else float(history.get("reward").finite.values.max())


def held_out_contradicts(history: History) -> bool:
    """Whether the last evaluation of the goal says that the task is not solved."""
    named = history.settings.get("goal_metric")
    for name, series in history.held_out():
        clean = series.finite
        if len(clean) and (name == named or (named is None and "acc" in name)):
            return float(clean.values[-1]) < HELD_OUT_GOOD
    return False


class Solved(Rule):
    """Groups are uniform and the gradient is small because everything is right.

    ## Why it matters

    Zero-variance groups at 1 and a vanishing gradient look like a collapse. Here they are the end of the work: nothing
    is left to prefer.

    ## Example

    Reward at 2.5 of 2.5 on every row since step 60, zero-variance groups 0.97, entropy 0.02.

    ## Remedy

    Stop, or ask for more: harder problems, or a reward with headroom. Measure on a held-out split what was gained.
    """

    code: ClassVar[str] = "solved"
    severity: ClassVar[Severity] = "ok"
    explains: ClassVar[frozenset[str]] = frozenset(
        {
            "collapsing", "groups-uniform", "reward-flat", "format-saturated", "low-entropy-is-normal",
            "loss-zero-is-normal", "constant-reward-term", "updates-swallowed",
        }
    )  # fmt: skip

    def judge(self, history: History) -> Verdict:
        """Uniform at the end, at the reward's top, after having been below it."""
        share = uniform_share(history).finite
        if not len(share):
            return self.unknown("neither frac_reward_zero_std nor reward_std was logged")
        window = level_window(len(share))
        if len(share) < 3 or float(share.tail(window).values.mean()) < WORRYING:
            return None
        below = np.flatnonzero(share.values < 0.5)
        onset = float(share.steps[min(int(below[-1]) + 1, len(share) - 1)]) if len(below) else float(share.steps[0])
        onset = min(onset, float(share.steps[-min(window, len(share))]))
        level = success_level(history, dead_since(share) or onset) or success_level(history, onset)
        reward = history.get("reward").finite
        rose = len(reward) > 0 and level is not None and level > float(reward.values[:3].mean()) + 1e-9
        if level is None or not (rose or not starts_at_the_start(history) or history.setting("reward_max") is not None):
            return None
        return self.finding(
            f"Groups are uniform because everything is right: the reward stands at {level:.4g}, its highest, since "
            f"step {onset:.0f}. This is no collapse.",
            step=onset,
            evidence={"reward": level, "uniform_groups": float(share.tail(window).values.mean())},
            remedy="Stop here, or go on with harder problems.",
        )

    def sick(self) -> History:
        """A reward that climbs to 2.5 and stays."""
        rise = [1.0, 1.3, 1.6, 1.9, 2.2, 2.4] + [2.5] * 10
        uniform = [0.0, 0.0, 0.1, 0.2, 0.4, 0.8] + [1.0] * 10
        return history_of(
            {
                "reward": rise, "frac_reward_zero_std": uniform, "entropy": [0.4, 0.3, 0.2, 0.1, 0.05] + [0.02] * 11,
                "grad_norm": [5.0, 4.0, 3.0, 2.0, 1.0, 0.5] + [0.0] * 10, "loss": [0.0] * 16,
            }
        )  # fmt: skip


RULE = Solved()
