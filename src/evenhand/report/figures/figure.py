"""What a figure is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evenhand.report.drawing import Drawing
from evenhand.report.reading import RunView


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the page, drawn for runs of one task.

    Attributes:
        name: Stable, unique; part of the page's anchors.
        title: What it shows.
        reading: How to read it, for somebody who sees such a chart for the first time.
        draw: From runs to plots. Never raises for what a run lacks; a drawing without plots says why in its gaps.
    """

    name: str
    title: str
    reading: str
    draw: Callable[[Sequence[RunView]], Drawing]
