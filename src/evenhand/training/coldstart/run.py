"""Assemble a cold start: problems, model, trainer, callbacks and the run folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import PartialState
from rich.console import Console
from transformers import PrinterCallback, TrainingArguments

from evenhand.config import RunConfig, draft, near_match
from evenhand.errors import CheckpointError, ConfigurationError, RunFolderError
from evenhand.evaluation import Decoding
from evenhand.models import resolve
from evenhand.models.device import usable_device
from evenhand.models.loading import load, load_tokenizer
from evenhand.records import Evaluation, Problem
from evenhand.runfolder import COLD_START_FILE, Checkpoint, RunFolder, file_hash
from evenhand.tasks import Task, task_named
from evenhand.tasks.store import load_split
from evenhand.training import arguments
from evenhand.training.callbacks import InterruptCallback
from evenhand.training.coldstart.callbacks import (
    LeanCheckpoints,
    StoppingRule,
    SupervisedFolderCallback,
    reached,
)
from evenhand.training.coldstart.examples import Example, check_completions, check_context, encode, problems_to_show
from evenhand.training.coldstart.outcome import ColdStartOutcome, conclude
from evenhand.training.coldstart.trainer import SupervisedTrainer
from evenhand.training.progress import ProgressCallback, TrainingDisplay
from evenhand.training.run import (
    Examine,
    Parts,
    anchored,
    check_names,
    quiet_libraries,
    record,
    recorded,
    refuse_living,
    refused_by_disk,
)
from evenhand.training.scoring import EvaluationCallback, Examination

SHOWN = {"loss": "loss", "grad_norm": "gradient"}
COMMAND = "evenhand coldstart"

# AdamW's second moment then looks back over about fifty steps. Torch's 0.999 looks back over a thousand, so the large
# gradients of the first steps, on the form, would still shrink the updates of what is learned later, such as a count.
ADAM_BETA2 = 0.98


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is shown: checked before a folder is made."""

    config: RunConfig
    task: Task
    problems: list[Problem]
    examples: list[Example]
    max_completion_length: int

    @property
    def steps(self) -> int:
        """Optimiser steps until all examples were shown."""
        return len(self.examples) // self.config.coldstart.batch_size


def start(
    source: str | None, overrides: Mapping[str, Any], out: Path | None = None, examine: Examine | None = None
) -> ColdStartOutcome:
    """Begin a cold start. Arguments as for ``evenhand.training.run.start``.

    Raises:
        EvenhandError: whatever is wrong with the configuration, the examples, the model, the device or the disk, what
            ``examine`` raises, and weights that are no numbers any more.
    """
    config = settled(arguments.resolve(draft(source, overrides)))
    refuse_processes()
    lesson = prepare(config)
    folder = RunFolder.create(config.runs, config.task, out)
    folder.write_text("config.toml", config.to_toml())
    folder.write_json(COLD_START_FILE, description(lesson))
    with recorded(folder):
        folder.write_json("preflight.json", examine(config) if examine else {"skipped": True})
        return carry_out(lesson, folder, None)


def resume(path: Path, overrides: Mapping[str, Any], fresh: bool = False) -> ColdStartOutcome:
    """Go on with a cold start from its newest whole checkpoint; a finished one is concluded again.

    Raises:
        ConfigurationError: settings, a configuration or a folder were given, or another command made the run.
        CheckpointError: the checkpoint is damaged or holds no optimiser, or model or examples have changed.
    """
    if overrides or fresh:
        named = ", ".join(sorted(overrides)) or "a configuration or --out"
        raise ConfigurationError(
            f"A resumed cold start keeps its own configuration; {named} cannot be given.", "Give --resume RUN alone."
        )
    folder = RunFolder.open(path)
    begun = folder.read_json(COLD_START_FILE)
    if folder.kind != "coldstart" or folder.read_text("config.toml") is None:
        raise ConfigurationError(f"{path} is no cold start.", f"Go on with: evenhand train --resume {path}")
    if begun is None:
        raise RunFolderError(f"{path / COLD_START_FILE} cannot be read.", "Restore it, or begin a new cold start.")
    refuse_living(folder)
    config = arguments.resolve(draft(folder.path / "config.toml"))
    refuse_processes()
    lesson = prepare(config)
    if begun.get("data_sha256") != description(lesson)["data_sha256"]:
        raise CheckpointError("The file of examples has changed since this cold start began.", "Begin a new one.")
    checkpoint = folder.resume_point()
    if checkpoint is not None and ended(folder, lesson, checkpoint):
        return conclude(folder, config)
    if checkpoint is not None and not (checkpoint.path / "optimizer.pt").is_file():
        raise CheckpointError(
            f"{checkpoint.path} holds no optimiser, which only the newest checkpoint keeps.",
            "Restore the newest one, or begin anew: evenhand coldstart",
        )
    with recorded(folder):
        return carry_out(lesson, folder, checkpoint, resumed=True)


