"""The run folder: the only seam between making a run and looking at it.

``runs/<task>/<UTC time>-<short id>/`` holds

    config.toml            the resolved configuration
    environment.json       versions, device, interpreter, command line
    hashes.json            model and data
    precision.json         real dtypes by parameter group
    status.json            running, finished, interrupted or failed, and the process
    metrics.jsonl          one row per log of the trainer
    evaluations.jsonl      one row per scored split
    findings.jsonl         what the watchdog said
    completions/           one file per step: every sampled completion
    evaluations/           one file per evaluation: every answer
    checkpoints/           checkpoint-N, whole only if complete.json is there and its hashes hold
    trainer_state.json     Transformers' own log
    coldstart.json         in a cold start alone: what was shown and why it ended; model/ holds what it left
    selection.json, test.json, report.html

Every file is either appended a whole line at a time or replaced in one step, so a process killed at any moment leaves
a folder that still reads; a last line cut short is passed over. A key that was not logged is absent: unknown, not zero.
"""

import hashlib
import json
import os
import platform
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evenhand.errors import CheckpointError, RunFolderError
from evenhand.records import Completion, Evaluation, Finding, StepMetrics

COMPLETE = "complete.json"
CHECKPOINT_PREFIX = "checkpoint-"
COLD_START_FILE = "coldstart.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A saved model of a run."""

    step: int
    path: Path

    @property
    def marked(self) -> bool:
        """Whether saving it was finished."""
        return (self.path / COMPLETE).is_file()


