"""A logged key of several runs as lines over steps."""

from collections.abc import Sequence

from evenhand.report.drawing import Mark, points_for, series_marks, thinned
from evenhand.report.reading import RunView


def logged_series(runs: Sequence[RunView], key: str, title: str) -> list[Mark]:
    """The marks of every run that logged ``key``."""
    marks: list[Mark] = []
    for run in runs:
        steps, values = run.series(key)
        if steps:
            marks += series_marks(run.index, title, thinned(steps, values, points_for(len(runs))))
    return marks
