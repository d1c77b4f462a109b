#!/usr/bin/env python3
"""Give the recorded logs to the public tools of this kind, and write ``docs/comparison.md``.

In an environment of their own, so that nothing of theirs meets ours:

    python -m venv /tmp/other-tools
    /tmp/other-tools/bin/pip install rldoctor==0.2.0 rlprobe==0.1.0 rlwatch==0.5.1 trainproof==0.22.0
    /tmp/other-tools/bin/python scripts/compare_tools.py collect > /tmp/said.json
    python scripts/compare_tools.py page /tmp/said.json > docs/comparison.md

``collect`` needs the four tools and nothing of Evenhand; ``page`` adds what Evenhand says and judges all alike. Every
tool runs with its defaults. Two of them read no log: their own recorder is fed the rows under their names.
"""

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

LOGS = Path(__file__).parents[1] / "tests" / "fixtures" / "logs"
TOOLS = ("rldoctor", "rlprobe", "rlwatch", "trainproof")
BIN = Path(sys.executable).parent

# Fixture -> what happened, and which of each tool's codes name it. Nothing may be raised on the sound ones.
SOUND = {"healthy": "sound", "short": "sound, 10 rows", "resumed": "sound, resumed once", "solved": "solved"}
SICK: dict[str, tuple[str, dict[str, set[str]]]] = {
    "collapsed": (
        "collapse to one answer",
        {
            "evenhand": {"collapsed-identical-rollouts"},
            "rldoctor": {"entropy_collapse", "advantage_collapse"},
            "rlprobe": {"ENTROPY_COLLAPSE", "DEGENERATE_GROUPS", "ADV_COLLAPSE", "REWARD_STD_DEATH"},
            "rlwatch": {"entropy_collapse", "advantage_variance"},
            "trainproof": {"TP-ZERO-LOSS-ONSET", "TP-ZERO-GRAD"},
        },
    ),
    "nan": (
        "NaN at step 2",
        {
            "evenhand": {"weights-are-nan"},
            "rldoctor": {"gradient_pathology"},
            "rlprobe": {"GRAD_PATHOLOGY"},
            "rlwatch": {"loss_nan"},
            "trainproof": {"TP-NAN-GRAD", "TP-NAN"},
        },
    ),
    "truncated": (
        "cut off before the answer",
        {
            "evenhand": {"truncated-before-answer"},
            "rldoctor": {"length_pathology"},
            "rlprobe": {"TRUNCATION_STARVE"},
            "rlwatch": set(),
            "trainproof": set(),
        },
    ),
    "runaway": (
        "end token lost after step 20",
        {
            "evenhand": {"truncated-before-answer", "peak-then-collapse"},
            "rldoctor": {"length_pathology"},
            "rlprobe": {"TRUNCATION_STARVE", "REPETITION_SPIRAL"},
            "rlwatch": {"reward_mean_drift"},
            "trainproof": set(),
        },
    ),
    "bf16-stuck": (
        "updates round to nothing",
        {
            "evenhand": {"updates-swallowed"},
            "rldoctor": {"plateau"},
            "rlprobe": set(),
            "rlwatch": set(),
            "trainproof": set(),
        },
    ),
    "hacked": (
        "short answers instead of right ones",
        {
            "evenhand": {"easy-term-crowds-out-goal"},
            "rldoctor": {"reward_hacking", "reward_composition"},
            "rlprobe": {"REWARD_HACK_LENGTH", "FORMAT_GAMING"},
            "rlwatch": {"reward_hacking"},
            "trainproof": set(),
        },
    ),
    "drifting": (
        "accuracy flat, one answer favoured",
        {
            "evenhand": {"accuracy-flat-while-weights-move", "predictions-bet-on-one-answer"},
            "rldoctor": {"plateau", "reward_hacking"},
            "rlprobe": set(),
            "rlwatch": set(),
            "trainproof": set(),
        },
    ),
}

Said = list[list[str]]  # [code, severity] pairs; only alarms


