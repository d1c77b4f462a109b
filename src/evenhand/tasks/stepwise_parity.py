"""The task ``stepwise-parity``: label ten integers line by line, then count the even ones.

The parser is strict, since whatever it forgives is what training will produce: only whole lines count, and every
other line takes up a position, so that text before the answer shifts everything behind it.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from evenhand.records import NO_ANSWER, Message, Problem, Score
from evenhand.tasks.parity import (
    NUMBERS_PER_PROBLEM,
    count_even,
    draw_problem,
    draw_problems,
    parity,
    twos_and_ones,
)
from evenhand.tasks.task import Reward, Span, Split, Task

SYSTEM_PROMPT = """\
Classify every number in the input list as even or odd, then count the even numbers. Copy every input number once, \
in the same order. Keep repeated numbers. Write one line per number using exactly 'number: even' or 'number: odd'. \
Finish with exactly 'Answer: count'. Do not add any other text.
Example for [3, 8, 8]:
3: odd
8: even
8: even
Answer: 2"""

# Plain ASCII integers without leading zeros or "-0", at most nine digits: `02`, other scripts' digits and
# numbers too long for int() are no integers here. [ \t] and not \s, which also matches exotic separators.
INTEGER = r"(0|-?[1-9][0-9]{0,8})"
ITEM_LINE = re.compile(rf"{INTEGER}[ \t]*:[ \t]*(even|odd)", re.ASCII | re.IGNORECASE)
ANSWER_LINE = re.compile(rf"answer[ \t]*:[ \t]*{INTEGER}", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Line:
    """One non-empty line of a completion, with where it stands in the text."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What the parser saw.

    ``entries`` has one element per line that takes a position: (number, label), or None for a line that is no item.
    ``answer`` is None unless exactly one answer line exists and stands last.
    """

    entries: tuple[tuple[int, str] | None, ...]
    answer: int | None

    def evens(self) -> int:
        """The completion's own count of ``even`` lines."""
        return sum(entry is not None and entry[1] == "even" for entry in self.entries)


def lines_of(text: str) -> list[Line]:
    """The non-empty lines, stripped, with their character positions in ``text``."""
    lines, start = [], 0
    for raw in text.split("\n"):
        stripped = raw.strip()
        if stripped:
            begin = start + raw.index(stripped)
            lines.append(Line(stripped, begin, begin + len(stripped)))
        start += len(raw) + 1
    return lines


def read(text: str) -> Reading:
    """Read a completion. Never raises."""
    lines = [line.text for line in lines_of(text)]
    answers = [match for line in lines if (match := ANSWER_LINE.fullmatch(line))]
    if lines and ANSWER_LINE.fullmatch(lines[-1]):
        lines.pop()
        answer = int(answers[0][1]) if len(answers) == 1 else None
    else:
        answer = None
    return Reading(tuple(read_entry(line) for line in lines), answer)


def read_entry(line: str) -> tuple[int, str] | None:
    """(number, label) of an item line, None of any other."""
    match = ITEM_LINE.fullmatch(line)
    return (int(match[1]), match[2].lower()) if match else None


