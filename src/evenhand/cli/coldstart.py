"""``evenhand coldstart``."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from evenhand.cli import options
from evenhand.cli.output import print_json, stderr, stdout
from evenhand.cli.train import heeded

if TYPE_CHECKING:
    from evenhand.config import RunConfig


def coldstart(
    configuration: options.Configuration = None,
    task: options.TaskName = None,
    model: options.ModelName = None,
    seed: options.Seed = None,
    device: options.Device = None,
    out: options.Out = None,
    resume: options.Resume = None,
    no_preflight: options.NoPreflight = False,
    accept: options.Accept = None,
    assignments: options.Assignments = None,
    as_json: options.AsJson = False,
) -> None:
    """Teach a model the form of a task's answers by supervision, on problems outside all splits, before `train`.

    The [coldstart] table says how many examples are shown and when it ends. The model is left in RUN/model.
    """
    from evenhand.training.coldstart import run  # noqa: PLC0415 - loads torch

    chosen = options.overrides(assignments, task=task, model=model, device=device)
    if seed is not None:
        chosen = {"coldstart.seed": seed, **chosen}
    if resume is not None:
        outcome = run.resume(resume, chosen, fresh=configuration is not None or out is not None)
    else:
        source = options.configuration_source(configuration, model)
        outcome = run.start(
            source, chosen, out=out, examine=None if no_preflight else partial(examine, accepted=accept or ())
        )
    if as_json:
        print_json(outcome.to_json())
    else:
        stdout().print(outcome.summary())
        for line in outcome.next_steps():
            stderr().print(line, markup=False)
    if outcome.interrupted:
        raise typer.Exit(1)


def examine(config: "RunConfig", accepted: Sequence[str]) -> dict[str, Any]:
    """Preflight before a cold start. Raises RunStopped where a finding says that it would be wasted."""
    from evenhand.preflight.cold_start import preflight_cold_start  # noqa: PLC0415 - loads torch

    return heeded(preflight_cold_start(config), [*config.preflight.accept, *accepted])