def rows_of(log: Path) -> list[dict[str, Any]]:
    """The rows of a log, as they were written."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def output_of(*command: str) -> str:
    """Standard output, whatever the exit code."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300).stdout


def rldoctor(log: Path) -> Said:
    """Its command, its JSON."""
    report = json.loads(output_of(str(BIN / "rldoctor"), "diagnose", str(log), "--format", "json"))
    levels = {"CRITICAL": "critical", "WARNING": "warning"}
    return [[one["detector"], levels[one["severity"]]] for one in report["findings"] if one["severity"] in levels]


def trainproof(log: Path) -> Said:
    """Its command, its JSON."""
    report = json.loads(output_of(str(BIN / "trainproof"), "diagnose", str(log), "--json"))
    levels = {"FAIL": "critical", "WARN": "warning"}
    found = [one for part in report["reports"] for one in part["findings"]]
    return [[one["id"], levels[one["level"]]] for one in found if one["level"] in levels]


def rlprobe(log: Path) -> Said:
    """Its recorder fed with the rows under the names of its own TRL adapter, then its doctor."""
    from rlprobe.doctor import diagnose  # noqa: PLC0415 - only in its own environment
    from rlprobe.recorder import Recorder  # noqa: PLC0415 - as above

    names = {
        "reward": "reward_mean",
        "reward_std": "reward_std",
        "frac_reward_zero_std": "zero_variance_group_frac",
        "kl": "kl_mean",
        "entropy": "entropy_mean",
        "clip_ratio/region_mean": "clip_fraction",
        "loss": "loss",
        "learning_rate": "lr",
        "grad_norm": "grad_norm",
        "completions/mean_length": "completion_len_mean",
        "completions/max_length": "completion_len_max",
        "completions/clipped_ratio": "truncation_rate",
        "step_time": "step_time_s",
    }
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "run", algorithm="grpo", capture_env=False, install_handlers=False)
        for row in rows_of(log):
            if "reward" not in row:
                continue
            usable = {key: value for key, value in row.items() if isinstance(value, float) and not math.isnan(value)}
            parts = {
                key[len("rewards/") : -len("/mean")]: value
                for key, value in usable.items()
                if key.startswith("rewards/") and key.endswith("/mean")
            }
            known = {names[key]: value for key, value in usable.items() if key in names}
            recorder.log_step(int(row["step"]), reward_components=parts, **known)
        recorder.close()
        found = diagnose(recorder.run_dir)
    levels = {"critical": "critical", "warn": "warning"}
    return [[one.signature_id, levels[one.severity]] for one in found if one.severity in levels]


def rlwatch(log: Path) -> Said:
    """Its monitor fed row by row, as its manual interface asks."""
    import logging  # noqa: PLC0415 - to silence this tool alone

    import rlwatch as tool  # noqa: PLC0415 - only in its own environment

    logging.disable(logging.CRITICAL)
    names = {
        "entropy": "entropy",
        "kl": "kl_divergence",
        "reward": "reward_mean",
        "reward_std": "reward_std",
        "loss": "loss",
        "learning_rate": "learning_rate",
        "clip_ratio/region_mean": "clip_fraction",
        "grad_norm": "grad_norm",
    }
    alerts = []
    with tempfile.TemporaryDirectory() as folder:
        config = tool.config.RLWatchConfig()
        config.storage.log_dir = folder
        monitor = tool.core.RLWatch(config)
        monitor.start()
        for row in rows_of(log):
            if "reward" in row:
                known = {names[key]: value for key, value in row.items() if key in names}
                alerts += monitor._detectors.check_step(int(row["step"]), **{key: known.get(key) for key in DETECTED})
        monitor.stop()
    said = {(one.detector, str(one.severity).rsplit(".", 1)[-1].lower()) for one in alerts}
    return [list(pair) for pair in sorted(said)]


DETECTED = ("entropy", "kl_divergence", "reward_mean", "reward_std", "loss", "grad_norm")
READERS: dict[str, Callable[[Path], Said]] = {
    "rldoctor": rldoctor,
    "rlprobe": rlprobe,
    "rlwatch": rlwatch,
    "trainproof": trainproof,
}


