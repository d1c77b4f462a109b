"""Anybody's reward functions and data: a Python file and JSON lines, as a plain TRL script has them."""

import difflib
import importlib.util
import json
import math
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenhand.errors import ConfigurationError, DataError
from evenhand.preflight.question import Prompt, Question
from evenhand.preflight.reward_study import RewardsFailed, RewardStudy, Term, mean_of, spread
from evenhand.preflight.setup import Data, Setup

# Names under which data sets keep the question and the right answer, the likeliest first.
QUESTION_NAMES = ("prompt", "messages", "question", "problem", "query", "instruction", "input", "text")
ANSWER_NAMES = (
    "completion",
    "gold",
    "solution",
    "answer",
    "target",
    "label",
    "ground_truth",
    "response",
    "reference",
    "expected",
    "output",
)
# Forms in which rewards commonly want an answer, tried in turn where the bare one earns nothing.
FORMS = ("{}", "Answer: {}", "<answer>{}</answer>", "\\boxed{{{}}}", "#### {}", "The answer is {}.")
TRIED = 16  # questions on which a form is tried


def load_functions(argument: str) -> list[Callable[..., Any]]:
    """The functions of ``FILE.py:one,two``; without names, every function of the file whose name has ``reward`` in it.

    Raises:
        ConfigurationError: no such file, it fails when it is imported, or a name is not there or is no function.
    """
    path_text, _, names_text = argument.rpartition(":") if ".py:" in argument else (argument, "", "")
    path = Path(path_text)
    module = import_file(path)
    own = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    names = [name.strip() for name in names_text.split(",") if name.strip()]
    names = names or [name for name in own if "reward" in name.lower()]
    if not names:
        raise ConfigurationError(f"{path} has no function with 'reward' in its name.", f"Name one: {path}:FUNCTION.")
    for name in names:
        if not callable(getattr(module, name, None)):
            near = difflib.get_close_matches(name, own, n=1)
            raise ConfigurationError(
                f"{path} has no function '{name}'.",
                f"Did you mean '{near[0]}'?" if near else f"It has: {', '.join(own)}.",
            )
    return [getattr(module, name) for name in names]


def import_file(path: Path) -> Any:
    """Run a Python file as a module; its folder is importable meanwhile, as in a script.

    Raises:
        ConfigurationError: it is not there or fails.
    """
    if not path.is_file():
        raise ConfigurationError(f"There is no file {path}.", "Write --rewards FILE.py:function_one,function_two.")
    spec = importlib.util.spec_from_file_location(f"rewards_of_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{path} is no Python file.", "Write --rewards FILE.py:function_one,function_two.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the boundary to foreign code: whatever the file raises is reported
        frames = [one.lineno for one in traceback.extract_tb(error.__traceback__) if Path(one.filename) == path]
        line = error.lineno if isinstance(error, SyntaxError) else (frames or [None])[-1]
        raise ConfigurationError(
            f"{path} fails when it is imported, line {line}: {type(error).__name__}: {error}.", "Mend it first."
        ) from error
    finally:
        sys.path.remove(str(path.parent.resolve()))
    return module


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines, or of one JSON list.

    Raises:
        DataError: no such file, a line that is no JSON object, or no row at all.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}.", "Name a file of JSON lines.") from error
    try:
        rows = (
            json.loads(text)
            if text.lstrip().startswith("[")
            else [json.loads(one) for one in text.split("\n") if one.strip()]
        )
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no JSON: {error}.", "One JSON object a line is needed.") from error
    wrong = next((place for place, row in enumerate(rows, start=1) if not isinstance(row, dict)), None)
    if wrong is not None:
        raise DataError(f"Row {wrong} of {path} is no JSON object.", "One JSON object a line is needed.")
    if not rows:
        raise DataError(f"{path} holds no row.", "Name a file with at least one problem.")
    return rows


