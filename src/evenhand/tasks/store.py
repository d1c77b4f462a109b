"""A task's splits on disk, versioned, and checked every time they are loaded.

Layout: ``<data>/<task version>/manifest.json`` beside ``train.jsonl``, ``dev.jsonl`` and ``test.jsonl``, one problem's
columns a line. The folder is drawn anew from the task where it does not exist.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenhand.errors import DataError
from evenhand.records import Problem
from evenhand.tasks.task import Task


def load_split(task: Task, split: str, data: Path) -> list[Problem]:
    """The problems of ``split``, from ``data/<task version>``, drawn first if that folder does not exist.

    Raises:
        DataError: an unknown split, a folder of another version, or any difference from what the task draws.
    """
    if split not in task.splits:
        known = ", ".join(task.splits)
        raise DataError(f"The task {task.name} has no split '{split}'.", f"Use one of: {known}.")
    folder = data / task.version
    if not folder.exists():
        write_splits(task, folder)
    verify(task, folder)
    rows = read_rows(folder / f"{split}.jsonl")
    return [task.problem(index, row) for index, row in enumerate(rows)]


def split_hashes(task: Task, data: Path) -> dict[str, str]:
    """SHA-256 of each split's file, as recorded in a run folder."""
    return {split: digest(data / task.version / f"{split}.jsonl") for split in task.splits}


def write_splits(task: Task, folder: Path) -> None:
    """Draw every split and write the folder in one step, so that a killed process leaves no half folder.

    Raises:
        DataError: the disk is full or not writable.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{task.version}-", dir=folder.parent))
        try:
            fill(task, scratch)
            if not folder.exists():
                scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        if (folder / "manifest.json").exists():
            return  # another process of the same launch was faster
        raise DataError(
            f"The data folder {folder} cannot be written: {error.strerror}.",
            "Choose another place with --set data=FOLDER.",
        ) from error


def fill(task: Task, folder: Path) -> None:
    """Write the splits and the manifest into an empty folder."""
    for split in task.splits:
        text = "".join(f"{row_text(row)}\n" for row in task.draw(split))
        (folder / f"{split}.jsonl").write_text(text, encoding="utf-8", newline="\n")
    manifest = {
        "task": task.name,
        "version": task.version,
        "sha256": {split: digest(folder / f"{split}.jsonl") for split in task.splits},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    folder.chmod(0o755)  # mkdtemp makes folders that only their owner can read


def verify(task: Task, folder: Path) -> None:
    """Compare a folder with what the task draws, row by row.

    Raises:
        DataError: with the first difference, and how to get a fresh folder.
    """
    remedy = f"Move {folder} away; it is drawn anew at the next run."
    manifest = read_manifest(folder, remedy)
    if manifest.get("version") != task.version or manifest.get("task") != task.name:
        found = manifest.get("version", "no version")
        raise DataError(f"The data folder {folder} holds '{found}', and this is '{task.version}'.", remedy)
    for split in task.splits:
        path = folder / f"{split}.jsonl"
        if not path.is_file():
            raise DataError(f"The data folder {folder} lacks {path.name}.", remedy)
        rows, drawn = read_rows(path), task.draw(split)
        if len(rows) != len(drawn):
            raise DataError(f"{path} holds {len(rows)} problems instead of {len(drawn)}.", remedy)
        for number, (row, expected) in enumerate(zip(rows, drawn, strict=True), start=1):
            if row != expected:
                raise DataError(f"{path} differs from {task.version} in line {number}.", remedy)


def read_manifest(folder: Path, remedy: str) -> dict[str, Any]:
    """The manifest. Raises DataError where it is missing or no JSON object."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"The data folder {folder} has no readable manifest.json.", remedy) from error
    if not isinstance(manifest, dict):
        raise DataError(f"The data folder {folder} has no readable manifest.json.", remedy)
    return manifest


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file, one a line. Raises DataError with the line that is none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}.", "Move its folder away; it is drawn anew.") from error
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise DataError(
                f"{path} is damaged in line {number}.",
                "Move its folder away; it is drawn anew at the next run.",
            ) from error
    return rows


def row_text(row: Mapping[str, Any]) -> str:
    """One row as JSON, always the same characters for the same row."""
    return json.dumps(row, ensure_ascii=False)


def digest(path: Path) -> str:
    """SHA-256 of a file. Raises DataError where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}.", "Move its folder away; it is drawn anew."
        ) from error
