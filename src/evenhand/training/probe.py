"""The parameter-update probe: three real optimiser steps, and what they did to every parameter group.

Run as a child process (``python -m evenhand.training.probe REQUEST.json ANSWER.json``), so that nothing of it leaks
into a run: no weights, no optimiser, no random state.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from evenhand.config import RunConfig
from evenhand.models.precision import GROUPS, dtype_name, parameter_group
from evenhand.runfolder import RunFolder
from evenhand.training.run import build_trainer, load_parts, quiet_libraries

STEPS = 3
LARGE_MODEL = 20_000_000  # parameters from which a step sees one micro-batch: Adam's step hardly depends on how many
MOST_FOR_A_MEDIAN = 100_000  # entries; a median of more says nothing more
HALF = 0.5


@dataclass(frozen=True, slots=True)
class GroupMovement:
    """What the steps did to one parameter group; fields as in ``evenhand.preflight.setup.GroupUpdate``."""

    name: str
    dtype: str
    entries: int
    moved: float
    predicted: float
    finite: float
    nonzero: float
    update: float
    unit: float
    mends_at: float | None


@dataclass(frozen=True, slots=True)
class Movement:
    """The answer of the probe."""

    steps: int
    learning_rate: float
    groups: list[GroupMovement]
    seconds: float
    completions: int
    stale: int
    spread: float | None


@dataclass
class Watched:
    """One parameter before the steps, and what its gradients were."""

    name: str
    parameter: nn.Parameter
    before: torch.Tensor
    touched: torch.Tensor  # bool, whether an entry ever had a non-zero gradient
    finite: float = 1.0
    updates: list[torch.Tensor] = field(default_factory=list)


class GradientWatch(TrainerCallback):
    """Looks at gradients just before and at the optimiser's state just after each step."""

    def __init__(self, model: nn.Module) -> None:
        self.watched = [
            Watched(name, weights, weights.detach().clone(), torch.zeros_like(weights, dtype=torch.bool))
            for name, weights in model.named_parameters()
            if weights.requires_grad
        ]
        self.spread: list[float] = []
        self.ends: list[float] = []  # when each step ended

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Gradients as the optimiser gets them."""
        del args, state, control
        for one in self.watched:
            gradient = one.parameter.grad
            if gradient is not None:
                one.touched |= gradient != 0
                one.finite = min(one.finite, torch.isfinite(gradient).double().mean().item())

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **keywords: Any
    ) -> None:
        """Adam's quotient, before it is rounded into the weights."""
        del args, state, control
        self.ends.append(time.perf_counter())
        inner: Any = keywords.get("optimizer")
        inner = getattr(inner, "optimizer", inner)
        for one in self.watched:
            if (quotient := adam_quotient(inner, one.parameter)) is not None:
                one.updates.append(quotient)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **_: Any
    ) -> None:
        """Whether groups had any spread."""
        del args, state, control
        if logs and "frac_reward_zero_std" in logs:
            self.spread.append(1.0 - float(logs["frac_reward_zero_std"]))


def adam_quotient(optimizer: Any, parameter: nn.Parameter) -> torch.Tensor | None:
    """|m| / (sqrt(v) + eps) of a sample of entries, bias corrected; None for an optimiser that is no Adam."""
    state = optimizer.state.get(parameter, {}) if optimizer is not None else {}
    if not {"exp_avg", "exp_avg_sq", "step"} <= state.keys():
        return None
    group = next(g for g in optimizer.param_groups if any(p is parameter for p in g["params"]))
    (first, second), steps = group["betas"], float(state["step"])
    mean = thinned(state["exp_avg"]).float() / (1 - first**steps)
    variance = thinned(state["exp_avg_sq"]).float() / (1 - second**steps)
    quotient: torch.Tensor = mean.abs() / (variance.sqrt() + group["eps"])
    return quotient


def thinned(values: torch.Tensor) -> torch.Tensor:
    """Evenly spread entries, flat, no more than a median needs."""
    flat = values.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // MOST_FOR_A_MEDIAN)]


def half_gap(weights: torch.Tensor) -> torch.Tensor:
    """Half the distance from each entry to its nearer neighbour at its dtype: what an update must exceed to move it."""
    magnitude = weights.detach().abs()
    infinity = torch.full_like(magnitude, torch.inf)
    above = torch.nextafter(magnitude, infinity).float() - magnitude.float()
    return above / 2


