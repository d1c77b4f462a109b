"""Assemble one run: data, model, TRL's trainer, callbacks and the run folder."""

import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from rich.console import Console
from safetensors import SafetensorError
from transformers import PrinterCallback, TrainerCallback

from evenhand import environment
from evenhand.config import RunConfig, draft
from evenhand.diagnosis.readers.folder import task_settings
from evenhand.errors import CheckpointError, ConfigurationError, EvenhandError, RunFolderError
from evenhand.evaluation import Decoding
from evenhand.models import known_model, resolve
from evenhand.models.device import usable_device
from evenhand.models.loading import Loaded, check_files, load, load_tokenizer
from evenhand.models.precision import apply_precision, census
from evenhand.records import Finding, Problem
from evenhand.rewards import Grader
from evenhand.runfolder import Checkpoint, RunFolder, weight_hashes
from evenhand.tasks import Task, task_named
from evenhand.tasks.store import load_split, split_hashes
from evenhand.training import arguments
from evenhand.training.callbacks import InterruptCallback, RunFolderCallback
from evenhand.training.line_credit import LineCredit
from evenhand.training.outcome import Outcome, conclude
from evenhand.training.progress import ProgressCallback, TrainingDisplay
from evenhand.training.scoring import EvaluationCallback, Examination
from evenhand.training.trackers import FinalFindings, tracked
from evenhand.training.trainer import PrefixTreeTrainer, ResumableTrainer
from evenhand.training.watchdog import WatchdogCallback

# How torch and safetensors word a disk that refuses.
DISK_MARKS = ("PytorchStreamWriter", "unexpected pos", "No space left", "I/O error", "Os {", "os error")
RESUMABLE = {"train.max_steps"}


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run is put together from."""

    config: RunConfig
    task: Task
    loaded: Loaded
    directory: Path  # of the first model, which stays the reference policy
    train: list[Problem]
    examined: list[Problem]


# Looks at a resolved configuration before the start; what it returns is kept in the run folder.
Examine = Callable[[RunConfig], Mapping[str, Any]]


def start(
    source: str | None, overrides: Mapping[str, Any], out: Path | None = None, examine: Examine | None = None
) -> Outcome | None:
    """Begin a run; None on processes other than the main one.

    Args:
        source: A shipped configuration or a file; None takes the default.
        overrides: Flags, as dotted keys.
        out: The run folder; None makes a unique one.
        examine: Preflight. It runs on the main process, inside the run folder's care; None records that there was none.

    Raises:
        EvenhandError: whatever is wrong with the configuration, the data, the model, the device or the disk, and what
            ``examine`` raises.
    """
    config = anchored(arguments.resolve(draft(source, overrides)))
    check_names(config)
    resolved = config.to_toml()
    folder = shared_folder(config, out)
    folder_to_write = folder if PartialState().is_main_process else None
    if folder_to_write is not None:
        folder_to_write.write_text("config.toml", resolved)
    with recorded(folder_to_write):
        if folder_to_write is not None:
            folder_to_write.write_json("preflight.json", examine(config) if examine else {"skipped": True})
        PartialState().wait_for_everyone()
        return carry_out(config, folder, None)


def anchored(config: RunConfig) -> RunConfig:
    """The configuration with absolute places, so that the run can be resumed from any directory."""
    model = config.model if known_model(config.model) else str(Path(config.model).expanduser().absolute())
    return config.model_copy(update={"model": model, "data": config.data.absolute()})


def check_names(config: RunConfig) -> None:
    """Whether task and model are there, before a folder is made for them.

    Raises:
        TaskError, ModelError: an unknown task or model, missing files, no chat template.
        ConfigurationError: resampling in several processes.
    """
    task_named(config.task)
    if config.resample and PartialState().num_processes > 1:
        raise ConfigurationError(
            "resample replaces groups in one process only, and this launch has several.",
            "Set resample = 0, or launch one process.",
        )
    directory = resolve(config.model)
    check_files(directory)
    load_tokenizer(directory)


def resume(path: Path, overrides: Mapping[str, Any], fresh: bool = False) -> Outcome | None:
    """Go on with a run from its last whole checkpoint, or from the start where there is none.

    Raises:
        ConfigurationError: settings other than the number of steps, which would make it another run.
        CheckpointError: the checkpoint is damaged, or the first model has changed since.
    """
    foreign = set(overrides) - RESUMABLE
    if foreign or fresh:
        named = ", ".join(sorted(foreign)) or "a configuration or --out"
        raise ConfigurationError(
            f"A resumed run keeps its own configuration; {named} cannot be given.", "Only --steps goes with --resume."
        )
    folder = RunFolder.open(path)
    if folder.kind == "coldstart":
        raise ConfigurationError(f"{path} is a cold start.", f"Go on with: evenhand coldstart --resume {path}")
    if folder.read_text("config.toml") is None:
        raise CheckpointError(f"{path} has no config.toml to go on with.", "Start a new run: evenhand train")
    config = arguments.resolve(draft(folder.path / "config.toml", overrides))
    refuse_living(folder)
    main = PartialState().is_main_process
    checkpoint = folder.resume_point()
    if checkpoint is not None and 0 < config.train.get("max_steps", -1) <= checkpoint.step:
        return concluded(folder, interrupted=False, ended_by=None)  # nothing is left to do
    PartialState().wait_for_everyone()  # every process has found the same one before anything is removed
    with recorded(folder if main else None):
        return carry_out(config, folder, checkpoint, resumed=True)


def refuse_living(folder: RunFolder) -> None:
    """Raise RunFolderError if the run's process is still at it: two writers would mix their rows."""
    status = folder.read_json("status.json") or {}
    process = status.get("process")
    of_this_launch = {os.getpid(), os.getppid()}
    alive = isinstance(process, int) and process not in of_this_launch and psutil.pid_exists(process)
    if alive and status.get("state") in {"starting", "running"} and status.get("host") == platform.node():
        raise RunFolderError(
            f"The run {folder.path} is still going on, in process {process}.", "Wait for its end, or stop that process."
        )


