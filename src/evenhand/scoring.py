"""Score whatever a user names: a model, a checkpoint or a run. Never on the test split."""

from dataclasses import dataclass
from pathlib import Path

from evenhand.errors import DataError, RunFolderError
from evenhand.evaluation import Answer, Decoding, evaluate, summarise
from evenhand.models import known_model, resolve
from evenhand.models.device import usable_device
from evenhand.models.loading import load
from evenhand.records import Evaluation, Problem
from evenhand.runfolder import RunFolder
from evenhand.selection import configuration_of
from evenhand.tasks import Task, task_named
from evenhand.tasks.store import load_split

CONTROL = "control"
DEFAULT_TASK = "stepwise-parity"


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask the model."""

    task: str | None = None  # None takes the run's own task
    split: str = "dev"
    limit: int | None = None
    device: str = "auto"
    data: Path = Path("data")


@dataclass(frozen=True, slots=True)
class Named:
    """Where a named model lies, and the run that made it."""

    directory: Path
    run: RunFolder | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """A model's answers and what they add up to."""

    directory: Path
    task: Task
    evaluation: Evaluation
    answers: list[Answer]


def score_model(name: str, request: Request) -> Scored:
    """Load the model at the dtypes in which it was saved, and score it.

    Raises:
        DataError: the test split, or an unknown one.
        EvenhandError: whatever is wrong with the name, the model, the device or the data.
    """
    named = locate(name)
    task = task_named(request.task or task_of(named))
    problems = chosen_problems(task, request)
    loaded = load(named.directory, device=usable_device(request.device))
    answers, seconds = evaluate(loaded.model, loaded.tokenizer, task, problems, Decoding(task.max_completion_length))
    return Scored(named.directory, task, summarise(task, answers, request.split, 0, seconds), answers)


def locate(name: str) -> Named:
    """The directory of a model's name, a checkpoint or a run."""
    path = Path(name)
    if known_model(name) is None and (path / "status.json").is_file():
        folder = RunFolder.open(path)
        return Named(kept_checkpoint(folder), folder)
    directory = resolve(name)
    owners = (directory.parent.parent, directory.parent)  # of a checkpoint, of what a cold start leaves
    run = next((owner for owner in owners if (owner / "status.json").is_file()), None)
    return Named(directory, None if run is None else RunFolder(run))


def kept_checkpoint(folder: RunFolder) -> Path:
    """The chosen checkpoint of a run, else its last whole one.

    Raises:
        RunFolderError: nothing was saved.
    """
    selection = folder.read_json("selection.json")
    if isinstance(selection, dict) and "step" in selection:
        return folder.checkpoint(int(selection["step"])).path
    saved = folder.checkpoints()
    if not saved:
        raise RunFolderError(
            f"The run {folder.path} has no whole checkpoint yet.", "Wait for the first, or name a model directory."
        )
    return saved[-1].path


def task_of(named: Named) -> str:
    """The task of the run that made a model, else the default one."""
    if named.run is None or named.run.read_text("config.toml") is None:
        return DEFAULT_TASK
    return configuration_of(named.run).task


def chosen_problems(task: Task, request: Request) -> list[Problem]:
    """The problems of a split or the control problems. The test split is refused."""
    if request.split == "test":
        raise DataError("The test split is scored once, by evenhand test.", "Use --split dev, or: evenhand test RUN")
    if request.split == CONTROL:
        problems = task.control_problems()
    else:
        if request.split not in task.splits:
            known = ", ".join([*(split for split in task.splits if split != "test"), CONTROL])
            raise DataError(f"The task {task.name} has no split '{request.split}'.", f"Use one of: {known}.")
        problems = load_split(task, request.split, request.data)
    return problems[: request.limit]
