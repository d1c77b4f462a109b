"""How the distribution of predicted answers moved."""

from collections import Counter
from collections.abc import Sequence

from evenhand.report.drawing import Drawing, Mark, Plot
from evenhand.report.figures.answers import labelled, placed, shown_answers
from evenhand.report.figures.figure import Figure
from evenhand.report.reading import RunView

TRUTH = "truth"
MOST_COLUMNS = 24  # what a chart's width holds with readable labels


def draw(runs: Sequence[RunView]) -> Drawing:
    """One grid a run: steps across, answers upwards, the truth beside them."""
    plots = [distribution(run) for run in runs if run.evaluations]
    return Drawing(plots, [] if plots else ["There is no evaluation to take answers from."])


def distribution(run: RunView) -> Plot:
    """The share of every answer at every evaluation."""
    stride = -(-len(run.evaluations) // MOST_COLUMNS)
    evaluations = [e for i, e in enumerate(run.evaluations) if i % stride == 0 or e.step == run.chosen_step]
    last = run.evaluations[-1]
    shown = shown_answers([*last.expected, *(said for e in evaluations for said in e.predicted)])
    columns: dict[str, list[object]] = {"step": [], "answer": [], "share": []}
    for label, answers in [*((str(e.step), e.predicted) for e in evaluations), (TRUTH, last.expected)]:
        for answer, count in Counter(placed(said, shown) for said in answers).items():
            columns["step"].append(label)
            columns["answer"].append(labelled(answer))
            columns["share"].append(count / len(answers))
    options = {
        "x": {"domain": [*(str(e.step) for e in evaluations), TRUTH], "label": "step", "type": "band"},
        "y": {"domain": [labelled(answer) for answer in reversed(shown)], "label": "answer", "type": "band"},
        "opacity": {
            "type": "sqrt",
            "domain": [0, max(float(str(share)) for share in columns["share"])],
            "range": [0, 0.9],
        },
    }
    place = {"x": "step", "y": "answer", "fillOpacity": {"value": "share", "scale": "opacity"}, "inset": 0.5}
    return Plot(
        f"{run.name}, share of answers",
        [Mark("cell", columns, place, run.index, tip=("step", "answer", "share"))],
        options,
    )


FIGURE = Figure(
    name="predictions",
    title="What the model answers, whatever the question",
    reading=(
        "Each column is an evaluation, each cell how often an answer was given; the last column is how often it is "
        "true. A column that darkens in one cell is a policy that bets on one answer, which accuracy alone does not "
        "show."
    ),
    draw=draw,
)
