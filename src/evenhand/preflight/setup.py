"""The nouns of preflight: everything known about a run before its first step, as plain records.

A check reads these records and nothing else, so that each can be tested from a few numbers. What could not be looked
at (no model was named, a step before it failed) is None, and ``absent`` says why.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from evenhand.preflight.question import Question
from evenhand.preflight.reward_study import RewardStudy

Part = Literal["data", "rewards", "settings", "machine", "model", "samples", "updates"]

PARAMETER_GROUPS = ("embeddings", "attention", "MLP", "norms", "head")


@dataclass(frozen=True, slots=True)
class Data:
    """The splits of a run; the first one is trained on.

    Attributes:
        source: A task's version, or the file.
        splits: Questions by split.
        answers: Names of the columns that hold the right answer.
        faults: What is wrong with the rows as they were read, a sentence each.
        recompute: Works the answer columns out from the others; None where nobody knows how.
    """

    source: str
    splits: Mapping[str, Sequence[Question]]
    answers: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    recompute: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None

    @property
    def train(self) -> Sequence[Question]:
        """The split that is trained on."""
        return next(iter(self.splits.values()), ())


@dataclass(frozen=True, slots=True)
class Settings:
    """What the trainer was asked for, and what it will use.

    Attributes:
        asked: ``[train]`` as it was written.
        train: Every field of ``GRPOConfig`` that matters here, defaults filled in.
        problems: Rows of the training split.
        processes: Ranks that train together.
        body, norms: Configured dtypes of the weights.
        evaluate_every, evaluation_problems: The evaluation plan.
        metric: The metric by which a checkpoint is chosen.
        metrics: Metrics that exist here.
        refused: What the installed ``GRPOConfig`` refuses, in its own words.
    """

    asked: Mapping[str, Any]
    train: Mapping[str, Any]
    problems: int
    processes: int = 1
    body: str = "float32"
    norms: str = "float32"
    evaluate_every: int = 10
    evaluation_problems: int = 50
    metric: str | None = None
    metrics: tuple[str, ...] = ()
    refused: str = ""

    def number(self, name: str, default: float = 0) -> float:
        """A numeric field; the default where it is None or absent."""
        value = self.train.get(name)
        return float(value) if isinstance(value, int | float) else float(default)

    @property
    def group_size(self) -> int:
        """Completions per prompt."""
        return int(self.number("num_generations", 8))

    @property
    def micro_batch(self) -> int:
        """Completions that one forward pass sees, over all processes."""
        return int(self.number("per_device_train_batch_size", 8)) * self.processes

    @property
    def accumulation(self) -> int:
        """Micro-batches per update."""
        return int(self.number("gradient_accumulation_steps", 1))

    @property
    def generation_batch(self) -> int:
        """Completions sampled at a time: TRL's ``generation_batch_size``."""
        explicit = self.asked.get("generation_batch_size")
        if isinstance(explicit, int):
            return explicit
        steps = self.asked.get("steps_per_generation")
        return self.micro_batch * (steps if isinstance(steps, int) else self.accumulation)

    @property
    def completions_per_update(self) -> int:
        """Completions that one optimiser step sees."""
        return self.micro_batch * self.accumulation

    @property
    def prompts_per_update(self) -> float:
        """Different prompts that one optimiser step sees."""
        return self.completions_per_update / max(self.group_size, 1)

    @property
    def updates_per_epoch(self) -> float:
        """Optimiser steps in one pass over the data: TRL's sampler drops what does not fill a generation batch."""
        prompts = self.generation_batch // max(self.group_size, 1)
        generations = self.problems // prompts if prompts else 0
        completions = generations * prompts * self.group_size * self.number("num_iterations", 1)
        return completions / max(self.completions_per_update, 1)

    @property
    def updates(self) -> int:
        """Optimiser steps of the whole run."""
        steps = int(self.number("max_steps", -1))
        return steps if steps > 0 else math.ceil(self.updates_per_epoch * self.number("num_train_epochs", 3))

    @property
    def generations(self) -> float:
        """How often a batch is sampled in the whole run."""
        sampled = self.completions_per_update * self.updates / max(self.number("num_iterations", 1), 1)
        return sampled / max(self.generation_batch, 1)


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why a device cannot be used.

    ``cause`` is ``not-built``, ``not-present``, ``hidden`` or ``wrong-interpreter``.
    """

    cause: str
    reason: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the run would take place.

    Attributes:
        device: The device that will be used.
        asked: The device that was asked for; ``auto`` takes the best.
        unusable: Devices that cannot be used, and why.
        bf16: Whether the device trains in BF16 autocast.
        memory, disk: Free bytes of the device's memory and of the run folder's disk.
        versions: Installed packages, by name.
        crash: What became of generate, forward and backward in a child process; empty where they went well, None where
            nobody tried.
    """

    device: str
    asked: str = "auto"
    unusable: Mapping[str, Unusable] = field(default_factory=dict)
    bf16: bool = True
    memory: int = 0
    disk: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    crash: str | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """What was loaded.

    Attributes:
        name: As it was asked for.
        dtypes: Parameters by parameter group and dtype, such as ``{"norms": {"float32": 1000}}``.
        planned: Dtype by parameter group that the configuration asks for.
        layers, width, heads_width, vocabulary: Sizes for the memory estimate; ``heads_width`` is keys and values of one
            layer, ``vocabulary`` the logits of one token.
        context: Tokens of prompt and completion together.
        prompt_tokens: Length of the longest prompt of the training split.
        gold_tokens: Length of the longest gold text with its end token, or None where no gold is known.
        pad, end: Ids of the padding and end tokens.
        template: The chat template.
        generation_defaults: What the model's own generation configuration sets.
        adapter: Whether only an adapter is trained.
        unequal: Tensors that differ from the file on disk.
        trained: Why this model object is not fresh; empty where it is.
    """

    name: str
    dtypes: Mapping[str, Mapping[str, int]]
    planned: Mapping[str, str]
    layers: int = 1
    width: int = 1
    heads_width: int = 1
    vocabulary: int = 1
    context: int | None = None
    prompt_tokens: int = 0
    gold_tokens: int | None = None
    pad: int | None = None
    end: int | None = None
    template: str = ""
    generation_defaults: Mapping[str, Any] = field(default_factory=dict)
    adapter: bool = False
    unequal: tuple[str, ...] = ()
    trained: str = ""

    @property
    def parameters(self) -> int:
        """How many there are."""
        return sum(count for by_dtype in self.dtypes.values() for count in by_dtype.values())


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion of the fresh model."""

    group: int
    text: str
    tokens: int
    ended: bool
    reward: float
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Samples:
    """A few groups of the fresh model, sampled as training will sample them.

    Attributes:
        completions: Every completion.
        limit: Tokens that a completion may take.
        seconds: How long sampling took.
        ceiling, floor: The full reward, and what saying nothing earns.
        success: The metric that says whether a completion is right; None where only rewards are known.
    """

    completions: tuple[Sample, ...]
    limit: int
    seconds: float
    ceiling: float
    floor: float
    success: str | None = None

    @property
    def groups(self) -> list[list[Sample]]:
        """Completions of each prompt."""
        grouped: dict[int, list[Sample]] = {}
        for sample in self.completions:
            grouped.setdefault(sample.group, []).append(sample)
        return list(grouped.values())

    @property
    def mean_reward(self) -> float:
        """Mean over all completions that could be scored."""
        known = [sample.reward for sample in self.completions if not math.isnan(sample.reward)]
        return sum(known) / len(known) if known else math.nan

    @property
    def spread_share(self) -> float:
        """Share of groups whose rewards differ."""
        groups = self.groups
        alive = sum(len({round(sample.reward, 9) for sample in group}) > 1 for group in groups)
        return alive / max(len(groups), 1)

    @property
    def success_rate(self) -> float:
        """Share of completions that are right, or that earn the full reward where no metric says."""
        if self.success is not None:
            return sum(sample.metrics[self.success] for sample in self.completions) / max(len(self.completions), 1)
        full = sum(sample.reward >= self.ceiling - 1e-9 for sample in self.completions)
        return full / max(len(self.completions), 1)


@dataclass(frozen=True, slots=True)
class GroupUpdate:
    """What three real optimiser steps did to one parameter group.

    Attributes:
        name: The parameter group.
        dtype: Its dtype.
        entries: How many parameters.
        moved: Share of the entries with a gradient whose value changed.
        predicted: The same, from the learning rate and the unit in the last place alone.
        finite: Share of gradient entries that are finite, over all steps.
        nonzero: Share of entries that had a non-zero gradient in any step.
        update: Typical size of a step's update before rounding: the learning rate times Adam's quotient.
        unit: Typical distance from an entry to its next value at this dtype.
        mends_at: Learning rate at which half of the entries would move; None in FP32, where nearly all do.
    """

    name: str
    dtype: str
    entries: int
    moved: float
    predicted: float
    finite: float
    nonzero: float
    update: float
    unit: float
    mends_at: float | None = None


@dataclass(frozen=True, slots=True)
class Updates:
    """The parameter-update probe.

    Attributes:
        steps: Real optimiser steps that were made.
        learning_rate: At which.
        groups: What they did, by parameter group.
        seconds: How long the steps took together.
        completions: Completions of one step, fewer than the run's for a large model; 0 where they are the run's.
        stale: Tensors that the optimiser held and the model did not.
        spread: Share of the sampled groups with any spread in their rewards; None where it was not logged.
    """

    steps: int
    learning_rate: float
    groups: tuple[GroupUpdate, ...]
    seconds: float = 0.0
    completions: int = 0
    stale: int = 0
    spread: float | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that checks look at.

    A part that is None could not be looked at; ``absent`` says why. ``load_failure`` says why the model cannot be
    loaded.
    """

    data: Data | None = None
    rewards: RewardStudy | None = None
    settings: Settings | None = None
    machine: Machine | None = None
    model: Model | None = None
    samples: Samples | None = None
    updates: Updates | None = None
    absent: Mapping[str, str] = field(default_factory=dict)
    load_failure: str = ""