def refuse_processes() -> None:
    """Raise ConfigurationError where several processes were launched."""
    if PartialState().num_processes > 1:
        raise ConfigurationError("A cold start runs in one process.", f"Run it without a launcher: {COMMAND}")


def settled(config: RunConfig) -> RunConfig:
    """The configuration with absolute places, its rule checked.

    Raises:
        ConfigurationError: the task has no such metric.
        TaskError, ModelError: an unknown task or model, missing files, no chat template.
    """
    config = anchored(config)
    check_names(config)
    plan, task = config.coldstart, task_named(config.task)
    if plan.stop_metric is not None and plan.stop_metric not in task.metrics:
        near = near_match(plan.stop_metric, task.metrics)
        raise ConfigurationError(
            f"coldstart.stop_metric = '{plan.stop_metric}': {task.name} measures no such thing.{near}",
            f"Measured: {', '.join(task.metrics)}.",
        )
    if plan.data is None:
        return config
    return config.model_copy(update={"coldstart": plan.model_copy(update={"data": plan.data.expanduser().absolute()})})


def prepare(config: RunConfig) -> Lesson:
    """The examples, read and checked.

    Raises what :func:`problems_to_show`, :func:`check_completions` and :func:`check_warmup` raise.
    """
    task = task_named(config.task)
    problems = problems_to_show(config, task)
    examples = encode(task, problems, load_tokenizer(resolve(config.model)))
    limit = int(arguments.build(config, config.runs).max_completion_length)
    check_completions(examples, limit)
    lesson = Lesson(config, task, problems, examples, limit)
    check_warmup(lesson)
    return lesson


def check_warmup(lesson: Lesson) -> None:
    """Raise ConfigurationError where the rate is never reached; Transformers begins a warm-up with a rate of 0."""
    warmup = lesson.config.coldstart.warmup_steps
    if warmup >= lesson.steps:
        raise ConfigurationError(
            f"coldstart.warmup_steps = {warmup} takes all {lesson.steps} steps of this cold start, so its rate is "
            "never reached.",
            f"--set coldstart.warmup_steps={lesson.steps // 4}, or show more examples.",
        )


def description(lesson: Lesson) -> dict[str, Any]:
    """What ``coldstart.json`` says from the beginning."""
    plan = lesson.config.coldstart
    return {
        "kind": "coldstart",
        "examples_at_most": len(lesson.examples),
        "source": "drawn by the task" if plan.data is None else str(plan.data),
        "data_sha256": None if plan.data is None else file_hash(plan.data),
        "stop_metric": plan.stop_metric,
        "stop_at": plan.stop_at,
    }


def ended(folder: RunFolder, lesson: Lesson, checkpoint: Checkpoint) -> bool:
    """Whether a saved step was the last: all examples were shown, or the rule was met."""
    plan = lesson.config.coldstart
    if checkpoint.step >= lesson.steps:
        return True
    return any(reached(e, plan.stop_metric, plan.stop_at) for e in folder.evaluations() if e.step == checkpoint.step)


def training_arguments(config: RunConfig, output: Path, steps: int) -> TrainingArguments:
    """AdamW without weight decay, gradients clipped at 1.

    Numbers' formats, trackers and device come from ``[train]``, as for reinforcement.
    """
    plan, shared = config.coldstart, arguments.build(config, output)
    made = TrainingArguments(
        output_dir=str(output),
        max_steps=steps,
        per_device_train_batch_size=plan.batch_size,
        gradient_accumulation_steps=1,
        learning_rate=plan.learning_rate,
        warmup_steps=plan.warmup_steps,
        lr_scheduler_type=plan.lr_scheduler_type,
        weight_decay=0.0,
        adam_beta2=ADAM_BETA2,
        max_grad_norm=1.0,
        seed=plan.seed,
        logging_steps=1,
        logging_nan_inf_filter=False,  # it would put the earlier mean in the place of a NaN
        save_strategy="no",  # the stopping rule saves every evaluated step
        bf16=shared.bf16,
        fp16=shared.fp16,
        gradient_checkpointing=shared.gradient_checkpointing,
        gradient_checkpointing_kwargs=shared.gradient_checkpointing_kwargs,
        use_cpu=shared.use_cpu,
        report_to=shared.report_to,
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,  # batches are lists of numbers
    )
    made._n_gpu = min(made.n_gpu, 1)  # with several devices Transformers would split the batch among them
    return made