class StepwiseParity(Task):
    """Ten integers, each labelled on a line of its own, then the count of the even ones."""

    name: ClassVar[str] = "stepwise-parity"
    version: ClassVar[str] = "stepwise-parity-v1"
    summary: ClassVar[str] = "label ten integers as even or odd, line by line, then count the even ones"
    columns: ClassVar[tuple[str, ...]] = ("numbers", "answer", "task_version")
    splits: ClassVar[Mapping[str, Split]] = {
        "train": Split(2000, 42),
        "test": Split(1000, 43),
        "dev": Split(50, 44),
    }
    # The consistency term pays for honest counting even where a label is wrong: it weighs half, never stands alone.
    rewards: ClassVar[tuple[Reward, ...]] = (
        Reward("item", 1.0),
        Reward("answer", 1.0),
        Reward("consistency", 0.5),
    )
    metrics: ClassVar[tuple[str, ...]] = (
        "answer_accuracy",
        "item_accuracy",
        "fully_correct",
        "format_valid",
        "count_consistent",
    )
    goal: ClassVar[str] = "fully_correct"
    max_completion_length: ClassVar[int] = 192

    def draw(self, split: str) -> list[dict[str, Any]]:
        """``numbers``, ``answer`` and ``task_version`` of every problem."""
        spec = self.splits[split]
        return [{**columns, "task_version": self.version} for columns in draw_problems(spec.size, spec.seed)]

    def fresh(self, generator: random.Random) -> dict[str, Any]:
        """One more problem, drawn as those of the splits are."""
        return {**draw_problem(generator), "task_version": self.version}

    def prompt(self, columns: Mapping[str, Any]) -> tuple[Message, ...]:
        """The system prompt, then the list."""
        question = f"Numbers: {list(columns['numbers'])}\nClassify each number, then give the even count."
        return ({"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": question})

    def recompute(self, columns: Mapping[str, Any]) -> Mapping[str, Any]:
        """The count of even numbers."""
        return {"answer": count_even(columns["numbers"])}

    def truth(self, columns: Mapping[str, Any]) -> str:
        """The count as text."""
        return str(columns["answer"])

    def gold(self, columns: Mapping[str, Any]) -> str:
        """One line per number, then the answer line."""
        return write(columns["numbers"], [parity(number) for number in columns["numbers"]], columns["answer"])

    def score(self, columns: Mapping[str, Any], text: str) -> Score:
        """Item share, answer and consistency, and the five metrics that the reference reports."""
        numbers, truth = columns["numbers"], columns["answer"]
        reading = read(text)
        copied = [entry is not None and entry[0] == n for entry, n in zip(reading.entries, numbers, strict=False)]
        right = [
            same and entry is not None and entry[1] == parity(entry[0])
            for same, entry in zip(copied, reading.entries, strict=False)
        ]
        complete = len(reading.entries) == len(numbers) and all(copied)
        item = sum(right) / len(numbers)
        valid = complete and reading.answer is not None and 0 <= reading.answer <= len(numbers)
        consistent = valid and reading.answer == reading.evens()
        correct = reading.answer == truth
        return Score(
            rewards={"item": item, "answer": float(correct), "consistency": float(consistent)},
            metrics={
                "answer_accuracy": float(correct),
                "item_accuracy": item,
                "fully_correct": float(valid and item == 1.0 and correct),
                "format_valid": float(valid),
                "count_consistent": float(consistent),
            },
            prediction=NO_ANSWER if reading.answer is None else str(reading.answer),
        )

    def near_misses(self, columns: Mapping[str, Any]) -> Mapping[str, str]:
        """One fault each: a flipped label, a wrong count, a missing, foreign, moved, extra or repeated line."""
        numbers, answer = list(columns["numbers"]), columns["answer"]
        labels = [parity(number) for number in numbers]
        flipped = ["odd" if labels[0] == "even" else "even", *labels[1:]]
        wrong = answer - 1 if answer else 1
        gold = self.gold(columns)
        return {
            "first label flipped": write(numbers, flipped, answer),
            "first label flipped, counted as labelled": write(numbers, flipped, flipped.count("even")),
            "count off by one": write(numbers, labels, wrong),
            "first line missing": write(numbers[1:], labels[1:], answer),
            "first number replaced": write([numbers[0] + 2, *numbers[1:]], labels, answer),
            "an extra line": write([*numbers, numbers[-1]], [*labels, labels[-1]], answer),
            "answer line only": f"Answer: {answer}",
            "answer line missing": gold.rsplit("\n", 1)[0],
            "answer line twice": f"{gold}\nAnswer: {answer}",
            "text before": f"Sure:\n{gold}",
            "text behind": f"{gold}\nDone.",
            "answer line decorated": f"{gold.rsplit(chr(10), 1)[0]}\n**Answer: {answer}**",
        }

    def blind_answers(self, columns: Mapping[str, Any]) -> Mapping[str, str]:
        """Every constant count with: all lines even, all odd, alternating, or no lines at all."""
        numbers = list(columns["numbers"])
        families = {
            "all lines even": ["even"] * len(numbers),
            "all lines odd": ["odd"] * len(numbers),
            "lines alternating": [("even", "odd")[i % 2] for i in range(len(numbers))],
            "both labels on every line": ["even odd"] * len(numbers),
        }
        counts = range(NUMBERS_PER_PROBLEM + 1)
        texts = {f"{name}, Answer: {k}": write(numbers, labels, k) for name, labels in families.items() for k in counts}
        return texts | {f"only Answer: {k}": f"Answer: {k}" for k in counts}

    def control_problems(self) -> list[Problem]:
        """k twos, then 10 - k ones, for k = 0..10."""
        columns = [
            {"numbers": numbers, "answer": count_even(numbers), "task_version": self.version}
            for numbers in twos_and_ones()
        ]
        return [self.problem(index, row) for index, row in enumerate(columns)]

    def spans(self, columns: Mapping[str, Any], text: str) -> Sequence[Span]:
        """A span for each line: an item line earns its item, the one answer line answer and consistency."""
        lines = lines_of(text)
        if not lines:
            return [Span(0, len(text), None, {})] if text else []
        parts = self._parts_of_answer(columns, text, lines)
        ends = [after.start for after in lines[1:]] + [len(text)]
        spans = [Span(line.start, end, *part) for line, end, part in zip(lines, ends, parts, strict=True)]
        blank = lines[0].start
        return [Span(0, blank, None, {}), *spans] if blank else spans

    def _parts_of_answer(
        self, columns: Mapping[str, Any], text: str, lines: Sequence[Line]
    ) -> list[tuple[str | None, dict[str, float]]]:
        """Name and rewards of each line; a line too many has no name, nor has an answer that does not count."""
        score, numbers = self.score(columns, text), columns["numbers"]
        parts: list[tuple[str | None, dict[str, float]]] = []
        for position, line in enumerate(lines):
            if position == len(lines) - 1 and ANSWER_LINE.fullmatch(line.text):
                earned = {name: score.rewards[name] for name in ("answer", "consistency")}
                parts.append(("answer" if read(text).answer is not None else None, earned))
                continue
            entry = read_entry(line.text)
            asked = position < len(numbers)
            right = asked and entry is not None and entry == (numbers[position], parity(numbers[position]))
            parts.append((f"line {position + 1}" if asked else None, {"item": float(right)}))
        return parts


def write(numbers: Sequence[int], labels: Sequence[str], answer: int) -> str:
    """The text of a completion: item lines, then the answer line."""
    items = [f"{number}: {label}" for number, label in zip(numbers, labels, strict=True)]
    return "\n".join([*items, f"Answer: {answer}"])


TASK = StepwiseParity()
