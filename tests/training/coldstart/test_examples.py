"""Which problems a cold start shows: never one that stands in a split, always with the gold text of its own labels."""

import json
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.config import ColdStartPlan, RunConfig
from evenhand.errors import ConfigurationError, DataError
from evenhand.models import resolve
from evenhand.models.loading import load_tokenizer
from evenhand.tasks.integer_count import TASK as INTEGER_COUNT
from evenhand.tasks.stepwise_parity import TASK, StepwiseParity
from evenhand.training.coldstart.examples import (
    asked,
    check_completions,
    check_context,
    columns_of,
    draw,
    encode,
    problems_to_show,
    read_problems,
    refuse_shared,
    withheld,
)

FRESH = [7, 7, 7, 7, 7, 7, 7, 7, 7, 98]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def forbidden(data):
    return withheld(TASK, data)


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(resolve("embedded"))


def configuration(splits, **plan):
    return RunConfig(data=splits, coldstart=ColdStartPlan(**plan))


def written(folder, *rows):
    path = folder / "examples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_every_split_and_every_control_problem_is_withheld(forbidden):
    assert {*forbidden.values()} == {"split train", "split dev", "split test", "control problems"}
    assert forbidden[asked(TASK.problem(0, TASK.draw("test")[7]))] == "split test"


def test_drawn_problems_differ_from_each_other_and_from_every_split(forbidden):
    problems = draw(TASK, 200, 1, forbidden)
    questions = {asked(problem) for problem in problems}
    assert len(questions) == 200
    assert not questions & forbidden.keys()
    assert [problem.index for problem in problems] == list(range(200))


def test_the_seed_alone_decides_what_is_drawn(forbidden):
    assert draw(TASK, 20, 1, forbidden) == draw(TASK, 20, 1, forbidden)
    assert draw(TASK, 20, 1, forbidden) != draw(TASK, 20, 2, forbidden)


def test_a_problem_of_a_split_that_is_drawn_is_drawn_again(forbidden):
    class Forgetful(StepwiseParity):
        def fresh(self, generator):
            return TASK.draw("train")[0] if generator.random() < 0.5 else super().fresh(generator)

    questions = {asked(problem) for problem in draw(Forgetful(), 20, 1, forbidden)}
    assert not questions & forbidden.keys()


def test_a_task_that_runs_out_of_problems_says_how_many_there_were():
    class Small(StepwiseParity):
        def fresh(self, generator):
            return {**super().fresh(generator), "numbers": [generator.randint(1, 3)] * 10}

    with pytest.raises(ConfigurationError, match="no more than 3 fresh problems"):
        draw(Small(), 4, 1, {})


def test_a_task_that_draws_none_asks_for_a_file():
    class Fixed(StepwiseParity):
        def fresh(self, generator):
            return None

    with pytest.raises(ConfigurationError, match=r"coldstart\.data"):
        draw(Fixed(), 4, 1, {})


def test_examples_are_whole_batches(data):
    assert len(problems_to_show(configuration(data, examples=30, batch_size=8), TASK)) == 24


@pytest.mark.parametrize("examples", [1, 7])
def test_fewer_examples_than_a_batch_are_refused(data, examples):
    with pytest.raises(ConfigurationError, match="more than there are examples"):
        problems_to_show(configuration(data, examples=examples, batch_size=8), TASK)


# -- a file ----------------------------------------------------------------------------------------------------------


def test_labels_of_a_file_are_worked_out(tmp_path):
    (problem,) = read_problems(written(tmp_path, {"numbers": FRESH}), TASK)
    assert problem.columns == {"numbers": FRESH, "answer": 1, "task_version": TASK.version}


