"""What a figure hands to the page: plots made of marks, in the terms of Observable Plot, and nothing executable.

A mark holds columns of equal length; its options map a channel (``x``, ``y``, ``fill`` …) to a column's name or to a
constant. The page's script draws it, so a figure is written in Python alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_POINTS = 250  # a chart is about 500 pixels wide; more points cost space and show nothing
MOST_POINTS_OF_ALL = 500  # with many runs on one chart, each needs to be calmer to be told apart
FEWEST_POINTS = 40
SIGNIFICANT_DIGITS = 4

Columns = Mapping[str, Sequence[Any]]  # equally long, by name


@dataclass(frozen=True, slots=True)
class Mark:
    """One layer of a plot.

    Attributes:
        kind: A mark of Observable Plot, such as ``lineY``.
        columns: Data, column by column.
        options: Channels and constants.
        run: Index of the run, whose colour, dash and symbol it takes; None for what belongs to no run.
        tip: Columns shown while a pointer or the keyboard is on it; none shown where empty.
    """

    kind: str
    columns: Columns
    options: Mapping[str, Any] = field(default_factory=dict)
    run: int | None = None
    tip: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Compact: numbers rounded, empty parts left out."""
        columns = {name: [rounded(value) for value in values] for name, values in self.columns.items()}
        whole = {"kind": self.kind, "columns": columns, "options": dict(self.options), "run": self.run}
        return {key: value for key, value in {**whole, "tip": list(self.tip)}.items() if value not in (None, [], {})}


@dataclass(frozen=True, slots=True)
class Plot:
    """One chart: scales and axes in ``options``, as Observable Plot names them."""

    title: str
    marks: Sequence[Mark]
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain types only."""
        return {"title": self.title, "options": dict(self.options), "marks": [mark.to_json() for mark in self.marks]}


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a figure shows: its plots, side by side, and what could not be shown."""

    plots: Sequence[Plot]
    gaps: Sequence[str] = ()


def rounded(value: Any) -> Any:
    """Floats to four significant digits; what is not finite becomes None, which draws nothing."""
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if math.isfinite(value) else None
    return value


@dataclass(frozen=True, slots=True)
class Thinned:
    """A series in few enough points: each the mean of some steps, with their lowest and highest value."""

    steps: Sequence[int]
    values: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]

    @property
    def is_mean(self) -> bool:
        """Whether a point stands for several steps."""
        return any(low != high for low, high in zip(self.low, self.high, strict=True))


def points_for(runs: int) -> int:
    """How many points each of so many runs on one chart may have."""
    return min(MOST_POINTS, max(FEWEST_POINTS, MOST_POINTS_OF_ALL // runs))


def thinned(steps: Sequence[int], values: Sequence[float], most: int = MOST_POINTS) -> Thinned:
    """At most ``most`` points; values that are not finite are kept out of the means."""
    pairs = [(step, value) for step, value in zip(steps, values, strict=True) if math.isfinite(value)]
    size = max(1, math.ceil(len(pairs) / most))
    blocks = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    return Thinned(
        steps=[block[-1][0] for block in blocks],
        values=[math.fsum(value for _, value in block) / len(block) for block in blocks],
        low=[min(value for _, value in block) for block in blocks],
        high=[max(value for _, value in block) for block in blocks],
    )


def series_marks(run: int, name: str, series: Thinned) -> list[Mark]:
    """A line over steps; where a point stands for several steps, their range behind it."""
    marks = []
    if series.is_mean:
        ranges = {"step": series.steps, "low": series.low, "high": series.high}
        marks.append(Mark("areaY", ranges, {"x": "step", "y1": "low", "y2": "high", "fillOpacity": 0.15}, run))
    columns = {"step": series.steps, name: series.values}
    return [*marks, Mark("lineY", columns, {"x": "step", "y": name}, run, tip=("step", name))]
