"""What a reward pays for: gold, corrupted gold, and texts that know nothing of the problem.

One study serves every check of the rewards. It calls the functions as TRL does (``reward_call.py``), on a spread of the
training questions, and keeps what it found.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evenhand.preflight.answer_space import AnswerSpace, learn
from evenhand.preflight.question import Question
from evenhand.preflight.reward_call import TIME_LIMIT, Batch, Outcome, batch_of, call, name_of

TextOf = Callable[[Question], str]

FIRST_LOOK = 64  # questions on which every candidate is paid
SECOND_LOOK = 400  # questions on which the best ones are paid again
FINALISTS = 6
CANDIDATES = 250  # about as many ways of answering are paid, to divide the budget by
BUDGET = 20.0  # seconds that a slow reward may cost the whole search
NOTHING_SAID = ("", "I do not know.", "asdf jkl")


@dataclass(frozen=True, slots=True)
class Term:
    """One reward function and its weight; ``high`` is its largest value where a task declares it."""

    function: Callable[..., Any]
    weight: float = 1.0
    high: float | None = None

    @property
    def name(self) -> str:
        """As TRL logs it."""
        return name_of(self.function)


@dataclass(frozen=True, slots=True)
class Paid:
    """What one way of answering earns.

    Attributes:
        name: What is done.
        text: The answer to the first question.
        mean: Mean weighted reward.
        share: The mean as a share of the way from saying nothing to gold.
        constant: Whether the text is the same for every question.
        questions: On how many questions it was paid.
    """

    name: str
    text: str
    mean: float
    share: float
    constant: bool = False
    questions: int = 0


class RewardsFailed(Exception):
    """A reward function gave no rewards; the dry run's findings say why."""


