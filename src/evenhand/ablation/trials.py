"""Run a study: every trial a process of its own with the same preflight, resumable, failures kept and named."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.ablation.engines import Engine
from evenhand.ablation.engines.engine import Job
from evenhand.ablation.study import Study, Trial
from evenhand.errors import RunFolderError
from evenhand.runfolder import RunFolder, replace_file

STUDY_FILE = "study.json"
LOG_SUFFIX = ".log"
CONFIG_SUFFIX = ".toml"
# What may change without making another study of it: it is done with more seeds, or in spite of a finding.
MAY_CHANGE = dict.fromkeys(("seeds", "question", "accepts", "metrics", "until", "reference"))
Told = Callable[[Trial, int], None]

STILL_TO_DO = {"absent", "interrupted", "running", "starting"}


@dataclass(frozen=True, slots=True)
class State:
    """Where a trial stands: ``absent`` or the state of its run folder, and why it failed."""

    trial: Trial
    folder: Path
    name: str
    reason: str = ""


def open_study(study: Study, out: Path) -> Path:
    """The study's folder, made or found again.

    Raises:
        RunFolderError: another study lies there, or the disk refuses.
    """
    record = study.model_dump(mode="json", by_alias=True)
    earlier = RunFolder(out).read_json(STUDY_FILE)
    if earlier is not None and {**earlier, **MAY_CHANGE} != {**record, **MAY_CHANGE}:
        raise RunFolderError(f"{out} holds another study or another version of it.", "Name another folder for --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        if earlier is None and any(out.iterdir()):
            raise RunFolderError(f"{out} is not empty and holds no study.", "Name another folder for --out.")
    except OSError as error:
        raise RunFolderError(f"{out} cannot be made: {error.strerror}.", "Name another folder for --out.") from error
    RunFolder(out).write_json(STUDY_FILE, record)
    return out


def state_of(trial: Trial, out: Path) -> State:
    """Where a trial stands. A run that says it is running and whose process is gone was killed."""
    path = out / trial.name
    status = RunFolder(path).read_json("status.json")
    if not isinstance(status, Mapping):
        reason = log_end(path)
        return State(trial, path, "failed" if reason else "absent", reason)
    name = str(status.get("state"))
    if name in {"starting", "running"} and not alive(status.get("process")):
        name = "interrupted"
    return State(trial, path, name, str(status.get("error") or ""))


def alive(process: Any) -> bool:
    """Whether a process of this number exists on this machine."""
    if not isinstance(process, int):
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def log_end(path: Path) -> str:
    """The last line that a trial without a run folder left: preflight refused it, or it could not begin."""
    log = path.with_name(path.name + LOG_SUFFIX)
    if not log.is_file():
        return ""
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error:")]
    return (errors or lines or ["it left no word"])[-1]


def run_trials(
    study: Study, trials: Sequence[Trial], out: Path, engine: Engine, told: Told, retry: bool = False
) -> list[State]:
    """Run what is still to be run, and say where every trial stands.

    Args:
        study: The study.
        trials: Its trials.
        out: Its folder.
        engine: Where to run.
        told: Called with each trial and its exit code as it ends.
        retry: Whether failed trials are tried anew, in a fresh folder; the failed one is kept under another name.
    """
    todo = STILL_TO_DO | ({"failed"} if retry else set())
    jobs = {}
    for trial in trials:
        state = state_of(trial, out)
        if state.name in todo:
            if state.name == "failed":
                set_aside(state.folder)
            jobs[trial.name] = (trial, job_of(study, trial, state_of(trial, out)))
    for job, code in engine.run([job for _, job in jobs.values()]):
        told(jobs[job.name][0], code)
    return [state_of(trial, out) for trial in trials]


def set_aside(folder: Path) -> None:
    """Keep what a failed trial left, under a name that is not taken."""
    number = 1
    while folder.with_name(f"{folder.name}-failed-{number}").exists():
        number += 1
    for suffix in ("", LOG_SUFFIX):
        left = folder.with_name(folder.name + suffix)
        if left.exists():
            left.rename(folder.with_name(f"{folder.name}-failed-{number}{suffix}"))


def job_of(study: Study, trial: Trial, state: State) -> Job:
    """The command line of a trial: begin it, or go on with what was interrupted."""
    folder = state.folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    begun = (folder / "config.toml").is_file()
    config = folder.with_name(folder.name + CONFIG_SUFFIX)
    replace_file(config, trial.config.to_toml())
    command = [sys.executable, "-m", "evenhand", "train"]
    if begun:
        command += ["--resume", str(folder)]
    else:
        if folder.exists():
            set_aside(folder)
        command += [str(config), "--out", str(folder)]
        command += [] if study.preflight else ["--no-preflight"]
        command += [word for code in study.accepts.get(trial.arm, ()) for word in ("--accept", code)]
    log = folder.with_name(folder.name + LOG_SUFFIX)
    return Job(trial.name, command, str(Path.cwd()), str(log))
