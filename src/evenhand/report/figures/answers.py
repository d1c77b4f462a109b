"""Answers in an order that reads well: numbers by size, then words, what could not be read last."""

from collections import Counter
from collections.abc import Iterable, Sequence

from evenhand.records import NO_ANSWER

MOST_ANSWERS = 20
OTHER = "other"
LONGEST_ANSWER = 14


def shown_answers(answers: Iterable[str], most: int = MOST_ANSWERS) -> list[str]:
    """The answers to give a row of their own: the most frequent ones, in order, then what is left out."""
    counts = Counter(answers)
    frequent = [answer for answer, _ in counts.most_common(most)]
    ordered = sorted(frequent, key=answer_order)
    return [*ordered, OTHER] if len(counts) > len(frequent) else ordered


def answer_order(answer: str) -> tuple[int, float, str]:
    """Sort key."""
    if answer == NO_ANSWER:
        return 2, 0.0, ""
    try:
        return 0, float(answer), answer
    except ValueError:
        return 1, 0.0, answer


def placed(answer: str, shown: Sequence[str]) -> str:
    """The row of an answer."""
    return answer if answer in shown else OTHER


def labelled(answer: str) -> str:
    """An answer short enough for an axis."""
    return answer if len(answer) <= LONGEST_ANSWER else f"{answer[: LONGEST_ANSWER - 1]}…"
