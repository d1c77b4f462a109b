"""Signs of life: entropy, groups without spread and gradient norm, with findings at their steps."""

from collections.abc import Sequence

from evenhand.report.drawing import Columns, Drawing, Mark, Plot
from evenhand.report.figures.figure import Figure
from evenhand.report.figures.series import logged_series
from evenhand.report.reading import RunView

SIGNS = {
    "entropy": "entropy (nats a token)",
    "frac_reward_zero_std": "share of groups without spread",
    "grad_norm": "gradient norm",
}
# GRPO's loss is about 0 whatever happens, so only a supervised run's is a sign.
SUPERVISED_SIGNS = {"loss": "loss of a cold start (nats a token)", "grad_norm": "gradient norm"}


def draw(runs: Sequence[RunView]) -> Drawing:
    """One plot per sign; a finding is a dashed line at the step where it begins."""
    plots, gaps = [], []
    findings = [mark for run in runs for mark in finding_marks(run)]
    for key, title in expected_signs(runs).items():
        shown = [run for run in runs if key in signs_of(run)]
        marks = logged_series(shown, key, title)
        if not marks:
            gaps.append(f"{title} was not logged.")
            continue
        scale = {"label": None, "grid": True, "nice": True, "zero": True}
        plots.append(Plot(title, [*findings, *marks], {"x": {"label": "step"}, "y": scale}))
    return Drawing(plots, gaps)


def expected_signs(runs: Sequence[RunView]) -> dict[str, str]:
    """The signs that at least one run should have logged."""
    return {key: title for run in runs for key, title in signs_of(run).items()}


def signs_of(run: RunView) -> dict[str, str]:
    """The signs that a run of this kind logs."""
    return SUPERVISED_SIGNS if run.cold_start else SIGNS


def finding_marks(run: RunView) -> list[Mark]:
    """The findings of a run that begin at a step, numbered as in the page's list."""
    numbered = [(number, f) for number, f in enumerate(run.findings, start=1) if f.step is not None]
    if not numbered:
        return []
    columns: Columns = {
        "step": [finding.step for _, finding in numbered],
        "finding": [f"{number} {finding.severity}: {finding.code}" for number, finding in numbered],
        "number": [str(number) for number, _ in numbered],
    }
    line = {"x": "step", "strokeDasharray": "2,3"}
    label = {"x": "step", "text": "number", "frameAnchor": "top", "dy": -12, "fontWeight": "bold"}
    return [
        Mark("ruleX", columns, line, run.index, tip=("step", "finding")),
        Mark("text", columns, label, run.index),
    ]


FIGURE = Figure(
    name="signs",
    title="Is training alive?",
    reading=(
        "Entropy is how undecided the model is while it samples; low alone is fine where most of an answer is "
        "copied. A group without spread (all completions paid alike) teaches nothing. A gradient norm of exactly 0 "
        "moves nothing. Collapse is the conjunction of all three. Dotted lines mark findings where they begin, "
        "numbered as in the list above."
    ),
    draw=draw,
)
