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
Device = Annotated[str | None, typer.Option("--device", help="auto, cpu, cuda or mps.")]
Steps = Annotated[int | None, typer.Option("--steps", min=1, help="Optimiser steps.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Random seed.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any field of the configuration or of TRL's GRPOConfig."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Out = Annotated[Path | None, typer.Option("--out", help="The run folder; must not exist or be empty.")]
Resume = Annotated[Path | None, typer.Option("--resume", metavar="RUN", help="Go on with that run folder.")]
NoPreflight = Annotated[bool, typer.Option("--no-preflight", help="Train whatever preflight would say.")]
Accept = Annotated[
    list[str] | None, typer.Option("--accept", metavar="CODE", help="A finding of preflight that stops no run.")
]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)]


FLAGS = {"task": "task", "model": "model", "device": "device", "steps": "train.max_steps", "seed": "train.seed"}


def overrides(assignments: Sequence[str] | None, **flags: Any) -> dict[str, Any]:
    """The flags that were given, as dotted keys of the configuration; ``--set`` counts last."""
    chosen = {FLAGS[name]: value for name, value in flags.items() if value is not None}
    return chosen | dict(parse_assignment(text) for text in assignments or ())


def configuration_source(configuration: str | None, model: str | None) -> str | None:
    """The configuration asked for; with none, the one shipped for the model, if there is one."""
    if configuration is None and model in shipped_configurations():
        return model
    return configuration
