"""Work that may crash or leave traces is done in a child process, and its end is told in words."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHOWN = 300  # characters of a child's last line


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child process ended: what it answered, or why it did not."""

    answer: Any = None
    failure: str = ""


def run_child(module: str, request: Mapping[str, Any], time_limit: float) -> ChildEnd:
    """Run ``python -m module REQUEST ANSWER`` and read its answer."""
    with tempfile.TemporaryDirectory() as scratch:
        asked, answered = Path(scratch) / "request.json", Path(scratch) / "answer.json"
        asked.write_text(json.dumps(request), encoding="utf-8")
        failure = run_to_end([sys.executable, "-m", module, str(asked), str(answered)], time_limit)
        if failure:
            return ChildEnd(failure=failure)
        return ChildEnd(answer=json.loads(answered.read_text(encoding="utf-8")))


def run_to_end(command: Sequence[str], time_limit: float) -> str:
    """Run a command; empty where it ended well, otherwise how it ended, in words."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=time_limit, check=False, env=without_launcher(os.environ)
        )
    except subprocess.TimeoutExpired:
        return f"the child process did not end within {time_limit:.0f} s"
    if done.returncode == 0:
        return ""
    lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    last = f": {lines[-1].strip()[:SHOWN]}" if lines else ""
    return f"the child process {ending(done.returncode)}{last}"


def without_launcher(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process of its own: with a launcher's variables it would wait for its brothers."""
    own = ("RANK", "LOCAL_", "GROUP_", "ROLE_", "WORLD_SIZE", "MASTER_", "TORCHELASTIC_", "ACCELERATE_")
    return {name: value for name, value in environment.items() if not name.startswith(own)}


def ending(code: int) -> str:
    """A return code in words; a negative one is a signal."""
    if code >= 0:
        return f"failed with exit code {code}"
    try:
        return f"was ended by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"was ended by signal {-code}"
