"""From rows of any spelling to columns: names understood, steps found, a resumed run joined."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenhand.diagnosis.history import HELD_OUT, Floats, History, Series
from evenhand.diagnosis.readers.vocabulary import PRIORITY, STEP_KEYS, is_bookkeeping, kept_name, other_kind
from evenhand.errors import LogError

Row = Mapping[str, Any]

MISSING_WORDS = frozenset({"", "-", "—", "none", "null", "no log", "nolog", "n/a"})
NUMBER = re.compile(r"^[-+]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?%?$")
GRPO_KEYS = ("reward", "reward_std", "frac_reward_zero_std")
WANTED = "Give a GRPO log: a run folder, trainer_state.json, JSON lines, CSV or printed rows."


@dataclass(slots=True)
class Column:
    """Values of one found key, with the index of the row in which each stood."""

    found: str
    kept: str
    rows: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    nulls: list[int] = field(default_factory=list)


def number(value: Any) -> float | None:
    """A value as a number, or None where it is none: NaN and infinities count as numbers, ``null`` does not.

    Raises:
        ValueError: a text that is neither a number nor a way to say that there is none.
    """
    if value is None:
        return None
    if isinstance(value, bool | int | float):
        try:
            return float(value)
        except OverflowError:
            return float("inf")
    text = str(value).strip().lower()
    if text in MISSING_WORDS:
        return None
    if text in {"nan", "inf", "-inf", "infinity", "-infinity"}:
        return float(text)
    if not NUMBER.match(text):
        raise ValueError(text)
    plain = text.rstrip("%").replace(",", "").replace("_", "")
    return float(plain) / (100 if text.endswith("%") else 1)


def step_of(value: Any) -> float | None:
    """A step number: an integer, or the first half of ms-swift's ``5/3766``."""
    try:
        found = number(value.split("/")[0] if isinstance(value, str) else value)
    except ValueError:
        return None
    return found if found is not None and np.isfinite(found) and abs(found) < 1e15 else None


def history_from_rows(rows: Sequence[Row], source: str, kind: str, **known: Any) -> History:
    """Join rows into columns.

    Args:
        rows: Log rows, in the order in which they were written; evaluation rows may stand among them.
        source: What was read, for messages.
        kind: Which form it had.
        known: Further fields of :class:`History` (settings, evaluations, checkpoints …).

    Raises:
        LogError: no numbers, no reward, or another kind of training.
    """
    columns = collect(rows)
    training = training_rows(columns, len(rows))
    check_kind({key for row in rows[:1000] for key in row}, columns, source)
    steps, steps_known = find_steps(rows, training)
    remarks = list(known.pop("remarks", ()))
    keep, joined = join(steps, training)
    remarks += joined
    series: dict[str, Series] = {}
    nulls: dict[str, Floats] = {}
    for column in columns:
        index = np.array(column.rows, dtype=np.int64)
        values = np.array(column.values, dtype=np.float64)
        held = keep[index]
        series[column.kept] = by_step(steps[index[held]], values[held])
        empty = np.array(column.nulls, dtype=np.int64)
        if len(empty) and len(values):
            nulls[column.kept] = np.unique(steps[empty[keep[empty]]])
    found = {key for row in rows[:5000] for key in row}
    understood = {column.found: column.kept for column in columns}
    used = training & keep
    return History(
        source=source,
        kind=kind,
        series={**series, **dict(known.pop("series", {}))},
        steps=np.unique(steps[used]),
        steps_known=steps_known,
        understood=understood,
        ignored=not_understood(found, understood),
        nulls=nulls,
        remarks=tuple(remarks),
        **known,
    )


def not_understood(found: Iterable[object], understood: Mapping[str, str]) -> tuple[str, ...]:
    """The keys that mean nothing here. One that says what another key said already is none of them."""
    kept = set(understood.values())
    names = {key for key in found if isinstance(key, str)} - set(STEP_KEYS)
    return tuple(sorted(name for name in names if not is_bookkeeping(name) and kept_name(name) not in kept))


def collect(rows: Sequence[Row]) -> list[Column]:
    """Columns of the keys that are understood, one per kept name.

    Rows with the same keys are taken together, so that Python's work is per column rather than per number.
    """
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        groups[tuple(row)].append(index)
    columns: dict[str, Column] = {}
    for keys, indices in groups.items():
        names = [kept_name(key) if isinstance(key, str) else None for key in keys]
        if not any(names):
            continue
        for key, kept, values in zip(keys, names, zip(*[rows[i].values() for i in indices], strict=True), strict=True):
            if kept is not None:
                column = columns.setdefault(key, Column(key, kept))
                extend(column, indices, values)
    best: dict[str, Column] = {}
    for column in columns.values():
        rival = best.get(column.kept)
        if column.values and (rival is None or rank(column) < rank(rival)):
            best[column.kept] = column
    return list(best.values())


