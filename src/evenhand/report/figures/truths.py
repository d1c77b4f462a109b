"""Accuracy by true answer."""

from collections.abc import Sequence

from evenhand.intervals import rate_interval
from evenhand.records import Evaluation
from evenhand.report.drawing import Columns, Drawing, Mark, Plot
from evenhand.report.figures.answers import OTHER, labelled, placed, shown_answers
from evenhand.report.figures.figure import Figure
from evenhand.report.reading import RunView


def draw(runs: Sequence[RunView]) -> Drawing:
    """One plot before training, one at the chosen checkpoint."""
    metric = next((run.task.metrics[0] for run in runs if run.task is not None), None)
    truths = [answer for run in runs for e in run.evaluations[-1:] for answer in e.expected]
    if metric is None or not truths:
        return Drawing([], ["There is no evaluation to take answers from."])
    shown = shown_answers(truths)
    stages = (
        ("before training", [(run, run.first_evaluation) for run in runs]),
        ("at the kept step", [(run, run.shown_evaluation) for run in runs]),
    )
    scales = {
        "x": {"label": "true answer", "type": "point", "domain": [labelled(answer) for answer in shown]},
        "y": {"domain": [0, 1], "tickFormat": ".0%", "label": None, "grid": True},
    }
    plots = []
    for title, pairs in stages:
        marks = [mark for run, e in pairs if e is not None for mark in run_marks(run, e, metric, shown)]
        if marks:
            plots.append(Plot(f"{metric}, {title}", marks, scales))
    return Drawing(plots)


def run_marks(run: RunView, evaluation: Evaluation, metric: str, shown: Sequence[str]) -> list[Mark]:
    """Points with intervals, a true answer each; few problems share one, so intervals are wide."""
    by_truth: dict[str, list[float]] = {}
    for truth, value in zip(evaluation.expected, evaluation.outcomes.get(metric, ()), strict=False):
        by_truth.setdefault(placed(truth, shown), []).append(value)
    answers = [answer for answer in shown if answer in by_truth and answer != OTHER]
    limits = [rate_interval(by_truth[answer]) for answer in answers]
    columns: Columns = {
        "truth": [labelled(answer) for answer in answers],
        "right": [sum(by_truth[answer]) / len(by_truth[answer]) for answer in answers],
        "problems": [len(by_truth[answer]) for answer in answers],
        "low": [low for low, _ in limits],
        "high": [high for _, high in limits],
    }
    place = {"x": "truth", "y": "right"}
    return [
        Mark("ruleX", columns, {"x": "truth", "y1": "low", "y2": "high", "strokeOpacity": 0.4}, run.index),
        Mark("lineY", columns, {**place, "strokeOpacity": 0.5}, run.index),
        Mark("dot", columns, place, run.index, tip=("truth", "right", "low", "high", "problems")),
    ]


FIGURE = Figure(
    name="truths",
    title="Which true answers are found",
    reading=(
        "The share of problems answered rightly, by what the right answer is, with 95 % intervals. High in the "
        "middle and low at the ends is a habit of saying something in between, not counting."
    ),
    draw=draw,
)
