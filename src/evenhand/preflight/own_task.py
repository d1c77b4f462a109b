"""Evenhand's own tasks, as data and rewards to be checked."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from evenhand.preflight.question import Question
from evenhand.preflight.reward_study import RewardStudy, Term
from evenhand.preflight.setup import Data
from evenhand.records import Problem
from evenhand.rewards import Grader
from evenhand.tasks import Task
from evenhand.tasks.store import load_split


def task_data(task: Task, folder: Path) -> Data:
    """Every split of a task; test is read here for its labels and its overlap with the others, never scored.

    Raises:
        DataError: the data folder is damaged or of another version.
    """
    splits = {split: as_questions(task, load_split(task, split, folder)) for split in task.splits}
    first = next(iter(splits.values()))[0].columns
    return Data(task.version, splits, answers=tuple(task.recompute(first)), recompute=task.recompute)


def as_questions(task: Task, problems: Sequence[Problem]) -> tuple[Question, ...]:
    """Problems with their gold texts."""
    return tuple(Question(problem.prompt, problem.columns, task.gold(problem.columns)) for problem in problems)


def task_study(task: Task, questions: Sequence[Question], weights: Sequence[float] | None = None) -> RewardStudy:
    """The task's rewards, at other weights where some are given."""
    chosen = weights or [reward.weight for reward in task.rewards]
    functions = Grader(task).reward_functions()
    highs = [reward.high for reward in task.rewards]
    terms = [Term(f, weight, high) for f, weight, high in zip(functions, chosen, highs, strict=True)]
    return RewardStudy(questions, terms, near_misses=task.near_misses, blind_answers=task.blind_answers)


def gold_texts(questions: Sequence[Question]) -> list[str]:
    """Gold texts that are known."""
    return [question.gold for question in questions if question.gold is not None]


def reward_weights(train: Mapping[str, object]) -> list[float] | None:
    """``train.reward_weights`` where it is a list."""
    weights = train.get("reward_weights")
    return [float(weight) for weight in weights] if isinstance(weights, list | tuple) else None