class RewardStudy:
    """The rewards of a run, tried out on its training questions."""

    def __init__(
        self,
        questions: Sequence[Question],
        terms: Sequence[Term],
        *,
        near_misses: Callable[[Mapping[str, Any]], Mapping[str, str]] | None = None,
        blind_answers: Callable[[Mapping[str, Any]], Mapping[str, str]] | None = None,
        time_limit: float = TIME_LIMIT,
    ) -> None:
        self.questions = tuple(questions)
        self.terms = tuple(terms)
        self.near_miss_texts = near_misses
        self.blind_texts = blind_answers
        self.time_limit = time_limit
        self._offered: dict[int, Mapping[str, str]] = {}  # by identity of the question, which this object keeps alive

    # -- paying ------------------------------------------------------------------------------------------------------

    def by_term(self, questions: Sequence[Question], texts: Sequence[str]) -> list[tuple[float, ...]]:
        """Every term's rewards of these texts. Raises RewardsFailed where a function gives none."""
        batch = batch_of([q.prompt for q in questions], texts, [q.columns for q in questions])
        outcomes = [call(term.function, batch, self.time_limit) for term in self.terms]
        for outcome in outcomes:
            if outcome.fault is not None:
                raise RewardsFailed(outcome.fault.message)
        return [outcome.values for outcome in outcomes]

    def totals(self, questions: Sequence[Question], texts: Sequence[str]) -> list[float]:
        """Weighted rewards; a NaN term counts nothing, as in TRL, and a completion with NaN terms alone is NaN."""
        columns = zip(*self.by_term(questions, texts), strict=True)
        weights = [term.weight for term in self.terms]
        return [weighted(values, weights) for values in columns]

    def mean(self, questions: Sequence[Question], text_of: TextOf) -> float:
        """Mean weighted reward of answering every question this way; NaN where none could be scored."""
        return mean_of(self.totals(questions, [text_of(question) for question in questions]))

    # -- the scale ---------------------------------------------------------------------------------------------------

    @cached_property
    def dry_run(self) -> dict[str, list[Outcome]]:
        """Each function called with 3 and with 8 completions, arguments watched."""
        return {term.name: [self.dry_call(term, count) for count in (3, 8)] for term in self.terms}

    def dry_call(self, term: Term, count: int) -> Outcome:
        """One watched call on gold, nothing and noise in turn."""
        return call(term.function, self.dry_batch(count), self.time_limit, watch_arguments=True)

    def dry_batch(self, count: int) -> Batch:
        """``count`` completions of questions in order."""
        chosen = [self.questions[i % len(self.questions)] for i in range(count)]
        texts = [(question.gold or "0", "", "I do not know.")[i % 3] for i, question in enumerate(chosen)]
        return batch_of([q.prompt for q in chosen], texts, [q.columns for q in chosen])

    @cached_property
    def callable(self) -> bool:
        """Whether every function gives rewards."""
        return all(outcome.fault is None for outcomes in self.dry_run.values() for outcome in outcomes)

    @cached_property
    def first_look(self) -> tuple[Question, ...]:
        """The questions on which every candidate is paid; fewer where a call is slow."""
        slowest = max((outcomes[-1].seconds for outcomes in self.dry_run.values()), default=0.0)
        if slowest < 0.05:  # shorter than this says more about the machine than about the reward
            return spread(self.questions, FIRST_LOOK)
        affordable = int(BUDGET / CANDIDATES / (slowest / 8 * len(self.terms)))
        return spread(self.questions, max(8, min(FIRST_LOOK, affordable)))

    @cached_property
    def second_look(self) -> tuple[Question, ...]:
        """More questions, for the figures that are shown; all of them where that is cheap."""
        start = time.perf_counter()
        self.totals(self.first_look, [""] * len(self.first_look))
        per_question = (time.perf_counter() - start) / max(len(self.first_look), 1)
        affordable = int(0.5 * BUDGET / FINALISTS / max(per_question, 1e-9) / 4)
        return spread(self.questions, max(len(self.first_look), min(len(self.questions), max(affordable, SECOND_LOOK))))

    @cached_property
    def gold_known(self) -> bool:
        """Whether every question has a gold text."""
        return bool(self.questions) and all(question.gold is not None for question in self.questions)

    @cached_property
    def gold(self) -> list[float]:
        """What gold earns on each question of the second look."""
        return self.totals(self.second_look, [question.gold or "" for question in self.second_look])

    @cached_property
    def ceiling(self) -> float:
        """The largest reward: the task's own where it declares one, else what gold earns at best."""
        declared = [term.high for term in self.terms]
        if all(high is not None for high in declared):
            return sum(term.weight * (term.high or 0.0) for term in self.terms)
        return max((value for value in self.gold if not math.isnan(value)), default=math.nan)

    @cached_property
    def floor(self) -> float:
        """What saying nothing earns: the mean of the worst paid of three empty phrases."""
        means = [self.mean(self.first_look, lambda _, text=text: text) for text in NOTHING_SAID]  # type: ignore[misc]
        return min((value for value in means if not math.isnan(value)), default=0.0)

    def share(self, mean: float) -> float:
        """Where a mean lies between saying nothing (0) and gold (1)."""
        gold = mean_of(self.gold)
        return max((mean - self.floor) / (gold - self.floor), 0.0) if gold > self.floor else math.nan

    def paid(self, name: str, text_of: TextOf, questions: Sequence[Question]) -> Paid:
        """What answering this way earns."""
        texts = [text_of(question) for question in questions]
        mean = mean_of(self.totals(questions, texts))
        return Paid(name, texts[0], mean, self.share(mean), len(set(texts)) == 1, len(questions))

    def offered(self, question: Question) -> Mapping[str, str]:
        """The blind answers that the task itself offers for one of the study's questions."""
        if id(question) not in self._offered:
            self._offered[id(question)] = self.blind_texts(question.columns) if self.blind_texts is not None else {}
        return self._offered[id(question)]

    @cached_property
    def space(self) -> AnswerSpace | None:
        """The form of the gold texts."""
        chosen = spread(self.questions, 200)
        return learn([q.asked for q in chosen], [q.gold or "" for q in chosen]) if self.gold_known else None


def weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    """Sum of weight × value over the values that are numbers; NaN where none is."""
    known = [weight * value for value, weight in zip(values, weights, strict=True) if not math.isnan(value)]
    return sum(known) if known else math.nan


def mean_of(values: Sequence[float]) -> float:
    """Mean over the values that are numbers; NaN where none is."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def spread(questions: Sequence[Question], count: int) -> tuple[Question, ...]:
    """At most ``count`` questions, evenly spread, the first one among them."""
    if len(questions) <= count:
        return tuple(questions)
    return tuple(questions[i * len(questions) // count] for i in range(count))