class RunFolder:
    """Reader and writer of one run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # -- making and opening ------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, runs: Path, task: str, out: Path | None = None) -> "RunFolder":
        """A new folder, never one in use: ``out``, or a unique name under ``runs/<task>/``.

        Raises:
            RunFolderError: ``out`` exists and is not empty, or the disk is full or not writable.
        """
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        path = out if out is not None else runs / task / f"{stamp}-{secrets.token_hex(3)}"
        try:
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise RunFolderError(f"{path} already exists and is not empty.", "Name another folder for --out.")
            path.mkdir(parents=True, exist_ok=True)
            folder = cls(path)
            for name in ("checkpoints", "completions", "evaluations"):
                (path / name).mkdir()
            folder.write_status("starting")
        except OSError as error:
            raise writing_failed(path, error) from error
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """An existing run folder.

        Raises:
            RunFolderError: nothing there, or no run folder.
        """
        if not path.is_dir():
            raise RunFolderError(f"There is no run folder {path}.", "List your runs with: ls runs/*")
        if not (path / "status.json").is_file() and not (path / "config.toml").is_file():
            raise RunFolderError(f"{path} is no run folder: it has no config.toml.", "Name a folder under runs/.")
        return cls(path)

    @property
    def kind(self) -> str:
        """What made the run: ``coldstart`` (supervised), else ``grpo``."""
        return "coldstart" if (self.path / COLD_START_FILE).is_file() else "grpo"

    # -- whole files -------------------------------------------------------------------------------------------------

    def write_text(self, name: str, text: str) -> None:
        """Replace a file in one step. Raises RunFolderError where the disk refuses."""
        try:
            replace_file(self.path / name, text)
        except OSError as error:
            raise writing_failed(self.path / name, error) from error

    def write_json(self, name: str, value: Any) -> None:
        """Replace a JSON file in one step."""
        self.write_text(name, json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")

    def read_json(self, name: str) -> Any:
        """The content of a JSON file, or None where there is none or it does not read."""
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def read_text(self, name: str) -> str | None:
        """The content of a text file, or None."""
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def write_status(self, state: str, **details: Any) -> None:
        """``starting``, ``running``, ``finished``, ``interrupted`` or ``failed``, with the process that says so."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.write_json(
            "status.json", {"state": state, "process": os.getpid(), "host": platform.node(), "time": now, **details}
        )

    # -- rows --------------------------------------------------------------------------------------------------------

    def append(self, name: str, row: Mapping[str, Any]) -> None:
        """Append one row as one line. Raises RunFolderError where the disk refuses."""
        try:
            append_line(self.path / name, json.dumps(row, ensure_ascii=False, default=str))
        except OSError as error:
            raise writing_failed(self.path / name, error) from error

    def rows(self, name: str) -> Iterator[dict[str, Any]]:
        """The rows of a file; lines that are cut short or no objects are passed over."""
        yield from read_lines(self.path / name)

    def metrics(self) -> list[StepMetrics]:
        """Every log row of the trainer, in order."""
        rows = [dict(row) for row in self.rows("metrics.jsonl") if "step" in row]
        return [StepMetrics(int(row.pop("step")), row) for row in rows]

    def evaluations(self) -> list[Evaluation]:
        """Every evaluation, in order; rows that lack a field are passed over."""
        found = []
        for row in self.rows("evaluations.jsonl"):
            try:
                found.append(Evaluation.from_json(row))
            except (KeyError, TypeError, ValueError):
                continue
        return found

    def findings(self) -> list[Finding]:
        """What the watchdog and preflight left."""
        names = set(Finding.__dataclass_fields__)
        rows = [{key: value for key, value in row.items() if key in names} for row in self.rows("findings.jsonl")]
        return [Finding(**row) for row in rows if {"code", "severity", "stage", "message"} <= row.keys()]

    def write_completions(self, step: int, completions: Iterable[Completion]) -> None:
        """Replace the file of a step's completions."""
        lines = [json.dumps(c.to_json(), ensure_ascii=False, default=str) for c in completions]
        self.write_text(f"completions/step-{step:06d}.jsonl", "\n".join(lines) + "\n")

    def completions(self, step: int | None = None) -> Iterator[dict[str, Any]]:
        """Rows of one step's completions, or of all, in order of steps."""
        pattern = "step-*.jsonl" if step is None else f"step-{step:06d}.jsonl"
        for path in sorted((self.path / "completions").glob(pattern)):
            yield from read_lines(path)

    def completion_steps(self) -> list[int]:
        """Steps whose completions were kept, in order."""
        numbers = (path.stem.removeprefix("step-") for path in (self.path / "completions").glob("step-*.jsonl"))
        return sorted(int(number) for number in numbers if number.isdigit())

    def write_answers(self, evaluation: Evaluation, rows: Iterable[Mapping[str, Any]]) -> None:
        """Replace the file of an evaluation's answers."""
        lines = [json.dumps(row, ensure_ascii=False, default=str) for row in rows]
        name = f"evaluations/{evaluation.split}-{evaluation.step:06d}.jsonl"
        self.write_text(name, "\n".join(lines) + "\n")

    def answers(self, split: str, step: int) -> Iterator[dict[str, Any]]:
        """Rows of one evaluation's answers, in the order of the split; nothing where they were not kept."""
        yield from read_lines(self.path / "evaluations" / f"{split}-{step:06d}.jsonl")

    @property
    def checkpoints_path(self) -> Path:
        """Where checkpoints lie: in the folder, or where somebody's own trainer saves them."""
        elsewhere = self.read_text("checkpoints_elsewhere.txt")
        return Path(elsewhere.strip()) if elsewhere else self.path / "checkpoints"

    def link_checkpoints(self, output: Path) -> None:
        """Say that checkpoints are saved to ``output`` instead of this folder."""
        self.write_text("checkpoints_elsewhere.txt", f"{output.resolve()}\n")

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def checkpoints(self) -> list[Checkpoint]:
        """Checkpoints whose saving was finished, by step."""
        return [checkpoint for checkpoint in self.all_checkpoints() if checkpoint.marked]

    def all_checkpoints(self) -> list[Checkpoint]:
        """Every checkpoint folder, halves included, by step."""
        found = []
        for path in self.checkpoints_path.glob(f"{CHECKPOINT_PREFIX}*"):
            number = path.name.removeprefix(CHECKPOINT_PREFIX)
            if path.is_dir() and number.isdigit():
                found.append(Checkpoint(int(number), path))
        return sorted(found, key=lambda checkpoint: checkpoint.step)

    def checkpoint(self, step: int) -> Checkpoint:
        """The whole checkpoint of a step. Raises CheckpointError where there is none."""
        for checkpoint in self.checkpoints():
            if checkpoint.step == step:
                return checkpoint
        kept = ", ".join(str(checkpoint.step) for checkpoint in self.checkpoints()) or "none"
        raise CheckpointError(f"The run {self.path} has no checkpoint of step {step}.", f"Saved steps: {kept}.")

    def resume_point(self) -> Checkpoint | None:
        """The newest checkpoint from which the run can go on; half-saved ones are no candidates.

        Raises:
            CheckpointError: the newest finished one is damaged; the one before it is offered.
        """
        finished = self.checkpoints()
        if not finished:
            return None
        fault = damage(finished[-1].path)
        if fault is None:
            return finished[-1]
        whole = [checkpoint for checkpoint in finished[:-1] if damage(checkpoint.path) is None]
        move = f"Move {finished[-1].path} away, and --resume goes on from"
        remedy = f"{move} step {whole[-1].step}." if whole else f"{move} the first model."
        raise CheckpointError(f"Checkpoint {finished[-1].path.name} is damaged: {fault}.", remedy)

    def rewind(self, step: int) -> None:
        """Forget everything after ``step``, so that a resumed run writes it again, once."""
        for name in ("metrics.jsonl", "evaluations.jsonl", "findings.jsonl"):
            if (self.path / name).exists():
                kept = [row for row in self.rows(name) if row.get("step") is None or int(row["step"]) <= step]
                self.write_text(name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept))
        for folder in ("completions", "evaluations"):
            for path in (self.path / folder).glob("*-*.jsonl"):
                if int(path.stem.rsplit("-", 1)[1]) > step:
                    path.unlink()
        for checkpoint in self.all_checkpoints():
            if checkpoint.step > step or not checkpoint.marked:
                shutil.rmtree(checkpoint.path)


