"""The settings that a run would really have, or why the installed TRL refuses them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trl import GRPOConfig

from evenhand.config import Draft, RunConfig, finish
from evenhand.errors import ConfigurationError, DeviceError
from evenhand.training.arguments import build, check, resolve


@dataclass(frozen=True, slots=True)
class Effective:
    """A configuration with every field of ``GRPOConfig`` filled in.

    ``refused`` is what TRL's constructor or the device says against it; then ``train`` holds defaults where nothing was
    asked for.
    """

    config: RunConfig
    train: Mapping[str, Any]
    refused: str = ""


def settle(drafted: Draft) -> Effective:
    """The configuration as a run would have it, also where TRL or the device refuses it.

    Raises:
        ConfigurationError: faults of the file itself: unknown keys, values of the wrong type.
    """
    try:
        return effective(resolve(drafted))
    except (ConfigurationError, DeviceError) as error:
        train, faults = check(drafted.train)
        config = finish(drafted, train, faults)
        return Effective(config, {**defaults(), **config.train}, error.message)


def effective(config: RunConfig) -> Effective:
    """Every field of the arguments that TRL would get from a resolved configuration."""
    try:
        args = build(config, Path("runs"))
    except ConfigurationError as error:
        return Effective(config, {**defaults(), **config.train}, error.message)
    return Effective(config, {name: getattr(args, name) for name in defaults() if hasattr(args, name)})


def defaults() -> dict[str, Any]:
    """Defaults of the installed ``GRPOConfig``; a field that is made by a factory is left out."""
    fields = dataclasses.fields(GRPOConfig)
    return {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
