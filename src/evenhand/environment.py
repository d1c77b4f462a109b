"""What a run ran on: versions, interpreter, machine. No torch."""

import os
import platform
import sys
from importlib import metadata
from typing import Any

PACKAGES = ("evenhand", "torch", "trl", "transformers", "accelerate", "datasets", "tokenizers", "safetensors", "peft")


def versions() -> dict[str, str]:
    """Installed version of every package that a result depends on; packages that are not installed are left out."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def describe(device: str) -> dict[str, Any]:
    """The record that a run folder keeps."""
    return {
        "versions": versions(),
        "device": device,
        "python": platform.python_version(),
        "interpreter": sys.executable,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "command": sys.argv,
    }