def predicted_share(watched: Watched, learning_rate: float) -> float:
    """Share of touched entries that an update of about the learning rate moves: Adam's first quotient is 1.

    Weights exactly between two values move to the even one; taking "greater than half the gap" ignores that tie.
    """
    movable = half_gap(watched.before) < learning_rate
    touched = watched.touched
    return (movable & touched).sum().item() / max(touched.sum().item(), 1)


def summarise(watch: GradientWatch, learning_rate: float) -> list[GroupMovement]:
    """Figures by parameter group; groups without trained parameters are left out."""
    groups = []
    for name in GROUPS:
        members = [one for one in watch.watched if parameter_group(one.name) == name]
        if members:
            groups.append(movement(name, members, learning_rate))
    return groups


def movement(name: str, members: list[Watched], learning_rate: float) -> GroupMovement:
    """Figures of one parameter group."""
    entries = sum(one.before.numel() for one in members)
    touched = sum(one.touched.sum().item() for one in members)
    moved = sum(((one.parameter.detach() != one.before) & one.touched).sum().item() for one in members)
    predicted = sum(predicted_share(one, learning_rate) * one.touched.sum().item() for one in members)
    gaps = torch.cat([thinned(half_gap(one.before)) for one in members])
    updates = [quotient for one in members for quotient in one.updates]
    dtypes = sorted({dtype_name(one.before.dtype) for one in members})
    return GroupMovement(
        name=name,
        dtype=" and ".join(dtypes),
        entries=entries,
        moved=moved / max(touched, 1),
        predicted=predicted / max(touched, 1),
        finite=min(one.finite for one in members),
        nonzero=touched / max(entries, 1),
        update=learning_rate * (torch.cat(updates).median().item() if updates else 1.0),
        unit=2 * gaps.median().item(),
        mends_at=None if dtypes == ["float32"] else torch.quantile(gaps.float()[:1_000_000], HALF).item(),
    )


def probe(config: RunConfig) -> Movement:
    """Make three real steps on real sampled groups at the full learning rate, in a folder that is thrown away.

    Raises:
        EvenhandError: whatever is wrong with the configuration, the model or the device.
    """
    settings = {"max_steps": STEPS, "warmup_steps": 0, "lr_scheduler_type": "constant", "save_strategy": "no"}
    config = config.model_copy(update={"train": {**config.train, **settings, "logging_steps": 1, "report_to": "none"}})
    with tempfile.TemporaryDirectory() as scratch:
        parts = load_parts(config)
        if sum(weights.numel() for weights in parts.loaded.model.parameters()) > LARGE_MODEL:
            parts = replace(parts, config=with_one_micro_batch(config))
        trainer = build_trainer(parts, RunFolder(Path(scratch)))
        watch = GradientWatch(trainer.model)
        trainer.add_callback(watch)
        with quiet_libraries():
            trainer.train()
        # the first step also pays for what is done once
        seconds = (watch.ends[-1] - watch.ends[0]) / (STEPS - 1) * STEPS
        rate = float(trainer.args.learning_rate)
        stale = count_stale(trainer.optimizer, trainer.model)
    spread = sum(watch.spread) / len(watch.spread) if watch.spread else None
    args = trainer.args
    completions = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
    return Movement(STEPS, rate, summarise(watch, rate), seconds, completions, stale, spread)


def with_one_micro_batch(config: RunConfig) -> RunConfig:
    """One micro-batch a step, where it holds whole groups."""
    size, group = (config.train.get(name, 8) for name in ("per_device_train_batch_size", "num_generations"))
    own = ("steps_per_generation", "generation_batch_size")
    if size % group or any(config.train.get(name) is not None for name in own):
        return config
    return config.model_copy(update={"train": {**config.train, "gradient_accumulation_steps": 1}})


def count_stale(optimizer: Any, model: nn.Module) -> int:
    """Tensors that the optimiser would move and the model does not have."""
    there = {id(weights) for weights in model.parameters()}
    held: Iterable[Any] = (tensor for group in optimizer.param_groups for tensor in group["params"])
    return sum(id(tensor) not in there for tensor in held)


def main(request: Path, answer: Path) -> None:
    """Read a configuration, write what the probe found."""
    config = RunConfig.model_validate(json.loads(request.read_text(encoding="utf-8")))
    answer.write_text(json.dumps(asdict(probe(config))), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
