"""The form of gold texts is learned from them alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.preflight.answer_space import learn
from evenhand.tasks import task_named

TASK = task_named("stepwise-parity")
ROWS = TASK.draw("dev")


@pytest.fixture(scope="module")
def space():
    return learn([TASK.prompt(row)[-1]["content"] for row in ROWS], [TASK.gold(row) for row in ROWS])


def test_lines_slots_and_constants_of_stepwise_parity(space):
    items, answer = space.kinds
    assert (items.per_number, set(items.options("choice"))) == (True, {"even", "odd"})
    assert (answer.per_number, answer.times) == (False, 1)
    assert set(answer.options("computed")) == {str(k) for k in range(11)}


def test_a_filled_form_copies_the_numbers_and_knows_nothing_else(space):
    fillings = space.blind_fillings()["'odd' everywhere, number 0"]
    assert space.write("Numbers: [3, 8, 8]", fillings) == "3: odd\n8: odd\n8: odd\nAnswer: 0"
    joined = space.blind_fillings()["'even odd' everywhere, number 5"]
    assert space.write("Numbers: [3, 8]", joined) == "3: even odd\n8: even odd\nAnswer: 5"


@pytest.mark.parametrize(
    ("golds", "constants"),
    [
        ([str(i % 3) for i in range(12)], {"0", "1", "2"}),
        ([f"<answer>{'ABCD'[i % 4]}</answer>" for i in range(12)], set("ABCD")),
        ([f"The answer is {i % 2}." for i in range(12)], {"0", "1"}),
        (["-3.5", "2.25"] * 6, {"-3.5", "2.25"}),
    ],
)
def test_short_answers_give_their_values(golds, constants):
    assert set(learn(["?"] * len(golds), golds).constants()) == constants


def test_prose_has_no_form():
    golds = [" ".join(chr(97 + (i * j) % 26) * 3 for j in range(i + 2)) for i in range(12)]
    assert learn(["?"] * 12, golds) is None


@given(st.lists(st.text(max_size=40), min_size=1, max_size=8))
def test_no_text_makes_it_raise(golds):
    space = learn(["1 2 3"] * len(golds), golds)
    if space is not None:
        assert all(isinstance(space.write("1 2", filling), str) for filling in space.blind_fillings().values())
