"""``evenhand probe``."""

from typing import Annotated

import typer

from evenhand.cli import options
from evenhand.cli.output import exit_code, print_findings, print_json, stderr, stdout, table

Rate = Annotated[float | None, typer.Option("--lr", min=0.0, help="Learning rate.")]
Body = Annotated[str | None, typer.Option("--body", help="Dtype of the weights: float32, bfloat16 or float16.")]
Norms = Annotated[str | None, typer.Option("--norms", help="Dtype of the norm weights.")]


def probe(
    configuration: options.Configuration = None,
    task: options.TaskName = None,
    model: options.ModelName = None,
    device: options.Device = None,
    lr: Rate = None,
    body: Body = None,
    norms: Norms = None,
    assignments: options.Assignments = None,
    as_json: options.AsJson = False,
) -> None:
    """Three real optimiser steps in a child process: how much of each parameter group moves, and why."""
    from evenhand.config import draft  # noqa: PLC0415 - keeps --help quick
    from evenhand.preflight.checks.updates_swallowed import table as figures  # noqa: PLC0415
    from evenhand.preflight.report import examine  # noqa: PLC0415
    from evenhand.preflight.setup import Setup  # noqa: PLC0415
    from evenhand.preflight.update_probe import CHECKS, probe_updates  # noqa: PLC0415
    from evenhand.training.arguments import resolve  # noqa: PLC0415 - loads torch
    from evenhand.training.run import check_names  # noqa: PLC0415 - loads torch

    chosen = options.overrides(assignments, task=task, model=model, device=device)
    named = {"train.learning_rate": lr, "precision.body": body, "precision.norms": norms}
    chosen |= {key: value for key, value in named.items() if value is not None}
    config = resolve(draft(options.configuration_source(configuration, model), chosen))
    check_names(config)
    stderr().print("… making three real optimiser steps in a child process", markup=False)
    updates = probe_updates(config)
    report = examine(Setup(updates=updates), CHECKS)
    if as_json:
        shared = {"steps": updates.steps, "learning_rate": updates.learning_rate, "seconds": updates.seconds}
        print_json({**shared, "groups": figures(updates.groups), **report.to_json()})
        raise typer.Exit(exit_code(report.findings))
    rows = [
        (
            group.name,
            group.dtype,
            f"{group.entries:,}",
            f"{group.moved:.2%}",
            f"{group.predicted:.2%}",
            f"{group.nonzero:.1%}",
            f"{group.update:.1e}",
            f"{group.unit:.1e}",
            f"{group.mends_at:.1e}" if group.mends_at else "",
        )
        for group in updates.groups
    ]
    heads = ("parameters", "dtype", "entries", "moved", "predicted", "gradient ≠ 0", "update", "unit", "half move at")
    title = f"{updates.steps} steps at learning rate {updates.learning_rate:g}, {updates.seconds:.1f} s"
    stdout().print(table(title, heads, rows))
    print_findings(report.findings, report.unknown)
    raise typer.Exit(exit_code(report.findings))
