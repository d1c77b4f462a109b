"""``evenhand train``."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from evenhand.cli import options
from evenhand.cli.output import print_findings, print_json, stderr, stdout
from evenhand.errors import RunStopped

if TYPE_CHECKING:
    from evenhand.config import RunConfig
    from evenhand.preflight.report import PreflightReport

# Notes of preflight that a run repeats, since after it they cannot be mended.
ALWAYS_SAID = {"evaluation-not-on-saved-steps"}


def train(
    configuration: options.Configuration = None,
    task: options.TaskName = None,
    model: options.ModelName = None,
    steps: options.Steps = None,
    seed: options.Seed = None,
    device: options.Device = None,
    out: options.Out = None,
    resume: options.Resume = None,
    no_preflight: options.NoPreflight = False,
    accept: options.Accept = None,
    assignments: options.Assignments = None,
    as_json: options.AsJson = False,
) -> None:
    """Check the set-up, train, evaluate, choose a checkpoint.

    Without arguments: the model that comes with Evenhand, on stepwise-parity, in minutes on two CPU cores.
    """
    from evenhand.report import write  # noqa: PLC0415 - loads SciPy
    from evenhand.training import run  # noqa: PLC0415 - loads torch

    chosen = options.overrides(assignments, task=task, model=model, steps=steps, seed=seed, device=device)
    if resume is not None:
        outcome = run.resume(resume, chosen, fresh=configuration is not None or out is not None)
    else:
        source = options.configuration_source(configuration, model)
        look = None if no_preflight else partial(examine, accepted=accept or ())
        outcome = run.start(source, chosen, out=out, examine=look)
    if outcome is None:
        return  # another process of this launch reports
    page = write([outcome.folder], outcome.folder.path / "report.html")
    if as_json:
        print_json(outcome.to_json())
    else:
        stdout().print(outcome.summary())
        for line in outcome.next_steps():
            stderr().print(line, markup=False)
        stderr().print(f"The whole run on one page: {page}", markup=False)
    if outcome.interrupted or outcome.ended_by is not None:
        raise typer.Exit(1)


def examine(config: "RunConfig", accepted: Sequence[str]) -> dict[str, Any]:
    """Preflight before a run: its findings on stderr, its report for the run folder.

    Args:
        config: The resolved configuration.
        accepted: Codes that the user knows of and that stop no run, besides the configuration's; they are recorded.

    Raises:
        RunStopped: a finding says that going on would waste the run.
    """
    from evenhand.preflight.run import run_preflight  # noqa: PLC0415 - loads torch

    return heeded(run_preflight(config), [*config.preflight.accept, *accepted])


def heeded(report: "PreflightReport", known: Sequence[str]) -> dict[str, Any]:
    """Serious findings on stderr; the report for the run folder, with the codes that were accepted.

    Raises:
        RunStopped: a finding that is not accepted says that going on would waste the run.
    """
    serious = [finding for finding in report.findings if finding.severity in {"warn", "stop"}]
    stderr().print(f"preflight: {len(report.findings)} findings, {len(serious)} of them serious", markup=False)
    also = [finding for finding in report.findings if finding.code in ALWAYS_SAID and finding not in serious]
    print_findings([*serious, *also], to=stderr())
    stops = [f.code for f in report.findings if f.severity == "stop" and f.code not in known]
    if stops:
        remedy = "Mend it, or train all the same with --accept CODE or --no-preflight."
        raise RunStopped(f"Preflight stops this run: {', '.join(stops)}.", remedy)
    return {**report.to_json(), "accepted": list(known)}
