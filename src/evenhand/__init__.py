"""Evenhand: train small language models with GRPO on your own machine, and know whether to believe the numbers.

The names below are for people's own TRL scripts. Each is loaded when it is first used, so that looking at a run
needs no torch.
"""

import importlib
from typing import Any

# Public name -> where it lives, and its name there.
_HOMES = {
    "LineCredit": ("evenhand.training.line_credit", "LineCredit"),
    "PrefixTreeTrainer": ("evenhand.training.trainer", "PrefixTreeTrainer"),
    "ResumableTrainer": ("evenhand.training.trainer", "ResumableTrainer"),
    "RunFolderCallback": ("evenhand.training.callbacks", "RunFolderCallback"),
    "Watchdog": ("evenhand.training.watchdog", "WatchdogCallback"),
    "RunFolder": ("evenhand.runfolder", "RunFolder"),
    "Task": ("evenhand.tasks", "Task"),
    "choose": ("evenhand.selection", "choose"),
    "diagnose": ("evenhand.diagnosis.diagnose", "diagnose"),
    "read_history": ("evenhand.diagnosis.readers", "read_history"),
    "show_report": ("evenhand.report", "show"),
    "train": ("evenhand.training.run", "start"),
}
__all__ = sorted(_HOMES)  # noqa: PLE0605 - sorted() of a literal table is a list


def __getattr__(name: str) -> Any:
    """Load a public name."""
    if name not in _HOMES:
        raise AttributeError(f"module 'evenhand' has no attribute '{name}'")
    module, inner = _HOMES[name]
    return getattr(importlib.import_module(module), inner)