def foreign_data(rows: Sequence[Mapping[str, Any]], source: str, gold: str | None = None) -> Data:
    """Rows as questions; what is wrong with them is kept as sentences, and the likeliest columns are used.

    Args:
        rows: The rows as read.
        source: Where they come from.
        gold: The column with a right answer as text, where the user named one.

    Raises:
        DataError: the named gold column is not there.
    """
    names = list(rows[0])
    faults = column_faults(rows, names)
    column = "prompt" if "prompt" in names else next((name for name in QUESTION_NAMES if name in names), None)
    if gold is not None and gold not in names:
        raise DataError(f"{source} has no column '{gold}'.", f"It has: {', '.join(names)}.")
    answers = [gold] if gold else [name for name in ANSWER_NAMES if name in names]
    questions = [
        Question(as_prompt(row.get(column or "", "")), {k: row.get(k) for k in names if k != column}) for row in rows
    ]
    return Data(source, {"train": questions}, answers=tuple(answers), faults=tuple(faults))


def column_faults(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """A missing prompt column, and rows with other columns than the first."""
    faults = []
    if "prompt" not in names:
        like = next((name for name in QUESTION_NAMES if name in names), None)
        hint = f" '{like}' looks like the question: rename it to 'prompt'." if like else ""
        faults.append(f"There is no column 'prompt'; the columns are {', '.join(names)}.{hint}")
    odd = [place for place, row in enumerate(rows) if list(row) != list(names) and set(row) != set(names)]
    if odd:
        faults.append(f"{len(odd)} rows have other columns than the first, row {odd[0] + 1} for one.")
    return faults


def as_prompt(value: Any) -> Prompt:
    """A prompt as TRL takes it: a text, or a tuple of messages."""
    if isinstance(value, list) and all(isinstance(message, dict) for message in value):
        return tuple(value)
    return value if isinstance(value, str) else "" if value is None else str(value)


def with_gold(data: Data, functions: Sequence[Callable[..., Any]], weights: Sequence[float]) -> Data:
    """The data with the gold texts that the rewards like best: an answer column, bare or in one of the usual forms.

    Where nothing earns more than an empty text, no gold is known.
    """
    tried = spread(data.train, TRIED)
    study = RewardStudy(tried, [Term(f, w) for f, w in zip(functions, weights, strict=True)])
    best: tuple[str, str] | None = None
    try:
        highest = study.mean(tried, lambda _: "")
        for column in data.answers:
            for form in FORMS:
                mean = mean_of(study.totals(tried, [formed(question, column, form) for question in tried]))
                if not math.isnan(mean) and mean > highest + 1e-9:
                    best, highest = (column, form), mean
    except RewardsFailed:
        return data
    if best is None:
        return data
    column, form = best
    questions = [Question(q.prompt, q.columns, formed(q, column, form)) for q in data.train]
    return Data(data.source, {"train": questions}, (column,), data.faults, data.recompute)


def formed(question: Question, column: str, form: str) -> str:
    """A row's answer in a form; of a solution that ends in ``#### 7``, the number."""
    value = question.columns.get(column)
    if isinstance(value, list) and value and isinstance(value[-1], Mapping):
        value = value[-1].get("content", "")
    text = "" if value is None else str(value)
    if form != "{}" and (final := re.search(r"####\s*(\S+)\s*$", text)):
        text = final[1]
    return form.format(text)


def foreign_setup(rewards: str, data: Path, weights: Sequence[float] | None = None, gold: str | None = None) -> Setup:
    """The set-up of somebody's functions and rows; nothing is known of a model.

    Raises:
        ConfigurationError, DataError: what cannot be read.
    """
    functions = load_functions(rewards)
    chosen = list(weights or [1.0] * len(functions))
    if len(chosen) != len(functions):
        raise ConfigurationError(
            f"{len(chosen)} weights for {len(functions)} reward functions.", "Give one --weight per function."
        )
    rows = with_gold(foreign_data(read_rows(data), str(data), gold), functions, chosen)
    study = RewardStudy(rows.train, [Term(f, weight) for f, weight in zip(functions, chosen, strict=True)])
    reason = "no model and no configuration was named"
    absent = dict.fromkeys(("settings", "machine", "model", "samples", "updates"), reason)
    return Setup(data=rows, rewards=study, absent=absent)
