"""Evenhand: train small language models with GRPO on your own machine, and know whether to believe the numbers.

The names below are for people's own TRL scripts. Each is loaded when it is first used, so that looking at a run
needs no torch.
"""

import importlib
from typing import Any

# Where each public name lives.
_HOMES = {
    "PrefixTreeTrainer": "evenhand.training.trainer",
    "ResumableTrainer": "evenhand.training.trainer",
    "RunFolderCallback": "evenhand.training.callbacks",
    "RunFolder": "evenhand.runfolder",
    "Task": "evenhand.tasks",
    "choose": "evenhand.selection",
}
__all__ = sorted(_HOMES)  # noqa: PLE0605 - sorted() of a literal table is a list


def __getattr__(name: str) -> Any:
    """Load a public name."""
    if name not in _HOMES:
        raise AttributeError(f"module 'evenhand' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)