def shared_folder(config: RunConfig, out: Path | None) -> RunFolder:
    """The new run's folder, made by the main process and known to all."""
    state = PartialState()
    made: list[Any] = [None]
    if state.is_main_process:
        try:
            made = [RunFolder.create(config.runs, config.task, out)]
        except EvenhandError as error:
            made = [error]
    broadcast_object_list(made)
    if isinstance(made[0], EvenhandError):
        raise made[0]
    folder: RunFolder = made[0]
    return folder


@contextmanager
def recorded(folder: RunFolder | None) -> Iterator[None]:
    """Whatever ends the run early stands in its status before it goes on to the user."""
    finished = False
    try:
        yield
        finished = True
    finally:
        if folder is not None and not finished:
            error = sys.exception()
            state = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            folder.write_status(state, error=f"{type(error).__name__}: {error}")


def carry_out(
    config: RunConfig, folder: RunFolder, checkpoint: Checkpoint | None, resumed: bool = False
) -> Outcome | None:
    """Load, train, conclude. A resumed run forgets its later rows only when everything it needs was found."""
    main = PartialState().is_main_process
    display = TrainingDisplay(Console(stderr=True, highlight=False, soft_wrap=True), enabled=main)
    parts = load_parts(config)
    if main:
        record(folder, parts, display)
        display.say(batch_sentence(parts))
        if resumed:
            folder.rewind(checkpoint.step if checkpoint else -1)
            folder.write_text("config.toml", config.to_toml())
    PartialState().wait_for_everyone()
    trainer = build_trainer(parts, folder)
    interrupt, progress = InterruptCallback(), ProgressCallback(display)
    written = folder if main else None
    for callback in [*callbacks(parts, trainer, written, display), interrupt, progress]:
        trainer.add_callback(callback)
    watchdog = watch_over(trainer, parts, written, display)
    try:
        with quiet_libraries(), refused_by_disk(folder):
            trainer.train(resume_from_checkpoint=str(checkpoint.path) if checkpoint else None)
    finally:
        progress.stop()
        interrupt.restore()
    return concluded(folder, interrupted=interrupt.interrupted, ended_by=watchdog.ended_by if watchdog else None)


def concluded(folder: RunFolder, *, interrupted: bool, ended_by: Finding | None) -> Outcome | None:
    """What the run came to; None on processes other than the main one. All of them leave together."""
    main = PartialState().is_main_process
    outcome = conclude(folder, interrupted=interrupted, ended_by=ended_by) if main else None
    leave_together()
    return outcome


def leave_together() -> None:
    """End the process group by hand: a process that exits while its threads still serve another one may abort."""
    PartialState().wait_for_everyone()
    PartialState().destroy_process_group()


def watch_over(
    trainer: ResumableTrainer, parts: Parts, folder: RunFolder | None, display: TrainingDisplay
) -> WatchdogCallback | None:
    """The watchdog, unless the configuration switches it off. Attached last: it judges what the others have written."""
    plan = parts.config.watchdog
    if not plan.enabled:
        return None
    settings = task_settings(parts.task.name, {"reward_weights": trainer.reward_weights.tolist()})
    watchdog = WatchdogCallback(plan.stop_on, folder, settings, say=tracked(trainer, display.show_finding))
    FinalFindings(watchdog).attach(trainer)
    return watchdog.attach(trainer)


def load_parts(config: RunConfig) -> Parts:
    """Data and model; the main process draws the data first, so that the others find it."""
    task = task_named(config.task)
    with PartialState().main_process_first():
        train = load_split(task, "train", config.data)
        examined = load_split(task, config.evaluation.split, config.data)
    directory = resolve(config.model)
    loaded = load(directory, config.precision, usable_device(config.device))
    return Parts(config, task, loaded, directory, train, examined)


