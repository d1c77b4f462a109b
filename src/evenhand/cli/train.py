"""``evenhand train``."""

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli import options
from evenhand.cli.output import print_json, stderr, stdout


def train(
    configuration: options.Configuration = None,
    task: options.TaskName = None,
    model: options.ModelName = None,
    steps: options.Steps = None,
    seed: options.Seed = None,
    device: options.Device = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run folder; must not exist or be empty.")] = None,
    resume: Annotated[Path | None, typer.Option("--resume", metavar="RUN", help="Go on with a run.")] = None,
    no_preflight: Annotated[bool, typer.Option("--no-preflight", help="Train whatever preflight would say.")] = False,
    assignments: options.Assignments = None,
    as_json: options.AsJson = False,
) -> None:
    """Check the set-up, train, evaluate, choose a checkpoint.

    Without arguments: the model that comes with Evenhand, on stepwise-parity, in minutes on two CPU cores.
    """
    from evenhand.training import run  # noqa: PLC0415 - loads torch

    chosen = options.overrides(assignments, task=task, model=model, steps=steps, seed=seed, device=device)
    if resume is not None:
        outcome = run.resume(resume, chosen, fresh=configuration is not None or out is not None)
    else:
        source = options.configuration_source(configuration, model)
        outcome = run.start(source, chosen, out=out, preflight=not no_preflight)
    if outcome is None:
        return  # another process of this launch reports
    if as_json:
        print_json(outcome.to_json())
    else:
        stdout().print(outcome.summary())
        for line in outcome.next_steps():
            stderr().print(line, markup=False)
    if outcome.interrupted:
        raise typer.Exit(1)
