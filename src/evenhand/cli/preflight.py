"""``evenhand preflight``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli import options
from evenhand.cli.output import exit_code, print_findings, print_json, stderr
from evenhand.records import Unknown

if TYPE_CHECKING:
    from evenhand.preflight.report import PreflightReport

Rewards = Annotated[
    str | None,
    typer.Option("--rewards", metavar="FILE.py:f,g", help="Reward functions of a plain TRL script; needs --data."),
]
DataFile = Annotated[
    Path | None, typer.Option("--data", metavar="FILE.jsonl", help="Rows with a prompt and the rewards' columns.")
]
Weights = Annotated[list[float] | None, typer.Option("--weight", help="A weight per function, in their order.")]
Gold = Annotated[str | None, typer.Option("--gold", metavar="COLUMN", help="The column with a right answer as text.")]
WithoutModel = Annotated[bool, typer.Option("--no-model", help="Only what needs no model, in seconds.")]


def preflight(
    configuration: options.Configuration = None,
    task: options.TaskName = None,
    model: options.ModelName = None,
    steps: options.Steps = None,
    seed: options.Seed = None,
    device: options.Device = None,
    assignments: options.Assignments = None,
    rewards: Rewards = None,
    data: DataFile = None,
    weight: Weights = None,
    gold: Gold = None,
    no_model: WithoutModel = False,
    as_json: options.AsJson = False,
) -> None:
    """Check data, rewards, settings, machine and model before the first step; nothing is trained."""
    if rewards is not None or data is not None:
        report = of_functions(rewards, data, weight, gold)
    else:
        chosen = options.overrides(assignments, task=task, model=model, steps=steps, seed=seed, device=device)
        report = of_configuration(options.configuration_source(configuration, model), chosen, no_model)
    if as_json:
        print_json(report.to_json())
    else:
        show(report)
    raise typer.Exit(exit_code(report.findings))


def of_functions(
    rewards: str | None, data: Path | None, weights: Sequence[float] | None, gold: str | None
) -> "PreflightReport":
    """The report on somebody's functions and data, without a model and without loading PyTorch."""
    from evenhand.errors import ConfigurationError  # noqa: PLC0415 - keeps --help quick
    from evenhand.preflight.foreign import foreign_setup  # noqa: PLC0415
    from evenhand.preflight.report import examine  # noqa: PLC0415

    if rewards is None or data is None:
        raise ConfigurationError(
            "--rewards and --data belong together.", "Write: evenhand preflight --rewards FILE.py:f,g --data FILE.jsonl"
        )
    return examine(foreign_setup(rewards, data, weights, gold))


def of_configuration(source: str | None, chosen: dict[str, object], no_model: bool) -> "PreflightReport":
    """The report on a configuration."""
    from evenhand.config import draft  # noqa: PLC0415 - keeps --help quick
    from evenhand.preflight.run import preflight_draft  # noqa: PLC0415 - loads torch

    out = stderr()
    return preflight_draft(
        draft(source, chosen), with_model=not no_model, say=lambda line: out.print(f"… {line}", markup=False)
    )


def show(report: "PreflightReport") -> None:
    """Findings worst first, then what found nothing and what could not be judged."""
    print_findings(report.findings, by_reason(report.unknown))
    found = {finding.severity for finding in report.findings}
    stderr().print(f"{len(report.silent)} checks found nothing: {', '.join(report.silent)}", markup=False)
    if not found & {"warn", "stop"}:
        stderr().print("Nothing speaks against this set-up.", markup=False)


def by_reason(unknown: Sequence[Unknown]) -> list[Unknown]:
    """One entry per reason, with the codes of all that it concerns."""
    codes: dict[str, list[str]] = {}
    for one in unknown:
        codes.setdefault(one.reason, []).append(one.code)
    return [Unknown(", ".join(named), reason) for reason, named in codes.items()]
