"""``easy-term-crowds-out-goal``."""

from typing import ClassVar

from evenhand.diagnosis.history import History, RewardPart, Series, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.signals import easy_parts, goal_part, listed
from evenhand.diagnosis.statistics import DROP_Z, drop_of, trend_of
from evenhand.records import Severity

# A log of three to seven rows shows no trend beyond noise by itself. There the goal must fall on every row and by half
# of its start, the total rise, an easy term rise, and a second sign agree: length changed by 40 %, or KL ten times
# higher. On independent noise around a constant, three rows do all this in fewer than 1 in 500 logs.
GOAL_FALL = 0.4
LENGTH_CHANGE = 0.4
KL_GROWTH = 10.0


class EasyTermCrowdsOutGoal(Rule):
    """The total reward rises while the term that stands for the task falls.

    ## Why it matters

    The policy takes what is cheapest: format, length, a fixed count. The curve that people watch goes up, and the
    ability that they train for goes down.

    ## Example

    Total 0.711, 0.694, 0.887 with accuracy 0.160, 0.118, 0.064 and format 0.476, 0.554, 0.857; the length halves.

    ## Remedy

    Lower the easy term's weight, or pay it only where the goal is met; judge the run by the goal's term.
    """

    code: ClassVar[str] = "easy-term-crowds-out-goal"
    severity: ClassVar[Severity] = "stop"
    explains: ClassVar[frozenset[str]] = frozenset(
        {"format-saturated", "reward-flat", "sampled-score-is-not-dev-score"}
    )

    def judge(self, history: History) -> Verdict:
        """Total up and goal down: beyond noise on a long log, with a second sign on a short one."""
        goal = goal_part(history)
        if goal is None:
            return self.unknown("no reward term is known to be the goal")
        others = easy_parts(history, goal)
        if not others:
            return None
        total, falling = trend_of(history.get("reward")), trend_of(goal.mean)
        if total is None or falling is None:
            holds = self.holds_on_a_short_log(history, goal)
            return self.report(history, goal, others) if holds else None
        down = falling.falls and falling.change < -GOAL_FALL / 2 * max(abs(falling.start), 0.05)
        if (total.rises and down) or self.falls_from_its_peak(history, goal):
            return self.report(history, goal, others)
        return None

    def falls_from_its_peak(self, history: History, goal: RewardPart) -> bool:
        """Whether the goal rose first and then fell beyond noise, while the total kept rising."""
        drop = drop_of(goal.mean)
        if drop is None or drop.z < DROP_Z or drop.last > (1 - GOAL_FALL) * drop.peak:
            return False
        later = trend_of(history.get("reward").since(drop.peak_step))
        return later is not None and later.rises

    def holds_on_a_short_log(self, history: History, goal: RewardPart) -> bool:
        """Goal strictly falling by 40 %, total up, and length or KL changed with it."""
        values, reward = goal.mean.finite.values, history.get("reward").finite.values
        if len(values) < 3 or len(reward) != len(values) or values[0] <= 0:
            return False
        falls = bool((values[1:] < values[:-1]).all()) and values[-1] <= (1 - GOAL_FALL) * values[0]
        length = history.get("completions/mean_length").finite.values
        kl = history.get("kl").finite.values
        moved = len(length) > 1 and abs(length[-1] / max(length[0], 1e-9) - 1) >= LENGTH_CHANGE
        drifted = len(kl) > 1 and kl[-1] >= KL_GROWTH * max(kl[0], 1e-9)
        return falls and bool(reward[-1] > reward[0]) and bool(moved or drifted)

    def report(self, history: History, goal: RewardPart, others: list[RewardPart]) -> Verdict:
        """The finding, with the terms that rose instead."""
        began, ended = ends(goal.mean)
        reward_began, reward_ended = ends(history.get("reward"))
        rose = [part.name for part in others if ends(part.mean)[1] > ends(part.mean)[0]]
        lengths = ends(history.get("completions/mean_length"))
        drop = drop_of(goal.mean)
        onset = drop.onset if drop is not None else goal.mean.steps[min(1, len(goal.mean) - 1)]
        return self.finding(
            f"The total reward rose from {reward_began:.3g} to {reward_ended:.3g} while the goal {goal.name} fell from "
            f"{began:.3g} to {ended:.3g}: the policy is paid for {listed(rose)} instead.",
            step=onset,
            evidence={
                "reward": [reward_began, reward_ended],
                goal.name: [began, ended],
                "rising_terms": rose,
                "mean_length": list(lengths) if len(history.get("completions/mean_length")) else None,
                "rows": len(goal.mean),
            },
            remedy="Lower the easy term's weight or make it a condition, and judge by the goal's term.",
        )

    def sick(self) -> History:
        """Three rows of a public report."""
        return history_of(
            {
                "reward": [0.711, 0.694, 0.887], "rewards/accuracy_reward/mean": [0.16, 0.118, 0.064],
                "rewards/format_reward/mean": [0.476, 0.554, 0.857], "completions/mean_length": [388.0, 378.0, 191.0],
                "kl": [0.00015, 0.004, 0.11], "grad_norm": [0.8, 0.85, 1.89], "reward_std": [0.53, 0.52, 0.34],
            }
        )  # fmt: skip


def ends(series: Series) -> tuple[float, float]:
    """Mean of the first and of the last rows: a tenth of them, at least one."""
    values = series.finite.values
    rows = max(1, len(values) // 10)
    return (float(values[:rows].mean()), float(values[-rows:].mean())) if len(values) else (0.0, 0.0)


RULE = EasyTermCrowdsOutGoal()
