"""``prompt-column-missing``."""

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Data, Part, Setup
from evenhand.records import Severity

ROLES = ("system", "developer", "user", "assistant", "tool")

# What TRL passes to every reward function beside the columns: trl/trainer/grpo_trainer.py, _calculate_rewards.
GIVEN = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments")


class PromptColumnMissing(Check):
    """The rows lack something that the trainer or a reward needs: a prompt, a role, a column.

    ## Why it matters

    Names of columns differ from one data set to the next. The trainer stops at the first batch, or a reward reads a
    default where the answer should be.

    ## Example

    The file has `problem` and `solution`, and TRL wants `prompt`.

    ## Remedy

    Rename the column, as the finding says, and look at three rows as the model will see them.
    """

    code: ClassVar[str] = "prompt-column-missing"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("data",)

    def judge(self, setup: Setup) -> Verdict:
        """What was wrong when the rows were read, then roles and empty prompts, then what the rewards name."""
        data = present(setup.data)
        faults = [*data.faults, *prompt_faults(data)]
        if setup.rewards is not None:
            functions = [term.function for term in setup.rewards.terms]
            faults += [fault for function in functions for fault in missing_columns(function, data)]
        if not faults:
            return None
        return self.finding(
            " ".join(faults), evidence={"columns": columns_of(data)}, remedy="Rename or add what the message names."
        )

    def sick(self) -> Setup:
        """A reward that reads ``solution`` where the column is ``answer``."""
        return Setup(data=examples.data(), rewards=examples.study(reads_solution))


def reads_solution(completions: Sequence[Any], solution: Sequence[str], **_: Any) -> list[float]:
    """A reward for other data."""
    return [float(text == truth) for text, truth in zip(completions, solution, strict=True)]


def columns_of(data: Data) -> list[str]:
    """Columns beside the prompt."""
    return list(data.train[0].columns) if data.train else []


def prompt_faults(data: Data) -> list[str]:
    """Empty prompts, unknown roles, prompts of two kinds."""
    faults = []
    for split, questions in data.splits.items():
        empty = [place for place, question in enumerate(questions) if not question.asked.strip()]
        if empty:
            faults.append(f"{len(empty)} prompts of {split} are empty, the first in row {empty[0]}.")
        if len({isinstance(question.prompt, str) for question in questions}) > 1:
            faults.append(f"Some prompts of {split} are texts and some are messages.")
        roles = {message.get("role") for q in questions if not isinstance(q.prompt, str) for message in q.prompt}
        if unknown := sorted(str(role) for role in roles - set(ROLES)):
            faults.append(f"Unknown roles in prompts of {split}: {', '.join(unknown)}.")
    return faults


def missing_columns(function: Callable[..., Any], data: Data) -> list[str]:
    """Columns that a reward function cannot do without and the rows do not have."""
    try:
        parameters: Mapping[str, inspect.Parameter] = inspect.signature(function).parameters
    except (TypeError, ValueError):  # built in, nothing to see
        return []
    known = [*columns_of(data), *GIVEN]
    faults = []
    for name, parameter in parameters.items():
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if named and parameter.default is parameter.empty and name not in known:
            near = difflib.get_close_matches(name, columns_of(data), n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            title = getattr(function, "__name__", type(function).__name__)
            faults.append(f"The reward {title} needs a column '{name}', and the rows have none.{hint}")
    return faults


CHECK = PromptColumnMissing()
