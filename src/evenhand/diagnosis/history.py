"""What a run left behind, whoever wrote it: one :class:`History`, in columns, under TRL's names.

NaN, missing and zero are three things. A value that was not logged has no entry in its :class:`Series`; a value that
was logged as NaN or infinite is there as such; a key that was written without a number (``null``) leaves its step in
``History.nulls``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.records import Evaluation

Floats = NDArray[np.float64]

HELD_OUT = "eval/"  # prefix of every series that was measured on a held-out split


@dataclass(frozen=True, slots=True)
class Series:
    """One key over the steps on which it was logged. ``steps`` rise strictly; both arrays have shape (rows,)."""

    steps: Floats
    values: Floats

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def finite(self) -> "Series":
        """Without NaN and infinities."""
        keep = np.isfinite(self.values)
        return self if keep.all() else Series(self.steps[keep], self.values[keep])

    def before(self, step: float) -> "Series":
        """Entries of earlier steps."""
        end = int(np.searchsorted(self.steps, step))
        return Series(self.steps[:end], self.values[:end])

    def since(self, step: float) -> "Series":
        """Entries of this step and later ones."""
        start = int(np.searchsorted(self.steps, step))
        return Series(self.steps[start:], self.values[start:])

    def tail(self, rows: int) -> "Series":
        """The last ``rows`` entries."""
        return Series(self.steps[-rows:], self.values[-rows:])


NOTHING = Series(np.empty(0), np.empty(0))


@dataclass(frozen=True, slots=True)
class RewardPart:
    """One term of the reward: its mean over the batch, and its spread over the batch where that was logged."""

    name: str
    mean: Series
    std: Series


@dataclass(frozen=True, slots=True)
class Weights:
    """Dtypes of a set of weights: elements by dtype name, once for the matrices and once for the norms."""

    label: str
    body: Mapping[str, int]
    norms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class History:
    """Everything known about one run.

    ``settings`` holds TRL's argument names, ``device`` and what else the source told. ``understood`` maps a key as it
    was found to the name under which it is kept; ``ignored`` are found keys that no rule reads. ``steps_known`` is
    False where the log numbers no steps: then rows are counted from 1.
    """

    source: str
    kind: str
    series: Mapping[str, Series] = field(default_factory=dict)
    steps: Floats = field(default_factory=lambda: np.empty(0))  # (rows,) of the training rows
    steps_known: bool = True
    evaluations: tuple[Evaluation, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    checkpoints: tuple[int, ...] = ()
    nulls: Mapping[str, Floats] = field(default_factory=dict)
    weights: tuple[Weights, ...] = ()
    understood: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """How many training rows there are."""
        return len(self.steps)

    @property
    def interval(self) -> float:
        """Steps between two rows: the usual distance, 1 where it is not known."""
        return float(np.median(np.diff(self.steps))) if len(self.steps) > 1 else 1.0

    def get(self, name: str) -> Series:
        """The series of a key, empty where it was never logged."""
        return self.series.get(name, NOTHING)

    def parts(self) -> list[RewardPart]:
        """The terms of the reward, in the order in which they were logged."""
        return [
            RewardPart(name, self.get(f"rewards/{name}/mean"), self.get(f"rewards/{name}/std"))
            for name in (key[len("rewards/") : -len("/mean")] for key in self.series if key.startswith("rewards/"))
            if f"rewards/{name}/mean" in self.series
        ]

    def held_out(self) -> Iterator[tuple[str, Series]]:
        """Metrics of a held-out split, by their own names."""
        for name, series in self.series.items():
            if name.startswith(HELD_OUT):
                yield name.removeprefix(HELD_OUT), series

    def aligned(self, *names: str) -> tuple[Floats, list[Floats]]:
        """Steps on which all the keys were logged, shape (rows,), and the values of each there."""
        found = [self.get(name) for name in names]
        steps = found[0].steps
        for series in found[1:]:
            if len(series.steps) != len(steps) or not np.array_equal(series.steps, steps):
                steps = np.intersect1d(steps, series.steps, assume_unique=True)
        return steps, [s.values if len(s) == len(steps) else s.values[np.isin(s.steps, steps)] for s in found]

    def before(self, step: float) -> "History":
        """The run as it stood before that step."""
        return replace(
            self,
            series={name: series.before(step) for name, series in self.series.items()},
            steps=self.steps[self.steps < step],
            evaluations=tuple(one for one in self.evaluations if one.step < step),
            nulls={name: steps[steps < step] for name, steps in self.nulls.items()},
        )

    def checkpoint_before(self, step: float) -> int | None:
        """The last kept checkpoint before that step."""
        earlier = [kept for kept in self.checkpoints if kept < step]
        return max(earlier) if earlier else None

    def setting(self, name: str) -> float | None:
        """A numeric setting, or None where it is unknown."""
        value = self.settings.get(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def history_of(
    columns: Mapping[str, list[float]], source: str = "example", first_step: int = 1, interval: int = 1, **rest: Any
) -> History:
    """A small history written by hand: one list per key, one row per ``interval`` steps. For examples and tests."""
    length = max((len(values) for values in columns.values()), default=0)
    steps = first_step + interval * np.arange(length, dtype=np.float64)
    series = {name: Series(steps[: len(values)], np.array(values, dtype=float)) for name, values in columns.items()}
    training = steps if any(not name.startswith(HELD_OUT) for name in columns) else np.empty(0)
    return History(source=source, kind="example", series=series, steps=training, **rest)
