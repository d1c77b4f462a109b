"""The legacy task: what it reads, and how each of its forms pays."""

import pytest

from evenhand.tasks.integer_count import DISTANCE, OUTLIER_TASK, TASK, read
from evenhand.tasks.stepwise_parity import TASK as STEPWISE

SIX = {"numbers": [2, 4, 6, 8, 10, 12, 1, 3, 5, 7], "answer": 6, "task_version": TASK.version}


@pytest.mark.parametrize(("text", "answer"), [("6", 6), (" 6\n", 6), ("-18", -18), ("24", 24), ("0", 0)])
def test_a_completion_that_is_one_integer_is_read(text, answer):
    assert read(text) == answer


@pytest.mark.parametrize("text", ["", "06", "-0", "+6", "6.", "six", "6 6", "Answer: 6", "٦", "9" * 5000])
def test_anything_else_is_no_answer(text):
    assert read(text) is None


def test_problems_are_those_of_the_stepwise_task():
    assert [row["numbers"] for row in TASK.draw("dev")] == [row["numbers"] for row in STEPWISE.draw("dev")]


def test_always_saying_five_earns_what_the_reference_records():
    rewards = [TASK.score(columns, "5").rewards["distance"] for columns in TASK.draw("train")]
    assert sum(rewards) / len(rewards) == pytest.approx(-0.25209, abs=1e-5)


def test_the_companions_are_weighted_zero():
    assert [(reward.name, reward.weight) for reward in TASK.rewards] == [("distance", 1), ("exact", 0), ("format", 0)]


def test_a_wild_guess_earns_less_than_gibberish_in_the_first_form():
    assert DISTANCE.score(SIX, "24").rewards["distance"] == -18
    assert DISTANCE.score(SIX, "gibberish").rewards["distance"] == -11


def test_the_outlier_form_pays_its_penalty():
    assert OUTLIER_TASK.score(SIX, "").rewards == {"distance": -114514}


def test_the_bounded_form_never_pays_less_than_minus_one():
    assert TASK.score(SIX, "-999999").rewards["distance"] == TASK.score(SIX, "x").rewards["distance"] == -1