# -- files -----------------------------------------------------------------------------------------------------------


def mark_complete(checkpoint: Path) -> None:
    """Say that a checkpoint was saved to the end, with the hash of every file in it."""
    hashes = {
        str(path.relative_to(checkpoint)): file_hash(path)
        for path in sorted(checkpoint.rglob("*"))
        if path.is_file() and path.name != COMPLETE
    }
    replace_file(checkpoint / COMPLETE, json.dumps({"sha256": hashes}, indent=2) + "\n")


def damage(checkpoint: Path) -> str | None:
    """What is wrong with a finished checkpoint, or None: a file is missing or differs from its recorded hash."""
    try:
        hashes = json.loads((checkpoint / COMPLETE).read_text(encoding="utf-8"))["sha256"]
        for name, expected in hashes.items():
            path = checkpoint / name
            if not path.is_file():
                return f"{name} is missing"
            if file_hash(path) != expected:
                return f"{name} has changed since it was saved"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{COMPLETE} does not read ({error})"
    return None


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def weight_hashes(directory: Path) -> dict[str, str]:
    """SHA-256 of every weight file of a model."""
    return {path.name: file_hash(path) for path in sorted(directory.glob("*.safetensors"))}


def replace_file(path: Path, text: str) -> None:
    """Write beside the file, flush to the disk, then rename over it."""
    handle, scratch = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(scratch).chmod(0o644)  # mkstemp makes files that only their owner can read
        Path(scratch).replace(path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def append_line(path: Path, line: str) -> None:
    """Append a line in one write; a line that an earlier process left unfinished is ended first."""
    with path.open("ab+") as stream:
        end = stream.seek(0, os.SEEK_END)
        unfinished = b""
        if end:
            stream.seek(end - 1)
            unfinished = b"" if stream.read(1) == b"\n" else b"\n"
        stream.write(unfinished + line.encode("utf-8", errors="surrogatepass") + b"\n")


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file, one a line; anything else is passed over, a missing file is empty."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                yield row


def writing_failed(path: Path, error: OSError) -> RunFolderError:
    """The error for a disk that refuses."""
    return RunFolderError(
        f"{path} cannot be written: {error.strerror or error}.",
        "Free space or choose another place with --out FOLDER.",
    )