def record(folder: RunFolder, parts: Parts, display: TrainingDisplay) -> None:
    """What the run is made from, into its folder and, in short, on the terminal."""
    device = str(parts.loaded.model.device)
    folder.write_json("environment.json", environment.describe(device))
    weights = weight_hashes(parts.directory)
    earlier = folder.read_json("hashes.json")
    if earlier is not None and earlier.get("model") != weights:
        raise CheckpointError(
            f"The first model {parts.directory} has changed since this run began.",
            "Restore it, or start a new run: evenhand train",
        )
    folder.write_json("hashes.json", {"model": weights, "data": split_hashes(parts.task, parts.config.data)})
    groups = census(parts.loaded.model)
    folder.write_json("precision.json", [group.to_json() for group in groups])
    display.say(f"run folder {folder.path}")
    display.say(f"model {parts.config.model} on {device}, task {parts.task.version}")
    known = known_model(parts.config.model)
    if known is not None and known.planted:
        display.say(f"note: {known.planted}")
    for group in groups:
        display.say(f"  {group.name}: {group.parameters:,} parameters, {', '.join(group.dtypes)}")


def batch_sentence(parts: Parts) -> str:
    """How many prompts an update and the run see; the product is the usual place to be wrong."""
    args = arguments.build(parts.config, Path("runs"))
    processes = PartialState().num_processes
    completions = args.per_device_train_batch_size * args.gradient_accumulation_steps * processes
    prompts = completions / args.num_generations
    head = (
        f"an update: {args.per_device_train_batch_size} completions × {args.gradient_accumulation_steps} "
        f"micro-batches × {processes} process{'es' if processes > 1 else ''} = {completions} completions "
        f"= {prompts:g} prompts × {args.num_generations}"
    )
    if args.max_steps <= 0:
        return head
    seen = prompts * args.max_steps / args.num_iterations
    return f"{head}; {args.max_steps} steps see {seen:g} prompts = {seen / len(parts.train):.2g} epochs"


def build_trainer(parts: Parts, folder: RunFolder) -> ResumableTrainer:
    """TRL's trainer on the run's data, with the task's rewards.

    Raises:
        ConfigurationError: what TRL refuses only now.
    """
    config, task = parts.config, parts.task
    args = arguments.build(with_reward_weights(config, task), folder.checkpoints_path)
    rows = [{"prompt": [dict(m) for m in p.prompt], **p.columns} for p in parts.train]
    try:
        trainer = trainer_class(config)(
            model=parts.loaded.model,
            reward_funcs=Grader(task).reward_functions(),
            args=args,
            train_dataset=Dataset.from_list(rows),
            processing_class=parts.loaded.tokenizer,
            line_credit=LineCredit(task) if config.credit == "line" else None,
            resample=config.resample,
        )
    except ValueError as error:
        raise ConfigurationError(f"TRL refuses this set-up: {' '.join(str(error).split())}") from error
    trainer.remove_callback(PrinterCallback)  # our own display shows the rows
    if trainer.ref_model is not None and not trainer.is_deepspeed_enabled and not trainer.is_fsdp_enabled:
        # TRL loads the reference policy again at one dtype; with the policy's own, the first KL is exactly 0.
        apply_precision(trainer.ref_model, config.precision)
    return trainer


def trainer_class(config: RunConfig) -> type[ResumableTrainer]:
    """The trainer of the configured engine."""
    return PrefixTreeTrainer if config.engine == "prefix-tree" else ResumableTrainer


def with_reward_weights(config: RunConfig, task: Task) -> RunConfig:
    """The task's own weights, where the configuration names none."""
    weights = config.train.get("reward_weights") or [reward.weight for reward in task.rewards]
    return config.model_copy(update={"train": {**config.train, "reward_weights": weights}})


def callbacks(
    parts: Parts, trainer: ResumableTrainer, folder: RunFolder | None, display: TrainingDisplay
) -> list[TrainerCallback]:
    """Those that every run has: the order is that in which a step's end is worked through."""
    plan = parts.config.evaluation
    decoding = Decoding(
        max_completion_length=trainer.max_completion_length,
        batch_size=plan.batch_size,
        prefix_tree=parts.config.engine == "prefix-tree",
    )
    examination = Examination(parts.task, plan.split, parts.examined, decoding, plan.every)
    return [
        RunFolderCallback(trainer, folder, writes=folder is not None),
        EvaluationCallback(trainer, parts.loaded.tokenizer, examination, folder, display.show_evaluation),
    ]


@contextmanager
def refused_by_disk(folder: RunFolder, command: str = "evenhand train") -> Iterator[None]:
    """A full disk, which each library reports in its own way, as one error; the last whole checkpoint stays.

    ``command`` goes on from there.
    """
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        text = str(error)
        if not isinstance(error, OSError) and not any(mark in text for mark in DISK_MARKS):
            raise
        raise RunFolderError(
            f"The run folder {folder.path} cannot be written: {text.splitlines()[0].rstrip('.')}.",
            f"Free space, then go on with: {command} --resume {folder.path}",
        ) from error


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Warnings of libraries that say nothing about this run, and would tear the progress bar."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", message=".*use_reentrant.*")
        yield