def carry_out(
    lesson: Lesson, folder: RunFolder, checkpoint: Checkpoint | None, resumed: bool = False
) -> ColdStartOutcome:
    """Load, train, conclude. A resumed run forgets its later rows only when everything it needs was found."""
    config = lesson.config
    display = TrainingDisplay(Console(stderr=True, highlight=False, soft_wrap=True))
    parts = load_parts(lesson)
    record(folder, parts, display)
    display.say(told(lesson))
    if resumed:
        folder.rewind(checkpoint.step if checkpoint else -1)
    trainer = build_trainer(lesson, parts, folder.checkpoints_path)
    interrupt, progress = InterruptCallback(), ProgressCallback(display, SHOWN)
    rule = attach(trainer, lesson, parts, folder, display)
    for callback in (interrupt, progress):
        trainer.add_callback(callback)
    try:
        with quiet_libraries(), refused_by_disk(folder, COMMAND):
            trainer.train(resume_from_checkpoint=str(checkpoint.path) if checkpoint else None)
    finally:
        progress.stop()
        interrupt.restore()
    newest, step = rule.newest, trainer.state.global_step
    whole = newest is not None and newest.step == step and (step >= lesson.steps or rule.met())
    if interrupt.interrupted and not whole:
        folder.write_status("interrupted", step=step)
        begun = folder.read_json(COLD_START_FILE)
        return ColdStartOutcome(folder, True, None, folder.evaluations(), None, record=begun)
    return conclude(folder, config)


def load_parts(lesson: Lesson) -> Parts:
    """The model, and the problems it is scored on."""
    config, directory = lesson.config, resolve(lesson.config.model)
    examined = load_split(lesson.task, config.evaluation.split, config.data)
    loaded = load(directory, config.precision, usable_device(config.device))
    return Parts(config, lesson.task, loaded, directory, lesson.problems, examined)


def build_trainer(lesson: Lesson, parts: Parts, output: Path) -> SupervisedTrainer:
    """The trainer on the lesson's examples.

    Raises:
        ConfigurationError: an example does not fit.
    """
    context = getattr(parts.loaded.model.config.get_text_config(), "max_position_embeddings", None)
    check_context(lesson.examples, context)
    args = training_arguments(lesson.config, output, lesson.steps)
    on_tree = lesson.config.engine == "prefix-tree"
    trainer = SupervisedTrainer(parts.loaded, args, lesson.examples, on_tree)
    trainer.remove_callback(PrinterCallback)  # our own display shows the rows
    return trainer


def attach(
    trainer: SupervisedTrainer, lesson: Lesson, parts: Parts, folder: RunFolder, display: TrainingDisplay
) -> StoppingRule:
    """The callbacks, in the order in which a step's end is worked through; returns the stopping rule."""
    config = lesson.config
    plan = config.coldstart
    rule = StoppingRule(plan.stop_metric, plan.stop_at)

    def report(evaluation: Evaluation) -> None:
        display.show_evaluation(evaluation)
        rule.note(evaluation)

    decoding = Decoding(
        lesson.max_completion_length, config.evaluation.batch_size, prefix_tree=config.engine == "prefix-tree"
    )
    examination = Examination(parts.task, config.evaluation.split, parts.examined, decoding, plan.every)
    trainer.add_callback(SupervisedFolderCallback(trainer, folder, writes=True))
    trainer.add_callback(EvaluationCallback(trainer, parts.loaded.tokenizer, examination, folder, report))
    trainer.add_callback(rule)
    trainer.add_callback(LeanCheckpoints(folder))
    return rule


def told(lesson: Lesson) -> str:
    """What is going to be shown, and when it ends."""
    plan = lesson.config.coldstart
    source = "drawn outside all splits" if plan.data is None else f"from {plan.data}"
    until = "" if plan.stop_metric is None else f", or until {plan.stop_metric} reaches {plan.stop_at:.1%}"
    return (
        f"cold start: at most {len(lesson.examples)} examples {source}, {plan.batch_size} a step{until}; "
        f"evaluated every {plan.every} steps"
    )