def rank(column: Column) -> tuple[int, int]:
    """Smaller is better: the place in the table of names, then more values."""
    plain = re.sub(r"^train/", "", column.found.strip().lower())
    return PRIORITY.get(plain, len(PRIORITY)), -len(column.values)


def extend(column: Column, indices: list[int], values: tuple[Any, ...]) -> None:
    """Add the values of one key over rows of one shape."""
    try:
        plain = list(map(float, values))  # ten times faster than one by one, and all that most columns need
    except (TypeError, ValueError, OverflowError):
        plain = []
    if plain:
        column.rows += indices
        column.values += plain
        return
    for index, value in zip(indices, values, strict=True):
        try:
            read = number(value)
        except ValueError:
            continue
        if read is None:
            column.nulls.append(index)
        else:
            column.rows.append(index)
            column.values.append(read)


def training_rows(columns: Iterable[Column], length: int) -> np.ndarray:
    """Which rows hold something of training rather than of an evaluation, shape (rows,)."""
    training = np.zeros(length, dtype=bool)
    for column in columns:
        if not column.kept.startswith(HELD_OUT) and column.kept not in {"epoch", "num_tokens", "step_time"}:
            training[np.array(column.rows, dtype=np.int64)] = True
    return training


def check_kind(keys: set[str], columns: list[Column], source: str) -> None:
    """Raise LogError unless this is a log of GRPO or of a relative that rewards completions."""
    if not columns:
        raise LogError(f"{source} holds no numbers of a training log.", WANTED)
    kept = {column.kept for column in columns}
    kind = other_kind(keys)
    if kind is not None:
        raise LogError(f"{source} is a log of {kind}, not of GRPO.", WANTED)
    if not kept & set(GRPO_KEYS) and not any(name.startswith("rewards/") for name in kept):
        named = ", ".join(sorted(kept)[:4])
        raise LogError(f"{source} has no reward (it has {named}), so it is no log of GRPO.", WANTED)


def find_steps(rows: Sequence[Row], training: np.ndarray) -> tuple[Floats, bool]:
    """The step of every row, shape (rows,), and whether the log numbers them itself; else rows are counted."""
    present = {key for keys in {tuple(row) for row in rows} for key in keys}
    for key in STEP_KEYS:
        if key not in present:
            continue
        values = numbers_of_steps([row.get(key) for row in rows])
        numbered = sum(value is not None for value in values)
        if numbered and numbered >= 0.5 * int(training.sum()):
            return filled(values), True
    return np.maximum(np.cumsum(training), 1).astype(float), False


def numbers_of_steps(values: list[Any]) -> list[float | None]:
    """Step numbers as they were written, None where a row has none."""
    try:
        plain = list(map(float, values))
    except (TypeError, ValueError, OverflowError):
        return [step_of(value) for value in values]
    return list(plain) if all(map(math.isfinite, plain)) else [step_of(value) for value in values]


def filled(values: list[float | None]) -> Floats:
    """Steps of rows without one are those of the row before (an evaluation after its training row)."""
    steps = np.empty(len(values))
    last = next(value for value in values if value is not None)
    for index, value in enumerate(values):
        last = last if value is None else value
        steps[index] = last
    return steps


def join(steps: Floats, training: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Which rows stand, shape (rows,), after a resumed run replaced what it ran again; and what to say of it."""
    keep = np.ones(len(steps), dtype=bool)
    index = np.flatnonzero(training)
    backwards = np.flatnonzero(np.diff(steps[index]) < 0)
    if not len(backwards):
        return keep, []
    if len(np.unique(steps[index])) == len(index) or len(backwards) > max(3, len(index) // 5):
        return keep, ["The rows were out of order and have been sorted by step."]
    remarks = []
    for place in backwards:
        restart = index[place + 1]
        first = steps[restart]
        earlier = keep[:restart] & (steps[:restart] >= first)
        remarks.append(f"The log goes back to step {first:.0f}: {int(earlier.sum())} earlier rows are replaced.")
        keep[:restart] &= ~earlier
    return keep, remarks


def by_step(steps: Floats, values: Floats) -> Series:
    """A series with steps strictly rising: the last value of a step counts."""
    if len(steps) > 1 and not (np.diff(steps) > 0).all():
        order = np.argsort(steps, kind="stable")
        steps, values = steps[order], values[order]
        last = np.append(np.diff(steps) > 0, True)
        steps, values = steps[last], values[last]
    return Series(steps, values)


Reader = Callable[[str, str], History]
