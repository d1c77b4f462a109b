"""Problems of the two parity tasks: ten integers, of which 0 to 10 are even."""

import random
from typing import Any

NUMBERS_PER_PROBLEM = 10


def draw_problems(size: int, seed: int) -> list[dict[str, Any]]:
    """Draw ``size`` problems from one generator.

    The answer is drawn first, so that the eleven counts are about equally frequent; drawing the numbers first would
    pile them up around five.
    """
    generator = random.Random(seed)
    return [draw_problem(generator) for _ in range(size)]


def draw_problem(generator: random.Random) -> dict[str, Any]:
    """One problem: ``numbers`` in 1..99 and ``answer``, how many of them are even."""
    answer = generator.randint(0, NUMBERS_PER_PROBLEM)
    numbers = [generator.randrange(2, 100, 2) for _ in range(answer)]
    numbers += [generator.randrange(1, 100, 2) for _ in range(NUMBERS_PER_PROBLEM - answer)]
    generator.shuffle(numbers)
    return {"numbers": numbers, "answer": answer}


def count_even(numbers: list[int]) -> int:
    """How many of ``numbers`` are even."""
    return sum(number % 2 == 0 for number in numbers)


def parity(number: int) -> str:
    """``even`` or ``odd``."""
    return "even" if number % 2 == 0 else "odd"


def twos_and_ones() -> list[list[int]]:
    """Eleven control lists: k twos, then 10 - k ones, for k = 0..10. An answer that ignores its input stands still."""
    return [[2] * k + [1] * (NUMBERS_PER_PROBLEM - k) for k in range(NUMBERS_PER_PROBLEM + 1)]
