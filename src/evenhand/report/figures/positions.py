"""Accuracy by position: which line of an answer is right."""

from collections.abc import Sequence

from evenhand.intervals import rate_interval
from evenhand.records import Evaluation
from evenhand.report.drawing import Columns, Drawing, Mark, Plot
from evenhand.report.figures.figure import Figure
from evenhand.report.reading import RunView
from evenhand.tasks import Span, Task

SCALES = {
    "x": {"label": "line", "type": "point"},
    "y": {"domain": [0, 1], "tickFormat": ".0%", "label": None, "grid": True},
}


def draw(runs: Sequence[RunView]) -> Drawing:
    """One plot before training, one at the chosen checkpoint."""
    before = [mark for run in runs for mark in run_marks(run, run.first_evaluation)]
    after = [mark for run in runs for mark in run_marks(run, run.shown_evaluation)]
    titles = (("before training", before), ("at the kept step", after))
    plots = [Plot(title, marks, SCALES) for title, marks in titles if marks]
    gap = "This task's answers have no lines that are right or wrong by themselves, or the answers were not kept."
    return Drawing(plots, [] if plots else [gap])


def run_marks(run: RunView, evaluation: Evaluation | None) -> list[Mark]:
    """Line and points of one run."""
    if run.task is None or evaluation is None:
        return []
    right = lines_right(run.task, list(run.folder.answers(evaluation.split, evaluation.step)))
    if not right:
        return []
    limits = [rate_interval(values) for values in right]
    columns: Columns = {
        "line": [str(position) for position in range(1, len(right) + 1)],
        "right": [sum(values) / len(values) for values in right],
        "low": [low for low, _ in limits],
        "high": [high for _, high in limits],
    }
    place = {"x": "line", "y": "right"}
    return [
        Mark("ruleX", columns, {"x": "line", "y1": "low", "y2": "high", "strokeOpacity": 0.4}, run.index),
        Mark("lineY", columns, place, run.index),
        Mark("dot", columns, place, run.index, tip=("line", "right", "low", "high")),
    ]


def lines_right(task: Task, answers: Sequence[dict[str, object]]) -> list[list[float]]:
    """Per line of the gold answer, whether each problem's line earns as much; a missing line does not."""
    right: list[list[float]] = []
    for row in answers:
        columns, text = row.get("columns"), row.get("text")
        if not isinstance(columns, dict) or not isinstance(text, str):
            continue
        gold, own = task.spans(columns, task.gold(columns)), task.spans(columns, text)
        if gold is None or own is None:
            return []
        while len(right) < len(gold):
            right.append([])
        for position, span in enumerate(gold):
            right[position].append(float(position < len(own) and earns_as_much(own[position], span)))
    return right


def earns_as_much(own: Span, gold: Span) -> bool:
    """Whether a span earns every term that the gold answer's earns."""
    return all(own.rewards.get(name, 0.0) >= value for name, value in gold.rewards.items())


FIGURE = Figure(
    name="positions",
    title="Which line goes wrong",
    reading=(
        "The share of problems in which each line of the answer is right, in order; where the task asks for a "
        "conclusion, it is the last line. Items near 100 % beside a low last line mean that the work is right and "
        "the conclusion is not."
    ),
    draw=draw,
)
