"""The reward and its parts over steps."""

from collections.abc import Sequence

from evenhand.report.drawing import Drawing, Plot, points_for, series_marks, thinned
from evenhand.report.figures.figure import Figure
from evenhand.report.reading import RunView

TOTAL = "reward"
PREFIX, SUFFIX = "rewards/", "/mean"


def draw(runs: Sequence[RunView]) -> Drawing:
    """The weighted total first, then each part unweighted."""
    keys = dict.fromkeys(key for run in runs for row in run.metrics for key in row.values)
    parts = [key for key in keys if key.startswith(PREFIX) and key.endswith(SUFFIX)]
    plots, most = [], points_for(len(runs))
    for key in [TOTAL, *parts]:
        title = key.removeprefix(PREFIX).removesuffix(SUFFIX) if key != TOTAL else "weighted total"
        found = [(run, *run.series(key)) for run in runs]
        marks = [
            m
            for run, steps, values in found
            if steps
            for m in series_marks(run.index, title, thinned(steps, values, most))
        ]
        if marks:
            plots.append(Plot(title, marks, {"x": {"label": "step"}, "y": {"label": None, "grid": True, "nice": True}}))
    return Drawing(plots, [] if plots else ["No reward was logged."])


FIGURE = Figure(
    name="rewards",
    title="Reward of the sampled completions",
    reading=(
        "The mean over the completions that a step sampled from training problems: what training pushes up. It is "
        "no measure of ability, since it is sampled, and from other problems in every step. Parts are shown before "
        "weighting."
    ),
    draw=draw,
)
