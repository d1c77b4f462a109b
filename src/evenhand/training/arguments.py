"""TRL's ``GRPOConfig`` from the ``[train]`` table: every field of the installed version, under its own name."""

import dataclasses
import math
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from transformers.trainer_utils import SchedulerType
from transformers.training_args import OptimizerNames
from trl import GRPOConfig

from evenhand.config import Draft, RunConfig, finish, near_match
from evenhand.errors import ConfigurationError
from evenhand.models.device import usable_device
from evenhand.tasks import task_named
from evenhand.training import line_credit, resampling

# Fields that Evenhand sets itself, and what to use instead.
RESERVED = {
    "output_dir": "use --out",
    "resume_from_checkpoint": "use --resume RUN",
    "use_cpu": "use device = 'cpu'",
    "do_train": "evenhand train always trains",
}

# Strings whose choices the annotations do not tell: trl/trainer/grpo_trainer.py, _compute_loss and
# _generate_and_score_completions, which refuse others only after the first rollout.
CHOICES = {
    "scale_rewards": ("group", "batch", "none"),
    "importance_sampling_level": ("token", "sequence"),
    "loss_type": ("grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo"),
    "lr_scheduler_type": tuple(choice.value for choice in SchedulerType),
    "optim": tuple(choice.value for choice in OptimizerNames),
}

# Numbers that end up as NumPy's seed, and what it takes.
SEEDED = ("seed", "data_seed")
SEEDS = range(2**32)

# Numbers that TRL accepts and then fails with, or trains nothing.
POSITIVE = (
    "learning_rate",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "max_completion_length",
    "num_iterations",
    "num_generations",
    "steps_per_generation",
    "generation_batch_size",
    "temperature",
    "logging_steps",
    "save_steps",
)


def resolve(drafted: Draft) -> RunConfig:
    """The frozen configuration, its ``[train]`` table checked against the installed ``GRPOConfig``.

    A saving interval that was not given is the evaluation's, so that every evaluated step can be chosen.

    Raises:
        ConfigurationError: every fault of both parts, one a line; credit per line where lines cannot have it;
            resampling where groups cannot be replaced.
        DeviceError: the device asked for is not there.
        TaskError: credit per line in an unknown task, or in one whose spans do not fit.
    """
    train, faults = check(drafted.train)
    config = finish(drafted, train, faults)
    planned = planned_values(config)
    config = config.model_copy(update={"train": {**planned, **train}})
    args = build(config, Path("runs"))  # what only GRPOConfig's own constructor refuses
    if config.credit == "line":
        line_credit.check_task(task_named(config.task))
        line_credit.check_arguments(args)
    if config.resample:
        resampling.check_arguments(args)
    return config


def planned_values(config: RunConfig) -> dict[str, Any]:
    """Evenhand's choice for fields that were not given and whose TRL default would fail or mislead here."""
    device = usable_device(config.device).type
    chosen: dict[str, Any] = {
        "save_steps": config.evaluation.every,
        "save_strategy": "steps",
        "logging_steps": 1,
        "report_to": "none",
        "ddp_find_unused_parameters": False,  # every parameter is used; searching for others costs a pass
        "dataloader_pin_memory": device == "cuda",  # useless elsewhere, and warned about
    }
    if device == "cpu":
        # TRL turns both on by default: autocast is slower than FP32 on most CPUs, and memory is rarely short there.
        chosen |= {"bf16": False, "gradient_checkpointing": False}
    return chosen


def check(train: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Values of the right types, and what is wrong, a sentence each."""
    hints = typing.get_type_hints(GRPOConfig)
    fields = {field.name for field in dataclasses.fields(GRPOConfig) if field.init}
    checked, faults = dict(train), []
    for key, value in train.items():
        if key in RESERVED:
            faults.append(f"train.{key}: not settable here; {RESERVED[key]}.")
        elif key not in fields:
            faults.append(f"train.{key}: the installed GRPOConfig has no such field.{near_match(key, fields)}")
        elif (fault := wrong_value(key, value, hints[key])) is not None:
            faults.append(f"train.{key} = {value!r}: {fault}")
        else:
            checked[key] = adapted(value, hints[key])
    return checked, faults


def wrong_value(key: str, value: Any, hint: Any) -> str | None:
    """Why a value is impossible, or None."""
    if key in CHOICES:
        allowed = CHOICES[key]
        if str(value) not in allowed and not (key == "scale_rewards" and isinstance(value, bool)):
            return f"must be one of {', '.join(allowed)}.{near_match(str(value), allowed)}"
        return None
    try:
        adapted(value, hint)
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        return f"{message[0].lower()}{message[1:]}."
    return number_out_of_range(key, value)


def number_out_of_range(key: str, value: Any) -> str | None:
    """Why a number of the right type is impossible, or None."""
    numbers = value if isinstance(value, list) else [value]
    if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
        return "must be finite."
    if key in POSITIVE and isinstance(value, int | float) and value <= 0:
        return "must be above 0."
    if key in SEEDED and value is not None and value not in SEEDS:
        return f"must be from 0 to {SEEDS[-1]}."
    return None


def adapted(value: Any, hint: Any) -> Any:
    """The value at its field's type. Raises pydantic's ValidationError."""
    adapter = TypeAdapter(hint, config={"arbitrary_types_allowed": True})
    return value if hint is str and isinstance(value, bool) else adapter.validate_python(value)


def build(config: RunConfig, output: Path) -> GRPOConfig:
    """TRL's arguments for a run whose checkpoints go to ``output``.

    Progress bars, log printing and the model card are Evenhand's own, and rewards need the data's columns.

    Raises:
        ConfigurationError: what TRL's constructor refuses, in its own words.
    """
    own = {
        "output_dir": str(output),
        "use_cpu": usable_device(config.device).type == "cpu",
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "log_completions": False,
    }
    template = {"chat_template_kwargs": {"enable_thinking": False}}
    try:
        return GRPOConfig(**{**template, **own, **config.train})
    except (ValueError, TypeError, RuntimeError, ImportError, ArithmeticError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(f"TRL refuses this [train] table: {reason}", "Change the values it names.") from error
