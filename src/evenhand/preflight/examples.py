"""A small healthy set-up, from which every check makes its sick example by changing one thing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evenhand.preflight.question import Question
from evenhand.preflight.reward_study import RewardStudy, Term
from evenhand.preflight.setup import (
    PARAMETER_GROUPS,
    Data,
    GroupUpdate,
    Machine,
    Model,
    Sample,
    Samples,
    Settings,
    Setup,
    Updates,
)
from evenhand.rewards import text_of

GIB = 2**30
TRAIN: Mapping[str, Any] = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 4,
    "num_generations": 8,
    "num_iterations": 1,
    "max_steps": 100,
    "max_completion_length": 64,
    "learning_rate": 1e-5,
    "scale_rewards": "group",
    "save_steps": 10,
    "logging_steps": 1,
    "temperature": 1.0,
    "chat_template_kwargs": {"enable_thinking": False},
    "bf16": False,
    "beta": 0.0,
}


def exact(completions: Sequence[Any], answer: Sequence[int], **_: Any) -> list[float]:
    """1 for the right sum and nothing else."""
    return [float(text_of(c) == f"Sum: {truth}") for c, truth in zip(completions, answer, strict=True)]


def near(completions: Sequence[Any], answer: Sequence[int], **_: Any) -> list[float]:
    """1 for the right sum, less for one that is off, nothing for what is no sum."""
    return [closeness(text_of(c), truth) for c, truth in zip(completions, answer, strict=True)]


def closeness(text: str, truth: int) -> float:
    """Falls to 0 three away from the truth."""
    number = text.removeprefix("Sum: ")
    readable = text.startswith("Sum: ") and number.lstrip("-").isdigit() and len(number) < 9
    return max(0.0, 1.0 - abs(int(number) - truth) / 3) if readable else 0.0


def sums(count: int, start: int = 0) -> tuple[Question, ...]:
    """Questions that ask for the sum of two numbers, thirteen answers about equally often."""
    questions = []
    for i in range(start, start + count):
        first, total = i % 7 + 100 * (i // 91 + 1), 100 * (i // 91 + 1) + 40 + i % 13
        columns = {"first": first, "second": total - first, "answer": total % 100}
        prompt = f"What are the last two digits of {first} + {total - first}?"
        questions.append(Question(({"role": "user", "content": prompt},), columns, f"Sum: {total % 100}"))
    return tuple(questions)


def last_two_digits(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The label, worked out."""
    return {"answer": (columns["first"] + columns["second"]) % 100}


def data(**changes: Any) -> Data:
    """Two splits of sums."""
    base = Data(
        source="sums",
        splits={"train": sums(91), "dev": sums(26, start=91)},
        answers=("answer",),
        recompute=last_two_digits,
    )
    return replace(base, **changes)


def study(*functions: Callable[..., Any], weights: Sequence[float] = (), **options: Any) -> RewardStudy:
    """Rewards over the sums; without functions, the healthy two."""
    chosen = functions or (exact, near)
    terms = [Term(function, weight) for function, weight in zip(chosen, weights or [1.0] * len(chosen), strict=True)]
    return RewardStudy(sums(91), terms, **options)


def settings(**train: Any) -> Settings:
    """The reference's arithmetic: 8 × 4 completions of 4 prompts an update."""
    asked = {**TRAIN, **train}
    return Settings(asked=asked, train=asked, problems=2000, metric="right", metrics=("right",))


def machine(**changes: Any) -> Machine:
    """A laptop's processor with room to spare."""
    return replace(Machine(device="cpu", memory=16 * GIB, disk=100 * GIB), **changes)


def model(**changes: Any) -> Model:
    """A model of 600 million parameters, held as it was configured."""
    counts = {"embeddings": 155e6, "attention": 150e6, "mlp": 290e6, "norms": 65e3, "head": 0}
    base = Model(
        name="example",
        dtypes={group: {"float32": int(count)} for group, count in counts.items()},
        planned=dict.fromkeys(PARAMETER_GROUPS, "float32"),
        layers=28,
        width=1024,
        heads_width=2048,
        vocabulary=150_000,
        context=4096,
        prompt_tokens=160,
        gold_tokens=56,
        pad=0,
        end=1,
        template="{% if enable_thinking %}{% endif %}",
    )
    return replace(base, **changes)


def samples(rewards: Sequence[float] = (0.0, 0.0, 0.4, 0.4, 1.0, 0.0, 1.0, 2.0), **changes: Any) -> Samples:
    """Four groups of eight completions with these rewards, each ended by itself."""
    completions = tuple(
        Sample(group, f"Sum: {place}", 5, True, reward, {"right": float(reward >= 2.0)})
        for group in range(4)
        for place, reward in enumerate(rewards)
    )
    base = Samples(completions, limit=64, seconds=2.0, ceiling=2.0, floor=0.0, success="right")
    return replace(base, **changes)


def updates(**changes: Any) -> Updates:
    """Three steps in which every group moved."""
    groups = tuple(
        GroupUpdate(name, "float32", 1000, 1.0, 1.0, finite=1.0, nonzero=1.0, update=1e-5, unit=1e-8)
        for name in PARAMETER_GROUPS
    )
    return replace(Updates(steps=3, learning_rate=1e-5, groups=groups), **changes)


def healthy() -> Setup:
    """Everything known, nothing wrong."""
    return Setup(data(), study(), settings(), machine(), model(), samples(), updates())


def reference() -> Setup:
    """The reference's arithmetic alone: four prompts an update, no model at hand."""
    return Setup(settings=settings(max_completion_length=192, learning_rate=3e-6, beta=0.02))


def solved_by_most() -> Setup:
    """A fresh model that is right more often than not."""
    rewards = (2.0, 2.0, 1.0, 2.0, 0.0, 2.0, 2.0, 1.0)
    return Setup(samples=samples(rewards), settings=settings())


HEALTHY: tuple[Callable[[], Setup], ...] = (healthy, reference, solved_by_most)