def test_a_file_is_shown_in_the_order_of_the_seed(tmp_path, data):
    rows = [{"numbers": [*FRESH[:-1], number]} for number in range(2, 34, 2)]
    path = written(tmp_path, *rows)
    first, again, other = (
        problems_to_show(configuration(data, batch_size=4, data=path, seed=seed), TASK) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert {asked(one) for one in first} == {asked(one) for one in other}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({}, "lacks the column 'numbers'"),
        ({"numbers": FRESH, "answer": 2}, "says answer = 2, and it is 1"),
        ({"numbers": FRESH, "task_version": "stepwise-parity-v0"}, "task_version"),
        ({"numbers": "7, 98"}, "is no problem of stepwise-parity"),
        ({"numbers": 7}, "is no problem of stepwise-parity"),
        ({"numbers": [1.5, 2.5]}, "does not earn the full reward"),
        ([1, 2], "is no JSON object"),
    ],
)
def test_a_row_that_is_no_problem_is_refused_with_its_line(tmp_path, row, says):
    path = written(tmp_path, {"numbers": FRESH}, row)
    with pytest.raises(DataError, match="line 2") as caught:
        read_problems(path, TASK)
    assert says in str(caught.value)


@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_no_line_raises_anything_but_a_sentence(line):
    with suppress(DataError):
        columns_of(line, TASK, "line 1")


@given(st.recursive(st.none() | st.integers() | st.text() | st.floats(), st.lists) | st.integers())
def test_no_value_raises_anything_but_a_sentence(value):
    for task in (TASK, INTEGER_COUNT):
        with suppress(DataError):
            columns_of(json.dumps({"numbers": value}), task, "line 1")


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_problems(tmp_path / "absent.jsonl", TASK)
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="no UTF-8"):
        read_problems(tmp_path / "bytes.jsonl", TASK)
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="hold no problem"):
        read_problems(tmp_path / "empty.jsonl", TASK)
    (tmp_path / "deep.jsonl").write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(DataError, match="line 1 is no JSON"):
        read_problems(tmp_path / "deep.jsonl", TASK)


def test_a_file_that_begins_with_a_byte_order_mark_is_read(tmp_path):
    (tmp_path / "marked.jsonl").write_text(json.dumps({"numbers": FRESH}), encoding="utf-8-sig")
    assert len(read_problems(tmp_path / "marked.jsonl", TASK)) == 1


def test_a_problem_that_stands_twice_is_refused_with_both_lines(tmp_path, data):
    path = written(tmp_path, {"numbers": FRESH}, {"numbers": [2] * 10}, {"numbers": FRESH})
    with pytest.raises(DataError, match="one problem twice, in lines 1 and 3"):
        problems_to_show(configuration(data, batch_size=1, data=path), TASK)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_file_that_shares_problems_with_a_split_is_refused(tmp_path, forbidden, split):
    rows = [{"numbers": row["numbers"]} for row in TASK.draw(split)[:2]]
    path = written(tmp_path, {"numbers": FRESH}, *rows)
    with pytest.raises(DataError, match=rf"2 with the split {split}, first in line 2"):
        refuse_shared(path, read_problems(path, TASK), forbidden)


def test_every_split_that_is_shared_is_named(tmp_path, forbidden):
    path = written(
        tmp_path, *({"numbers": TASK.draw(split)[0]["numbers"]} for split in TASK.splits), {"numbers": [2] * 10}
    )
    with pytest.raises(DataError) as caught:
        refuse_shared(path, read_problems(path, TASK), forbidden)
    assert all(name in caught.value.message for name in ("train", "dev", "test", "control problems"))


# -- tokens ----------------------------------------------------------------------------------------------------------


def test_an_example_is_the_prompt_with_thinking_off_and_the_gold_text_with_its_end(tokenizer):
    problem = TASK.problem(0, {"numbers": FRESH, "answer": 1, "task_version": TASK.version})
    (example,) = encode(TASK, [problem], tokenizer)
    assert tokenizer.decode(example.prompt).endswith("<think>\n\n</think>\n\n")
    assert tokenizer.decode(example.completion[:-1]) == TASK.gold(problem.columns)
    assert example.completion[-1] == tokenizer.eos_token_id


def test_examples_that_do_not_fit_are_refused(tokenizer):
    generator = random.Random(0)
    examples = encode(TASK, [TASK.problem(0, TASK.fresh(generator))], tokenizer)
    longest = len(examples[0].completion)
    check_completions(examples, longest)
    with pytest.raises(ConfigurationError, match="max_completion_length"):
        check_completions(examples, longest - 1)
    check_context(examples, None)
    with pytest.raises(ConfigurationError, match="context holds 100"):
        check_context(examples, 100)
