"""The reward and its parts over steps."""

from collections.abc import Sequence

from evenhand.report.drawing import Drawing, Plot
from evenhand.report.figures.figure import Figure
from evenhand.report.figures.series import logged_series
from evenhand.report.reading import RunView

TOTAL = "reward"
PREFIX, SUFFIX = "rewards/", "/mean"


def draw(runs: Sequence[RunView]) -> Drawing:
    """The weighted total first, then each part unweighted."""
    keys = dict.fromkeys(key for run in runs for row in run.metrics for key in row.values)
    parts = [key for key in keys if key.startswith(PREFIX) and key.endswith(SUFFIX)]
    plots = []
    for key in [TOTAL, *parts]:
        title = key.removeprefix(PREFIX).removesuffix(SUFFIX) if key != TOTAL else "weighted total"
        marks = logged_series(runs, key, title)
        if marks:
            plots.append(Plot(title, marks, {"x": {"label": "step"}, "y": {"label": None, "grid": True, "nice": True}}))
    supervised = all(run.cold_start for run in runs)
    gap = "A cold start shows right answers and pays none." if supervised else "No reward was logged."
    return Drawing(plots, [] if plots else [gap])


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
