"""The nouns of the program, as frozen records that every stage passes along.

Read this file first: a *problem* is asked as a prompt, the model samples a group of *completions*, a task turns
each into a *score*, a step leaves its *metrics*, a split leaves an *evaluation*, and whatever deserves a user's
attention is a *finding*.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Severity = Literal["ok", "note", "warn", "stop"]
SEVERITIES: tuple[Severity, ...] = ("ok", "note", "warn", "stop")  # mildest first

Message = Mapping[str, str]  # {"role": "system" | "user" | "assistant", "content": text}

# The class of a completion from which no answer could be read, in every prediction distribution.
NO_ANSWER = "none"


@dataclass(frozen=True, slots=True)
class Problem:
    """One question of a task.

    ``columns`` holds what rewards need (numbers, answer, task version …); it travels beside the prompt and never
    appears in it.
    """

    index: int
    prompt: tuple[Message, ...]
    columns: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Score:
    """What a task read out of one completion.

    ``rewards`` are unweighted and in the task's order, ``metrics`` lie in 0..1, ``prediction`` is the answer that was
    read, or ``NO_ANSWER``.
    """

    rewards: Mapping[str, float]
    metrics: Mapping[str, float]
    prediction: str


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled completion, as kept in the run folder, so that every number can be followed to a text."""

    step: int
    group: int  # which prompt of the step, 0-based
    prompt: str
    text: str
    rewards: Mapping[str, float]  # unweighted, by reward name
    reward: float  # weighted sum
    advantage: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    prediction: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    line_advantages: Mapping[str, float] = field(default_factory=dict)  # under credit per line, by part

    def to_json(self) -> dict[str, Any]:
        """Plain types only; the field names are the keys."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """One log row of a training step. A key that was not logged is absent: unknown, never zero. NaN stays NaN."""

    step: int
    values: Mapping[str, float | None]

    def to_json(self) -> dict[str, Any]:
        """``step`` first, then the keys as they were logged."""
        return {"step": self.step, **self.values}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A whole split, scored greedily.

    ``intervals`` are 95 % (low, high) per metric. ``outcomes`` keeps each metric problem by problem, in split order,
    for paired comparisons; ``predicted`` and ``expected`` likewise.
    """

    step: int
    split: str
    n: int
    metrics: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    predictions: Mapping[str, int]  # answer read -> how often
    expected: tuple[str, ...]
    predicted: tuple[str, ...]
    outcomes: Mapping[str, tuple[float, ...]]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Metrics under their own names at the top level, as other programs rely on."""
        shared = asdict(self)
        metrics = shared.pop("metrics")
        head = {key: shared.pop(key) for key in ("step", "split", "n")}
        return {**head, **metrics, **shared}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Evaluation":
        """Inverse of :meth:`to_json`. Raises KeyError if a field is missing."""
        return cls(
            step=int(row["step"]),
            split=str(row["split"]),
            n=int(row["n"]),
            metrics={name: float(row[name]) for name in row["intervals"]},
            intervals={name: (float(low), float(high)) for name, (low, high) in row["intervals"].items()},
            predictions={str(key): int(count) for key, count in row["predictions"].items()},
            expected=tuple(row["expected"]),
            predicted=tuple(row["predicted"]),
            outcomes={name: tuple(values) for name, values in row["outcomes"].items()},
            seconds=float(row["seconds"]),
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """A named fault (or a reassurance), the step where it begins, the numbers it rests on, and what to do."""

    code: str
    severity: Severity
    stage: str  # "preflight" | "training" | "diagnosis" | "evaluation" | "selection"
    message: str
    step: int | None = None  # first step where it holds
    evidence: Mapping[str, Any] = field(default_factory=dict)
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """The shape that other programs rely on."""
        return {
            "code": self.code,
            "severity": self.severity,
            "stage": self.stage,
            "step": self.step,
            "message": self.message,
            "evidence": dict(self.evidence),
            "remedy": self.remedy,
        }


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that could not be judged, and why: a key that was not logged, too few rows."""

    code: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """``code`` and ``reason``."""
        return {"code": self.code, "reason": self.reason}
