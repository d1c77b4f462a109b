"""The models that Evenhand knows by name, described without loading anything heavy."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

WEIGHTS_FILE = "model.safetensors"


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model with a name of its own.

    Attributes:
        name: What users write for ``--model``.
        summary: One line for ``evenhand models``.
        planted: What was put into the weights on purpose and must be said wherever results are shown; often nothing.
        locate: Gives the directory where its files are, or would be after a build.
    """

    name: str
    summary: str
    planted: str
    locate: Callable[[], Path]

    @property
    def directory(self) -> Path:
        """Where its files are, or would be after a build."""
        return self.locate()

    @property
    def built(self) -> bool:
        """Whether its weights are there."""
        return (self.directory / WEIGHTS_FILE).is_file()


def packaged_directory() -> Path:
    """The embedded model's folder inside the installed package."""
    return Path(str(resources.files("evenhand") / "models" / "embedded"))


def cache_directory() -> Path:
    """Where converted models are kept: ``$XDG_CACHE_HOME/evenhand/models``, by default under ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "evenhand" / "models"


EMBEDDED = KnownModel(
    name="embedded",
    summary="a tiny Qwen3 (0.3 million parameters) that ships with Evenhand: for trying everything out in minutes",
    planted=(
        "It was taught both parity tasks by supervision. Then a habit was planted: it can count, but most of its "
        "counts are moved toward five. Training removes a habit here; it does not teach counting."
    ),
    locate=packaged_directory,
)
SMOLLM2 = KnownModel(
    name="smollm2-135m",
    summary="SmolLM2-135M-Instruct: real pretrained weights (make smollm2 gets them)",
    planted="",
    locate=lambda: cache_directory() / "smollm2-135m",
)
