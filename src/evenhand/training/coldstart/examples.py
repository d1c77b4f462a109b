"""The problems of a cold start: drawn by the task or read from a file, none of which stands in a split."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from evenhand.config import RunConfig
from evenhand.errors import ConfigurationError, DataError
from evenhand.evaluation import prompt_token_ids
from evenhand.records import Problem
from evenhand.tasks import Task
from evenhand.tasks.store import load_split

CONTROL = "control problems"
VERSION_COLUMN = "task_version"
MOST_IN_VAIN = 1000  # draws in a row that gave no new problem

Asked = tuple[tuple[str, str], ...]  # a prompt's messages as (role, content)


@dataclass(frozen=True, slots=True)
class Example:
    """A problem as token ids: its prompt, then its gold text with the token that ends a completion."""

    prompt: list[int]
    completion: list[int]


def asked(problem: Problem) -> Asked:
    """A problem by what it asks: two problems are the same where their prompts are."""
    return tuple((message["role"], message["content"]) for message in problem.prompt)


def withheld(task: Task, data: Path) -> dict[Asked, str]:
    """Every question that must not be shown, with the split where it stands. Nothing is scored.

    Raises:
        DataError: the data folder is damaged or of another version.
    """
    places: dict[Asked, str] = {asked(problem): CONTROL for problem in task.control_problems()}
    for split in task.splits:
        places |= {asked(problem): f"split {split}" for problem in load_split(task, split, data)}
    return places


def problems_to_show(config: RunConfig, task: Task) -> list[Problem]:
    """The problems in the order in which they are shown, whole batches of them.

    Raises:
        ConfigurationError: fewer problems than a batch, or a task that draws no fresh ones and no file.
        DataError: the file cannot be read, a row is no problem of the task, or a problem stands there twice or in a
            split.
    """
    plan = config.coldstart
    forbidden = withheld(task, config.data)
    if plan.data is None:
        problems = draw(task, plan.examples, plan.seed, forbidden)
    else:
        problems = read_problems(plan.data, task)
        refuse_repeated(plan.data, problems)
        refuse_shared(plan.data, problems, forbidden)
        random.Random(plan.seed).shuffle(problems)
    whole_batches = min(plan.examples, len(problems)) // plan.batch_size * plan.batch_size
    if not whole_batches:
        raise ConfigurationError(
            f"coldstart.batch_size = {plan.batch_size} is more than there are examples "
            f"({min(plan.examples, len(problems))}).",
            "Show more examples, or take a smaller batch.",
        )
    return problems[:whole_batches]


def draw(task: Task, count: int, seed: int, forbidden: Mapping[Asked, str]) -> list[Problem]:
    """``count`` different problems of the task, from one generator; those that are withheld are drawn again.

    Raises:
        ConfigurationError: the task draws no fresh problems, or not as many.
    """
    generator = random.Random(f"cold start {seed}")  # a number alone may be a split's own seed and draw its problems
    drawn: dict[Asked, Problem] = {}
    in_vain = 0
    while len(drawn) < count:
        columns = task.fresh(generator)
        if columns is None:
            raise ConfigurationError(
                f"The task {task.name} draws no problems beyond its splits.",
                "Name a file of problems: --set coldstart.data=FILE.jsonl",
            )
        problem = task.problem(len(drawn), columns)
        if asked(problem) in forbidden or asked(problem) in drawn:
            in_vain += 1
            if in_vain >= MOST_IN_VAIN:
                raise ConfigurationError(
                    f"The task {task.name} has no more than {len(drawn)} fresh problems outside its splits.",
                    f"--set coldstart.examples={len(drawn)}",
                )
            continue
        in_vain = 0
        drawn[asked(problem)] = problem
    return list(drawn.values())


# -- a file of problems ----------------------------------------------------------------------------------------------


def read_problems(path: Path, task: Task) -> list[Problem]:
    """The problems of a file, one JSON object a line; ``index`` is the line, counted from 1.

    Raises:
        DataError: the file cannot be read, or the first line that is no problem of the task.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise DataError(
            f"The examples {path} cannot be read: {reason}.",
            "Put a file of JSON lines there, or name another for coldstart.data.",
        ) from error
    rows = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not rows:
        raise DataError(f"The examples {path} hold no problem.", "Write one JSON object a line.")
    return [task.problem(number, columns_of(line, task, f"{path}, line {number}")) for number, line in rows]


