"""From scores to the group advantage, as TRL computes it.

A task scores a completion once; each of its reward functions then reads its own term from that one score. TRL weighs
and sums the terms and compares every completion with its own group.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from evenhand.records import Score
from evenhand.tasks import Task

ScaleRewards = Literal["group", "batch", "none"]

# Added to the standard deviation before dividing: trl/trainer/grpo_trainer.py, _generate_and_score_completions.
ADVANTAGE_EPSILON = 1e-4

# TRL puts rewards into an FP32 tensor; beyond this they become infinite.
LARGEST_FLOAT32 = 3.4028235e38

RewardFunction = Callable[..., list[float]]


def text_of(completion: str | Sequence[Mapping[str, Any]]) -> str:
    """The text of a completion. Of messages, it is the last one's content."""
    if isinstance(completion, str):
        return completion
    return str(completion[-1].get("content") or "") if completion else ""


class Grader:
    """A task's reward functions for TRL, sharing one score per completion.

    TRL hands the same list of completions to every reward function of a step, so the scores are kept until another
    list arrives. ``scored`` counts how many completions were scored.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.scored = 0
        self._completions: Sequence[Any] | None = None
        self._scores: list[Score] = []

    def scores(self, completions: Sequence[Any], columns: Mapping[str, Sequence[Any]]) -> list[Score]:
        """One score per completion; ``columns`` maps each column to its value per completion."""
        if self._completions is not completions:
            rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
            self._scores = [self.task.score(row, text_of(c)) for row, c in zip(rows, completions, strict=True)]
            self._completions = completions  # held, so that its identity cannot be given to another list
            self.scored += len(completions)
        return self._scores

    def reward_functions(self) -> list[RewardFunction]:
        """One function per reward of the task, in its order, named as the reward is."""
        return [self._reward_function(reward.name) for reward in self.task.rewards]

    def _reward_function(self, name: str) -> RewardFunction:
        first = name == self.task.rewards[0].name

        def reward_function(completions: Sequence[Any], **keywords: Any) -> list[float]:
            columns = {key: keywords[key] for key in self.task.columns}
            scores = self.scores(completions, columns)
            if first and (log_extra := keywords.get("log_extra")) is not None:
                log_readings(log_extra, scores, columns)
            return [score.rewards[name] for score in scores]

        reward_function.__name__ = name  # TRL logs the term as rewards/<name>
        return reward_function


def log_readings(
    log_extra: Callable[[str, list[Any]], None], scores: Sequence[Score], columns: Mapping[str, Sequence[Any]]
) -> None:
    """Hand what was read out of each completion to TRL's completions table, whence the run folder takes it."""
    log_extra("prediction", [score.prediction for score in scores])
    log_extra("metrics", [dict(score.metrics) for score in scores])
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    log_extra("columns", rows)


def weighted_reward(rewards: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The sum of the terms, each times its weight."""
    return sum(weights[name] * value for name, value in rewards.items())


def full_reward(task: Task, weights: Mapping[str, float] | None = None) -> float:
    """What a perfect completion earns."""
    chosen = weights or {reward.name: reward.weight for reward in task.rewards}
    return sum(chosen[reward.name] * reward.high for reward in task.rewards)


def group_advantages(rewards: Sequence[float], group_size: int, scale: ScaleRewards = "group") -> list[float]:
    """Advantages of consecutive groups of ``group_size`` rewards.

    (r - mean of the group) / (s + 1e-4), where s is the sample standard deviation of the group (``group``), of all
    rewards (``batch``), or the division is left out (``none``): TRL's ``_generate_and_score_completions``.
    """
    whole = sample_deviation(rewards)
    advantages: list[float] = []
    for start in range(0, len(rewards), group_size):
        group = rewards[start : start + group_size]
        # equal rewards have no spread; their computed mean may miss them by a rounding error, which 1e-4 would magnify
        mean = group[0] if min(group) == max(group) else sum(group) / len(group)
        divisor = 1.0
        if scale != "none":
            divisor = (sample_deviation(group) if scale == "group" else whole) + ADVANTAGE_EPSILON
        advantages += [(reward - mean) / divisor for reward in group]
    return advantages


def sample_deviation(values: Sequence[float]) -> float:
    """Standard deviation with n - 1; 0 of fewer than two values."""
    if len(values) < 2:
        return 0.0
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
