"""The tasks that Evenhand knows. To add one: one file in this folder, one entry in ``TASKS``."""

import difflib

from evenhand.errors import TaskError
from evenhand.tasks.integer_count import DISTANCE as INTEGER_COUNT_DISTANCE
from evenhand.tasks.integer_count import OUTLIER_TASK as INTEGER_COUNT_OUTLIER
from evenhand.tasks.integer_count import TASK as INTEGER_COUNT
from evenhand.tasks.stepwise_parity import TASK as STEPWISE_PARITY
from evenhand.tasks.task import Reward, Span, Split, Task

__all__ = ["TASKS", "Reward", "Span", "Split", "Task", "task_named"]

TASKS: tuple[Task, ...] = (STEPWISE_PARITY, INTEGER_COUNT, INTEGER_COUNT_DISTANCE, INTEGER_COUNT_OUTLIER)


def task_named(name: str) -> Task:
    """The task of that name. Raises TaskError with near matches."""
    for task in TASKS:
        if task.name == name:
            return task
    names = [task.name for task in TASKS]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean '{near[0]}'?" if near else f"Known tasks: {', '.join(names)}."
    raise TaskError(f"There is no task named '{name}'.", hint)