def columns_of(line: str, task: Task, where: str) -> dict[str, Any]:
    """A line's columns, the labels worked out from the question.

    Raises:
        DataError: no JSON object, a column is missing, a label differs, or the gold text does not earn everything.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is no JSON that can be read.", "Write one JSON object a line.") from error
    if not isinstance(row, dict):
        raise DataError(f"{where} is no JSON object.", "Write one JSON object a line.")
    given = {name: row[name] for name in task.columns if name in row}
    try:
        known = {**task.recompute(given), VERSION_COLUMN: task.version}
        columns = {name: known.get(name, given.get(name)) for name in task.columns}
        full = earns_everything(task, columns)
    except KeyError as error:
        raise DataError(
            f"{where} lacks the column {error}.", f"{task.name} reads {', '.join(task.columns)}."
        ) from error
    except (TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        raise DataError(
            f"{where} is no problem of {task.name}: the values of {', '.join(given)} are not what the task asks about.",
            "Mend that line.",
        ) from error
    for name, value in known.items():
        if name in given and given[name] != value:
            raise DataError(f"{where} says {name} = {given[name]!r}, and it is {value!r}.", "Mend or drop that column.")
    if not full:
        raise DataError(
            f"{where} is no problem of {task.name}: its gold text does not earn the full reward.", "Mend that line."
        )
    return columns


def earns_everything(task: Task, columns: Mapping[str, Any]) -> bool:
    """Whether the gold text has every reward at its highest, so that nothing wrong is taught."""
    rewards = task.score(columns, task.gold(columns)).rewards
    return all(rewards[reward.name] >= reward.high for reward in task.rewards)


def refuse_repeated(path: Path, problems: Sequence[Problem]) -> None:
    """Raise DataError at the first problem that stands in two lines: each is shown once."""
    lines: dict[Asked, int] = {}
    for problem in problems:
        first = lines.setdefault(asked(problem), problem.index)
        if first != problem.index:
            raise DataError(
                f"The examples {path} hold one problem twice, in lines {first} and {problem.index}.",
                "Remove one of them: every problem is shown once.",
            )


def refuse_shared(path: Path, problems: Sequence[Problem], forbidden: Mapping[Asked, str]) -> None:
    """Raise DataError where a problem stands in a split, naming every such split."""
    shared: dict[str, list[int]] = {}
    for problem in problems:
        place = forbidden.get(asked(problem))
        if place is not None:
            shared.setdefault(place, []).append(problem.index)
    if shared:
        told = "; ".join(
            f"{len(lines)} with the {place}, first in line {lines[0]}" for place, lines in sorted(shared.items())
        )
        raise DataError(
            f"The examples {path} share problems with what is measured or trained on: {told}.",
            "Remove those lines: a problem that was shown measures memory.",
        )


# -- as tokens -------------------------------------------------------------------------------------------------------


def encode(task: Task, problems: Sequence[Problem], tokenizer: PreTrainedTokenizerBase) -> list[Example]:
    """Prompts as the chat template writes them with thinking off, gold texts with the end token behind them."""
    golds = [task.gold(problem.columns) for problem in problems]
    written: Any = tokenizer(golds, add_special_tokens=False)["input_ids"]
    end: Any = tokenizer.eos_token_id
    prompts = [prompt_token_ids(tokenizer, problem) for problem in problems]
    return [Example(prompt, [*ids, end]) for prompt, ids in zip(prompts, written, strict=True)]


def check_completions(examples: Sequence[Example], limit: int) -> None:
    """Raise ConfigurationError where a gold text exceeds the completion limit."""
    longest = max(len(example.completion) for example in examples)
    if longest > limit:
        raise ConfigurationError(
            f"The longest gold text takes {longest} tokens with its end, and max_completion_length is {limit}.",
            f"--set max_completion_length={longest * 4 // 3}",
        )


def check_context(examples: Sequence[Example], context: int | None) -> None:
    """Raise ConfigurationError where an example exceeds the model's context."""
    longest = max(len(example.prompt) + len(example.completion) for example in examples)
    if context is not None and longest > context:
        raise ConfigurationError(
            f"The longest example takes {longest} tokens, and the model's context holds {context}.",
            "Take shorter problems, or another model.",
        )
