"""The legacy task ``integer-count``: the problems of ``stepwise-parity``, asked for as a single integer.

It is kept because its failures teach. Its three forms differ in the reward alone, and each fails in its own way:

- ``integer-count``: a bounded distance, with exact match and format passed but weighted 0. Always saying 5 pays
  nearly as much as looking at the numbers, so the policy drifts to the middle and accuracy stands still.
- ``integer-count-distance``: an unbounded distance, with a text that is no integer at -11. A wild guess earns
  less than gibberish.
- ``integer-count-outlier``: the same with -114514. One such completion in a group flattens all other advantages.
"""

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from evenhand.records import NO_ANSWER, Message, Problem, Score
from evenhand.tasks.parity import NUMBERS_PER_PROBLEM, count_even, draw_problem, draw_problems, twos_and_ones
from evenhand.tasks.task import Reward, Split, Task

SYSTEM_PROMPT = "Count the even numbers in the input list. Reply with exactly one integer and nothing else."

# Plain ASCII, no leading zeros, no "-0", at most nine digits: what int() reads beyond that is no answer here.
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,8}", re.ASCII)
BOUND = NUMBERS_PER_PROBLEM + 1  # distances from here on earn the same, and so does a text that is no integer
ILLEGAL = -11.0
OUTLIER = -114514.0


def messages(numbers: Sequence[int]) -> tuple[Message, ...]:
    """The system prompt, then the list. The embedded model's cold start knows this wording."""
    question = f"Numbers: {list(numbers)}\nHow many of them are even?"
    return ({"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": question})


def read(text: str) -> int | None:
    """The integer that a completion consists of, or None. Never raises."""
    stripped = text.strip()
    return int(stripped) if INTEGER.fullmatch(stripped) else None


class IntegerCount(Task):
    """Ten integers, answered by the count of the even ones and nothing else; rewarded by a bounded distance."""

    name: ClassVar[str] = "integer-count"
    version: ClassVar[str] = "integer-count-v1"
    summary: ClassVar[str] = "count the even ones of ten integers, as one integer (legacy, bounded distance)"
    columns: ClassVar[tuple[str, ...]] = ("numbers", "answer", "task_version")
    splits: ClassVar[Mapping[str, Split]] = {
        "train": Split(2000, 42),
        "test": Split(1000, 43),
        "dev": Split(50, 44),
    }
    # The two companions are weighted 0 on purpose: they are logged and teach nothing.
    rewards: ClassVar[tuple[Reward, ...]] = (
        Reward("distance", 1.0, low=-1.0, high=0.0),
        Reward("exact", 0.0),
        Reward("format", 0.0),
    )
    metrics: ClassVar[tuple[str, ...]] = ("answer_accuracy", "format_valid")
    goal: ClassVar[str] = "answer_accuracy"
    max_completion_length: ClassVar[int] = 8

    def draw(self, split: str) -> list[dict[str, Any]]:
        """``numbers``, ``answer`` and ``task_version`` of every problem: those of ``stepwise-parity``."""
        spec = self.splits[split]
        return [{**columns, "task_version": self.version} for columns in draw_problems(spec.size, spec.seed)]

    def fresh(self, generator: random.Random) -> dict[str, Any]:
        """One more problem, drawn as those of the splits are."""
        return {**draw_problem(generator), "task_version": self.version}

    def prompt(self, columns: Mapping[str, Any]) -> tuple[Message, ...]:
        """The system prompt, then the list."""
        return messages(columns["numbers"])

    def recompute(self, columns: Mapping[str, Any]) -> Mapping[str, Any]:
        """The count of even numbers."""
        return {"answer": count_even(columns["numbers"])}

    def truth(self, columns: Mapping[str, Any]) -> str:
        """The count as text."""
        return str(columns["answer"])

    def gold(self, columns: Mapping[str, Any]) -> str:
        """The count and nothing else."""
        return str(columns["answer"])

    def distance_reward(self, answer: int | None, truth: int) -> float:
        """-|answer - truth| / 11, and -1 from a distance of 11 on or where no integer was read."""
        return -1.0 if answer is None else -min(abs(answer - truth), BOUND) / BOUND

    def score(self, columns: Mapping[str, Any], text: str) -> Score:
        """The distance, whether it is 0, and whether an integer was read."""
        answer, truth = read(text), columns["answer"]
        correct, valid = float(answer == truth), float(answer is not None)
        return Score(
            rewards=self.terms(self.distance_reward(answer, truth), correct, valid),
            metrics={"answer_accuracy": correct, "format_valid": valid},
            prediction=NO_ANSWER if answer is None else str(answer),
        )

    def terms(self, distance: float, correct: float, valid: float) -> dict[str, float]:
        """The rewards of this form."""
        return {"distance": distance, "exact": correct, "format": valid}

    def near_misses(self, columns: Mapping[str, Any]) -> Mapping[str, str]:
        """Off by one or far, decorated, repeated, in words, or not there."""
        answer = columns["answer"]
        return {
            "off by one": str(answer + 1 if answer < NUMBERS_PER_PROBLEM else answer - 1),
            "a wild guess": str(answer + 18),
            "negative": str(-answer - 1),
            "with a word": f"Answer: {answer}",
            "with a full stop": f"{answer}.",
            "twice": f"{answer} {answer}",
            "with a leading zero": f"0{answer}",
            "nothing": "",
        }

    def blind_answers(self, columns: Mapping[str, Any]) -> Mapping[str, str]:
        """Every constant count, two wild ones, and texts that are no integer."""
        del columns
        counts = {f"always {k}": str(k) for k in range(NUMBERS_PER_PROBLEM + 1)}
        return {**counts, "always 24": "24", "always -18": "-18", "a word": "five", "nothing": ""}

    def control_problems(self) -> list[Problem]:
        """k twos, then 10 - k ones, for k = 0..10."""
        columns = [
            {"numbers": numbers, "answer": count_even(numbers), "task_version": self.version}
            for numbers in twos_and_ones()
        ]
        return [self.problem(index, row) for index, row in enumerate(columns)]


class IntegerCountDistance(IntegerCount):
    """The first form: an unbounded distance, and -11 for a text that is no integer."""

    name: ClassVar[str] = "integer-count-distance"
    version: ClassVar[str] = "integer-count-distance-v1"
    summary: ClassVar[str] = "the same, rewarded by an unbounded distance with -11 for no integer (legacy)"
    rewards: ClassVar[tuple[Reward, ...]] = (Reward("distance", 1.0, low=None, high=0.0),)
    illegal: ClassVar[float] = ILLEGAL

    def distance_reward(self, answer: int | None, truth: int) -> float:
        """-|answer - truth|, or what a text that is no integer earns."""
        return self.illegal if answer is None else -float(abs(answer - truth))

    def terms(self, distance: float, correct: float, valid: float) -> dict[str, float]:
        """The distance alone."""
        del correct, valid
        return {"distance": distance}


class IntegerCountOutlier(IntegerCountDistance):
    """The second form: -114514 for a text that is no integer."""

    name: ClassVar[str] = "integer-count-outlier"
    version: ClassVar[str] = "integer-count-outlier-v1"
    summary: ClassVar[str] = "the same with -114514 for no integer (legacy)"
    illegal: ClassVar[float] = OUTLIER


TASK = IntegerCount()
DISTANCE = IntegerCountDistance()
OUTLIER_TASK = IntegerCountOutlier()
