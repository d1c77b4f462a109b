"""Predicted against true answers, before training and at the chosen checkpoint."""

from collections import Counter
from collections.abc import Sequence

from evenhand.records import Evaluation
from evenhand.report.drawing import Columns, Drawing, Mark, Plot
from evenhand.report.figures.answers import labelled, placed, shown_answers
from evenhand.report.figures.figure import Figure
from evenhand.report.reading import RunView


def draw(runs: Sequence[RunView]) -> Drawing:
    """Two grids a run."""
    plots = []
    for run in runs:
        owner = f"{run.name}: " if len(runs) > 1 else ""
        before, after = run.first_evaluation, run.shown_evaluation
        if before is not None and after is not None and before.step != after.step:
            plots.append(grid(run, before, f"{owner}before training"))
        if after is not None:
            kept = ", kept" if after.step == run.chosen_step else ""
            plots.append(grid(run, after, f"{owner}step {after.step}{kept}"))
    return Drawing(plots, [] if plots else ["There is no evaluation to take answers from."])


def grid(run: RunView, evaluation: Evaluation, title: str) -> Plot:
    """How often each true answer was answered how; a frame marks the right answers."""
    shown = shown_answers([*evaluation.expected, *evaluation.predicted])
    counts = Counter(
        (placed(truth, shown), placed(said, shown))
        for truth, said in zip(evaluation.expected, evaluation.predicted, strict=True)
    )
    cells = sorted(counts)
    columns: Columns = {
        "true": [labelled(truth) for truth, _ in cells],
        "predicted": [labelled(said) for _, said in cells],
        "problems": [counts[cell] for cell in cells],
    }
    place = {"x": "true", "y": "predicted"}
    truths = [labelled(answer) for answer in shown if answer in set(evaluation.expected)]
    marks = [
        Mark(
            "cell",
            columns,
            {**place, "fillOpacity": {"value": "problems", "scale": "opacity"}, "inset": 1},
            run.index,
            tip=("true", "predicted", "problems"),
        ),
        Mark(
            "cell",
            {"true": truths, "predicted": truths},
            {**place, "fill": "none", "stroke": "currentColor", "inset": 1},
        ),
        Mark("text", columns, {**place, "text": "problems", "fill": "currentColor"}),
    ]
    rows = [labelled(answer) for answer in reversed(shown)]
    options = {
        "x": {"domain": truths, "label": "true answer", "type": "band"},
        "y": {"domain": rows, "label": "predicted", "type": "band"},
        "opacity": {"domain": [0, max(counts.values(), default=1)], "range": [0.05, 0.75]},
    }
    return Plot(title, marks, options)


FIGURE = Figure(
    name="pairs",
    title="Predicted against true answers",
    reading=(
        "Every problem lies in the column of its true answer and the row of what the model said; framed cells are "
        "right. A filled row is a bet on one answer, a band beside the frame is counting that is off by one. “none” "
        "holds completions in which no answer could be read."
    ),
    draw=draw,
)
