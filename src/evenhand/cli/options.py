"""Options that several commands share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from evenhand.config import parse_assignment, shipped_configurations

Configuration = Annotated[
    str | None,
    typer.Argument(metavar="[CONFIG.toml]", help="A file, or the name of a shipped configuration.", show_default=False),
]
TaskName = Annotated[str | None, typer.Option("--task", help="A task; `evenhand tasks` lists them.")]
ModelName = Annotated[
    str | None, typer.Option("--model", help="A model's name or directory; `evenhand models` lists the names.")
]
Steps = Annotated[int | None, typer.Option("--steps", min=1, help="Optimiser steps.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Random seed.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any field of the configuration or of TRL's GRPOConfig."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)]


def overrides(
    task: str | None, model: str | None, steps: int | None, seed: int | None, assignments: Sequence[str] | None
) -> dict[str, Any]:
    """The flags as dotted keys of the configuration."""
    given = {"task": task, "model": model, "train.max_steps": steps, "train.seed": seed}
    chosen: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    return chosen | dict(parse_assignment(text) for text in assignments or ())


def configuration_source(configuration: str | None, model: str | None) -> str | None:
    """The configuration asked for; with none, the one shipped for the model, if there is one."""
    if configuration is None and model in shipped_configurations():
        return model
    return configuration
