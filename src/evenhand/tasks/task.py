"""What a task is.

A task asks questions whose answers can be checked by a program. To add one: write one file in this folder with a
subclass of :class:`Task`, export one object of it, and add that object to ``TASKS`` in ``__init__.py``. The contract
tests then cover it: its gold answer earns everything, its near misses do not, and no text makes it raise.

Everything else in Evenhand (training, evaluation, preflight, reports) knows tasks through this page alone.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from evenhand.records import Message, Problem, Score


@dataclass(frozen=True, slots=True)
class Split:
    """How a split is drawn: ``size`` problems from one random generator seeded with ``seed``."""

    size: int
    seed: int


@dataclass(frozen=True, slots=True)
class Reward:
    """One term of the reward. Its values come from :attr:`Score.rewards` under ``name``.

    ``low`` and ``high`` bound the unweighted value; ``low`` is None where nothing bounds it from below.
    """

    name: str
    weight: float
    low: float | None = 0.0
    high: float = 1.0


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a completion, in characters, with what it earns by itself.

    Attributes:
        start: Its first character.
        end: One past its last.
        name: Which part of the answer it is, the same in every completion of a prompt (``line 3``, ``answer``), or
            None for what is no part of an answer.
        rewards: The reward terms that this part decides, unweighted, by the names of the task's rewards.
    """

    start: int
    end: int
    name: str | None
    rewards: Mapping[str, float]


class Task(ABC):
    """One kind of problem, how it is asked, and how an answer is read and paid.

    Attributes:
        name: How users call it, such as ``stepwise-parity``.
        version: Changes whenever problems, prompt, parser or rewards change; two versions are never compared.
        summary: One line for ``evenhand tasks``.
        columns: The columns that rewards read, beside the prompt.
        splits: ``train``, ``dev`` and ``test``.
        rewards: The terms, in the order in which they are logged.
        metrics: Names of what :meth:`score` measures, the most telling first.
        goal: The metric by which a checkpoint is chosen.
        max_completion_length: Tokens that an answer may take.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    summary: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    splits: ClassVar[Mapping[str, Split]]
    rewards: ClassVar[tuple[Reward, ...]]
    metrics: ClassVar[tuple[str, ...]]
    goal: ClassVar[str]
    max_completion_length: ClassVar[int]

    @abstractmethod
    def draw(self, split: str) -> list[dict[str, Any]]:
        """The columns of every problem of a split: what rewards need. The same on every machine."""

    @abstractmethod
    def prompt(self, columns: Mapping[str, Any]) -> tuple[Message, ...]:
        """The chat messages that ask a problem. Nothing that gives the answer away."""

    @abstractmethod
    def recompute(self, columns: Mapping[str, Any]) -> Mapping[str, Any]:
        """The label columns again, worked out from the question alone; they must equal the stored ones."""

    @abstractmethod
    def truth(self, columns: Mapping[str, Any]) -> str:
        """The right answer, as the prediction distribution names it."""

    @abstractmethod
    def gold(self, columns: Mapping[str, Any]) -> str:
        """A text that earns the full reward."""

    @abstractmethod
    def score(self, columns: Mapping[str, Any], text: str) -> Score:
        """Read a completion. Never raises, whatever the text."""

    @abstractmethod
    def near_misses(self, columns: Mapping[str, Any]) -> Mapping[str, str]:
        """Corrupted gold texts, by what is wrong with them. Each must earn less than gold."""

    @abstractmethod
    def blind_answers(self, columns: Mapping[str, Any]) -> Mapping[str, str]:
        """Texts that copy from the question but know nothing of its answer, by family: the task's answer space.

        The names must be the same for every problem, since preflight averages each over a split to see what a policy
        earns that looks at nothing.
        """

    @abstractmethod
    def control_problems(self) -> list[Problem]:
        """A few problems on which a policy that looks at its input must at least move its answer."""

    def spans(self, columns: Mapping[str, Any], text: str) -> Sequence[Span] | None:
        """Stretches of a completion with a correctness of their own, or None if the task has none.

        They follow each other without gaps from the first character to the last, and no name comes twice; a line break
        belongs to the line that it ends.
        """
        del columns, text
        return None

    def fresh(self, generator: random.Random) -> dict[str, Any] | None:
        """The columns of one more problem, like a row of :meth:`draw`; None if the task draws none beyond its splits.

        A cold start shows such problems. It passes over those that stand in a split, so they need not be avoided here.
        """
        del generator
        return None

    def problem(self, index: int, columns: Mapping[str, Any]) -> Problem:
        """A problem as it is asked, its columns beside it."""
        return Problem(index=index, prompt=self.prompt(columns), columns=columns)
