"""Signs of life: entropy, groups without spread and gradient norm, with findings at their steps."""

from collections.abc import Sequence

from evenhand.report.drawing import Columns, Drawing, Mark, Plot, series_marks, thinned
from evenhand.report.figures.figure import Figure
from evenhand.report.reading import RunView

SIGNS = {
    "entropy": "entropy (nats a token)",
    "frac_reward_zero_std": "share of groups without spread",
    "grad_norm": "gradient norm",
}


def draw(runs: Sequence[RunView]) -> Drawing:
    """One plot per sign; a finding is a dashed line at the step where it begins."""
    plots, gaps = [], []
    findings = [mark for run in runs if (mark := finding_mark(run)) is not None]
    for key, title in SIGNS.items():
        found = [(run, *run.series(key)) for run in runs]
        marks = [
            m for run, steps, values in found if steps for m in series_marks(run.index, title, thinned(steps, values))
        ]
        if not marks:
            gaps.append(f"{title} was not logged.")
            continue
        scale = {"label": None, "grid": True, "nice": True, "zero": True}
        plots.append(Plot(title, [*findings, *marks], {"x": {"label": "step"}, "y": scale}))
    return Drawing(plots, gaps)


def finding_mark(run: RunView) -> Mark | None:
    """The findings of a run that begin at a step."""
    placed = [finding for finding in run.findings if finding.step is not None]
    if not placed:
        return None
    columns: Columns = {"step": [f.step for f in placed], "finding": [f"{f.severity}: {f.code}" for f in placed]}
    return Mark(
        "ruleX",
        columns,
        {"x": "step", "strokeDasharray": "2,3", "label": "finding"},
        run.index,
        tip=("step", "finding"),
    )


FIGURE = Figure(
    name="signs",
    title="Is training alive?",
    reading=(
        "Entropy is how undecided the model is while it samples; low alone is fine where most of an answer is "
        "copied. A group without spread (all completions paid alike) teaches nothing. A gradient norm of exactly 0 "
        "moves nothing. Collapse is the conjunction of all three. Dashed lines mark findings where they begin."
    ),
    draw=draw,
)
