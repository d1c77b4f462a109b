"""The task's metrics over steps, with intervals, and the chosen checkpoint."""

from collections.abc import Sequence

from evenhand.report.drawing import Columns, Drawing, Mark, Plot
from evenhand.report.figures.figure import Figure
from evenhand.report.reading import RunView

PERCENT = {"domain": [0, 1], "tickFormat": ".0%", "label": None, "grid": True}
MOST_LARGE_POINTS = 30
LEAST_FOR_BAND = 2  # a band needs two points; a single evaluation shows its interval as a bar


def draw(runs: Sequence[RunView]) -> Drawing:
    """One plot per metric."""
    names = list(dict.fromkeys(name for run in runs for e in run.evaluations for name in e.metrics))
    plots = [
        Plot(name, [mark for run in runs for mark in run_marks(run, name)], {"x": {"label": "step"}, "y": PERCENT})
        for name in names
    ]
    without = [run.name for run in runs if not run.evaluations]
    return Drawing(plots, [f"{name} was never evaluated." for name in without])


def run_marks(run: RunView, metric: str) -> list[Mark]:
    """Band, line and points of one run, and a ring around the chosen checkpoint."""
    scored = [evaluation for evaluation in run.evaluations if metric in evaluation.metrics]
    if not scored:
        return []
    columns: Columns = {
        "step": [e.step for e in scored],
        metric: [e.metrics[metric] for e in scored],
        "low": [e.intervals[metric][0] for e in scored],
        "high": [e.intervals[metric][1] for e in scored],
    }
    ends = {"x": "step", "y1": "low", "y2": "high"}
    if len(scored) >= LEAST_FOR_BAND:
        marks = [Mark("areaY", columns, {**ends, "fillOpacity": 0.12}, run.index)]
    else:
        marks = [Mark("ruleX", columns, {**ends, "strokeOpacity": 0.5}, run.index)]
    place = {"x": "step", "y": metric}
    marks.append(Mark("lineY", columns, place, run.index))
    size = {"r": 3 if len(scored) <= MOST_LARGE_POINTS else 1.5}
    marks.append(Mark("dot", columns, {**place, **size}, run.index, tip=("step", metric, "low", "high")))
    kept = [i for i, evaluation in enumerate(scored) if evaluation.step == run.chosen_step]
    if kept:
        ring: Columns = {name: [values[kept[0]]] for name, values in columns.items()}
        marks.append(
            Mark("dot", ring, {**place, "r": 8, "strokeWidth": 2, "fill": "none", "symbol": "circle"}, run.index)
        )
    return marks


FIGURE = Figure(
    name="scores",
    title="What the model can do, step by step",
    reading=(
        "Greedy answers to problems that are never trained on. A band is the 95 % interval: where bands overlap "
        "widely, a difference may be luck. The ring marks the checkpoint that is kept."
    ),
    draw=draw,
)
