"""The one look at the test split: the chosen checkpoint and the model before training, on the same problems.

What was chosen by looking at dev again and again flatters itself; only problems that nobody tuned on can say what was
gained. So they are scored once, the result is recorded with the hashes of what was scored, and a later look is marked.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evenhand.config import RunConfig
from evenhand.errors import ModelError, RunFolderError
from evenhand.evaluation import Answer, Decoding, answer, summarise
from evenhand.models import resolve
from evenhand.models.device import usable_device
from evenhand.models.loading import Loaded, load
from evenhand.paired import paired_difference
from evenhand.records import Evaluation, Problem
from evenhand.runfolder import RunFolder, weight_hashes
from evenhand.selection import TEST_SPLIT, Selection, choose, configuration_of, save
from evenhand.tasks import Task, task_named
from evenhand.tasks.store import load_split, split_hashes

TEST_FILE = "test.json"
AT_ONCE = 100  # problems between two moves of a progress bar

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to be tested."""

    name: str  # "selected" or "base"
    step: int
    directory: Path


@dataclass(frozen=True, slots=True)
class Examined:
    """Everything that stands before the first problem is asked."""

    folder: RunFolder
    config: RunConfig
    task: Task
    problems: Sequence[Problem]
    selection: Selection
    subjects: tuple[Subject, Subject]  # selected, base
    data: Path

    @property
    def questions(self) -> int:
        """How many answers will be decoded."""
        return len(self.problems) * len(self.subjects)


def recorded_tests(folder: RunFolder) -> list[dict[str, Any]]:
    """Every recorded look at the test split, in order.

    Raises:
        RunFolderError: there is a record that does not read; it is no licence for another first look.
    """
    content = folder.read_json(TEST_FILE)
    records = content.get("records") if isinstance(content, Mapping) else None
    if isinstance(records, list):
        return [dict(record) for record in records]
    if (folder.path / TEST_FILE).exists():
        raise RunFolderError(f"{folder.path / TEST_FILE} does not read.", "Restore it: test is scored once.")
    return []


def prepare(folder: RunFolder, data: Path | None = None) -> Examined:
    """Find the chosen checkpoint, the model before training and the problems, and see that they are the run's own.

    Raises:
        RunFolderError: the run goes on, or holds nothing to choose.
        ModelError: the model before training is gone or another one.
    """
    status = folder.read_json("status.json") or {}
    if status.get("state") in {"starting", "running"}:
        raise RunFolderError(f"The run {folder.path} is not finished.", "Test is scored once: wait for its end.")
    config = configuration_of(folder)
    task = task_named(config.task)
    selection = chosen(folder)
    checkpoint = folder.checkpoint(selection.step)
    base = resolve(config.model)
    weights = weight_hashes(base)
    hashes = folder.read_json("hashes.json") or {}
    if hashes.get("model") and hashes["model"] != weights:
        raise ModelError(f"{base} is not the model that this run began with.", "Restore it: test compares with it.")
    place = data or config.data
    problems = load_split(task, TEST_SPLIT, place)
    subjects = (Subject("selected", selection.step, checkpoint.path), Subject("base", 0, base))
    return Examined(folder, config, task, problems, selection, subjects, place)


def chosen(folder: RunFolder) -> Selection:
    """The choice by the run's rule, recorded before test is looked at."""
    selection = choose(folder)
    save(folder, selection)
    return selection


def look(examined: Examined, reason: str | None, device: str, progress: Progress) -> dict[str, Any]:
    """Score both models on the test problems and record it.

    Args:
        examined: From :func:`prepare`.
        reason: Why test is scored again; None the first time.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        progress: Told how many problems were answered since it was last told.

    Raises:
        RunFolderError: test was scored before and no reason is given, or the disk refuses.
        DeviceError: the device cannot be used.
    """
    folder = examined.folder
    earlier = recorded_tests(folder)
    if earlier and not (reason and reason.strip()):
        raise RunFolderError(
            f"Test was scored already, at {earlier[-1].get('time')}.", "Give a reason: evenhand test RUN --again REASON"
        )
    evaluations = {subject.name: examine(examined, subject, device, progress) for subject in examined.subjects}
    record = record_of(examined, evaluations, reason)
    folder.write_json(TEST_FILE, {"records": [*earlier, record]})
    return record


def examine(examined: Examined, subject: Subject, device: str, progress: Progress) -> Evaluation:
    """One model on the test problems; its answers go into the run folder."""
    # The checkpoint keeps the dtypes in which it was saved; the base is cast as it was when training began.
    precision = examined.config.precision if subject.name == "base" else None
    loaded = load(subject.directory, precision, usable_device(device))
    start = datetime.now(UTC)
    answers = answered(loaded, examined, progress)
    seconds = (datetime.now(UTC) - start).total_seconds()
    evaluation = summarise(examined.task, answers, TEST_SPLIT, subject.step, seconds)
    examined.folder.write_answers(evaluation, [one.to_json(examined.task) for one in answers])
    return evaluation


def answered(loaded: Loaded, examined: Examined, progress: Progress) -> list[Answer]:
    """Greedy answers to every problem, as at the run's own evaluations."""
    config, task = examined.config, examined.task
    decoding = Decoding(
        max_completion_length=int(config.train.get("max_completion_length", task.max_completion_length)),
        batch_size=config.evaluation.batch_size,
        prefix_tree=config.engine == "prefix-tree",
    )
    answers: list[Answer] = []
    for start in range(0, len(examined.problems), AT_ONCE):
        part = examined.problems[start : start + AT_ONCE]
        answers += answer(loaded.model, loaded.tokenizer, task, part, decoding)
        progress(len(part))
    return answers


def record_of(examined: Examined, evaluations: Mapping[str, Evaluation], reason: str | None) -> dict[str, Any]:
    """What ``test.json`` keeps of one look."""
    selected, base = evaluations["selected"], evaluations["base"]
    selection = examined.selection
    differences = {
        name: paired_difference(base.outcomes[name], selected.outcomes[name]).to_json() for name in selected.metrics
    }
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "again": reason,
        "task": examined.task.version,
        "checkpoint": selection.checkpoint,
        "step": selection.step,
        "rule": selection.rule,
        "metric": selection.metric,
        "n": selected.n,
        "sha256": {
            "selected": weight_hashes(examined.subjects[0].directory),
            "base": weight_hashes(examined.subjects[1].directory),
            "data": split_hashes(examined.task, examined.data)[TEST_SPLIT],
        },
        "difference": differences,
        "selected": selected.to_json(),
        "base": base.to_json(),
    }
