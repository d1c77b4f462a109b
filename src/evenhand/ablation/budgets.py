"""How many completions a run had sampled by a step, and whether the arms of a study were given equally many.

The trainer's log knows (``completions_sampled``, with the rounds of resampling). Where it does not say, the
configuration does for runs without resampling; where neither does, the number is unknown.
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evenhand.runfolder import RunFolder

LOGGED = "completions_sampled"


@dataclass(frozen=True, slots=True)
class Cycle:
    """TRL's generation cycle: a batch of completions is sampled every so many micro-batches.

    Attributes:
        batch: Completions sampled at once.
        passes: Micro-batches that use them, repeated iterations included.
        accumulated: Micro-batches of an optimiser step.
    """

    batch: int
    passes: int
    accumulated: int

    def sampled(self, step: int) -> int:
        """Completions sampled when ``step`` optimiser steps are done."""
        return math.ceil(step * self.accumulated / self.passes) * self.batch


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a run folder says about the completions that the run sampled.

    Attributes:
        logged: By step, as the trainer logged them.
        cycle: As configured; None where the configuration does not tell, as with resampling.
    """

    logged: Mapping[int, int]
    cycle: Cycle | None

    @classmethod
    def of(cls, folder: RunFolder) -> "Sampling":
        """Read a run folder."""
        rows = [(row.step, whole(row.values.get(LOGGED))) for row in folder.metrics()]
        environment = folder.read_json("environment.json")
        processes = whole(environment.get("processes")) if isinstance(environment, Mapping) else None
        logged = {step: count for step, count in rows if count is not None}
        return cls(logged, cycle_of(folder.read_text("config.toml") or "", processes or 1))

    def at(self, step: int) -> int | None:
        """Completions sampled by a step, or None where that is unknown."""
        if step in self.logged:
            return self.logged[step]
        if step == 0:
            return 0
        return None if self.cycle is None else self.cycle.sampled(step)


@dataclass(frozen=True, slots=True)
class Budget:
    """The completions of an arm's finished runs: from the fewest of a run to the most."""

    arm: str
    fewest: int | None  # unknown where a run's is
    most: int | None
    source: str  # logs, configuration, unknown

    def __str__(self) -> str:
        if self.fewest is None:
            return f"{self.arm} unknown"
        counts = str(self.fewest) if self.fewest == self.most else f"{self.fewest} to {self.most}"
        return f"{self.arm} {counts}{' by its configuration' if self.source == 'configuration' else ''}"

    def to_json(self) -> dict[str, Any]:
        """Plain types only."""
        return asdict(self)


def cycle_of(text: str, processes: int) -> Cycle | None:
    """The generation cycle of a resolved ``config.toml``; None where it does not read, leaves a size out or resamples.

    Source: TRL's ``GRPOConfig.__post_init__`` and ``GRPOTrainer._prepare_inputs``.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    train = values.get("train")
    if not isinstance(train, Mapping) or values.get("resample", 0) != 0:
        return None
    accumulated = whole(train.get("gradient_accumulation_steps"))
    size = whole(train.get("per_device_train_batch_size"))
    iterations = whole(train.get("num_iterations", 1))
    if not accumulated or not size or not iterations:
        return None
    micro_batch = size * processes
    batch = whole(train.get("generation_batch_size"))
    micro_batches = batch // micro_batch if batch else whole(train.get("steps_per_generation", accumulated))
    return Cycle(micro_batches * micro_batch, micro_batches * iterations, accumulated) if micro_batches else None


def whole(value: Any) -> int | None:
    """A number as an integer where it is a whole one, not below zero."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if math.isfinite(value) and value >= 0 and value == int(value) else None


def total(folder: RunFolder) -> tuple[int | None, str]:
    """(completions, where that is known from) of a whole run: by the last step that it logged or was scored at."""
    sampling = Sampling.of(folder)
    steps = [row.step for row in folder.metrics()] + [evaluation.step for evaluation in folder.evaluations()]
    count = sampling.at(max(steps)) if steps else None
    if count is None:
        return None, "unknown"
    return count, "logs" if max(steps) in sampling.logged else "configuration"


def budget_of(arm: str, folders: Sequence[RunFolder]) -> Budget:
    """The budget of an arm from the folders of its finished runs."""
    found = [total(folder) for folder in folders]
    counts = [count for count, _ in found if count is not None]
    if not found or len(counts) < len(found):
        return Budget(arm, None, None, "unknown")
    source = "logs" if all(source == "logs" for _, source in found) else "configuration"
    return Budget(arm, min(counts), max(counts), source)


def budget_sentences(budgets: Sequence[Budget]) -> list[str]:
    """That arms had different budgets, or that this is not known of some; nothing where all are equal or unknown."""
    if len({(budget.fewest, budget.most) for budget in budgets}) < 2:
        return []
    told = ", ".join(str(budget) for budget in budgets)
    if any(budget.fewest is None for budget in budgets):
        return [f"Completions sampled: {told}; whether the arms had equally many is not known."]
    return [f"The arms had different budgets of completions: {told}. A difference at the end may be one of budget."]