def collect() -> dict[str, Any]:
    """What each of the four says about each log, or what it raised."""
    said: dict[str, dict[str, Any]] = {}
    for name in [*SOUND, *SICK]:
        log = LOGS / name / "metrics.jsonl"
        said[name] = {}
        for tool in TOOLS:
            try:
                said[name][tool] = READERS[tool](log)
            except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
                said[name][tool] = f"{type(error).__name__}: {error}"
    return {"versions": {tool: metadata.version(tool) for tool in TOOLS}, "said": said}


def evenhand(name: str) -> Said:
    """Evenhand's alarms on the same rows alone, and nothing else of the run folder."""
    from evenhand.diagnosis.diagnose import diagnose  # noqa: PLC0415 - not in the other environment
    from evenhand.diagnosis.readers import read_history  # noqa: PLC0415 - as above

    findings = diagnose(read_history(LOGS / name / "metrics.jsonl")).findings
    return [[one.code, one.severity] for one in findings if one.severity in {"warn", "stop"}]


def judged(name: str, tool: str, said: Said | str) -> str:
    """A cell: right or wrong, and the alarms."""
    if isinstance(said, str):
        return f"**wrong**: {said[:80]}"
    codes = list(dict.fromkeys(code for code, _ in said))
    right = not codes if name in SOUND else bool(set(codes) & SICK[name][1][tool])
    return f"{'right' if right else '**wrong**'}: {', '.join(codes) or 'no alarm'}"


def page(collected: dict[str, Any]) -> str:
    """The Markdown page."""
    tools = ("evenhand", *TOOLS)
    heads = ["evenhand", *(f"{tool} {collected['versions'][tool]}" for tool in TOOLS)]
    lines = []
    right = dict.fromkeys(tools, 0)
    for name in [*SOUND, *SICK]:
        happened = SOUND.get(name) or SICK[name][0]
        cells = []
        for tool in tools:
            said = evenhand(name) if tool == "evenhand" else collected["said"][name][tool]
            cells.append(judged(name, tool, said))
            right[tool] += cells[-1].startswith("right")
        lines.append(f"| `{name}`: {happened} | " + " | ".join(cells) + " |")
    total = len(SOUND) + len(SICK)
    lines.append("| right | " + " | ".join(f"{right[tool]} of {total}" for tool in tools) + " |")
    table = ["| log | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|", *lines]
    return HEAD + "\n".join(table) + "\n" + TAIL


HEAD = """\
<!-- Written by scripts/compare_tools.py, which says how to repeat it. -->

# The same logs, given to other tools

The recorded logs of `tests/fixtures/logs` (real runs of a small model), rows alone, given to four public tools of this
kind with their defaults. On the sound logs *right* means that no warning and nothing worse is raised; on the others,
that at least one alarm names what happened. Which of a tool's alarms count is written down in
`scripts/compare_tools.py`, generously: a tool that calls the collapsed run "too easy" is given the point for naming
zero-variance groups.

These are logs on which Evenhand's rules were developed, so its own column is no fair estimate of how it does on others;
for that, read the [cases](../tests/fixtures/cases), which come from public reports.

"""
TAIL = """
`rldoctor` and `trainproof` read the log as it is; `rlprobe` and `rlwatch` read only what their own recorder wrote, so
the rows were handed to it under their names. `trainproof` is made for training in general and looks for mechanical
failures.
"""


def main(arguments: Iterable[str]) -> None:
    """``collect`` or ``page FILE``."""
    chosen = list(arguments)
    if chosen[:1] == ["collect"]:
        sys.stdout.write(json.dumps(collect(), indent=1) + "\n")
    elif chosen[:1] == ["page"] and len(chosen) == 2:
        sys.stdout.write(page(json.loads(Path(chosen[1]).read_text(encoding="utf-8"))))
    else:
        sys.exit(str(__doc__))


if __name__ == "__main__":
    main(sys.argv[1:])
