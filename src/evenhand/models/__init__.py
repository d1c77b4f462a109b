"""Where a model comes from. To add a known one: describe it in ``known.py``, enter it in ``MODELS``."""

import difflib
from pathlib import Path

from evenhand.errors import ModelError
from evenhand.models.known import EMBEDDED, SMOLLM2, KnownModel

__all__ = ["MODELS", "KnownModel", "known_model", "resolve"]

MODELS: tuple[KnownModel, ...] = (EMBEDDED, SMOLLM2)


def known_model(name: str) -> KnownModel | None:
    """The model of that name, or None."""
    return next((model for model in MODELS if model.name == name), None)


def resolve(name_or_path: str | Path) -> Path:
    """The local directory of a known model, or the directory itself.

    Nothing is fetched, whatever the name.

    Raises:
        ModelError: a known model that was not built yet, or neither a known name nor a directory.
    """
    known = known_model(str(name_or_path))
    if known is not None:
        if not known.built:
            raise ModelError(f"The model {known.name} is not built yet.", f"Run: evenhand models build {known.name}")
        return known.directory
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return path
    names = [model.name for model in MODELS]
    near = difflib.get_close_matches(str(name_or_path), names, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Name a local model directory or one of: {', '.join(names)}."
    what = "is a file, not a model directory" if path.exists() else "is neither a known model nor a directory"
    raise ModelError(f"{name_or_path} {what}.", hint)
