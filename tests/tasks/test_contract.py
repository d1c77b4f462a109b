"""What every task owes, checked over the tuple of tasks."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.rewards import full_reward, weighted_reward
from evenhand.tasks import TASKS, task_named

every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)


def earned(task, columns, text):
    weights = {reward.name: reward.weight for reward in task.rewards}
    return weighted_reward(task.score(columns, text).rewards, weights)


@every_task
def test_gold_earns_the_full_reward_on_every_dev_problem(task):
    for columns in task.draw("dev"):
        assert earned(task, columns, task.gold(columns)) == pytest.approx(full_reward(task))


@every_task
def test_near_misses_earn_less_than_gold(task):
    for columns in task.draw("dev"):
        for fault, text in task.near_misses(columns).items():
            assert earned(task, columns, text) < full_reward(task), fault


@every_task
def test_labels_equal_those_worked_out_from_the_question(task):
    for split in task.splits:
        for columns in task.draw(split):
            again = task.recompute(columns)
            assert {key: columns[key] for key in again} == again


@every_task
def test_columns_are_complete_and_do_not_stand_in_the_prompt(task):
    for columns in task.draw("dev"):
        assert set(task.columns) == set(columns)
        assert columns["task_version"] == task.version
        assert task.version not in str(task.prompt(columns))


@every_task
def test_a_fresh_problem_is_one_of_the_task_and_depends_on_the_generator_alone(task):
    columns = task.fresh(random.Random(7))
    assert columns == task.fresh(random.Random(7))
    assert columns.keys() == task.draw("dev")[0].keys()
    assert {key: columns[key] for key in task.recompute(columns)} == task.recompute(columns)
    assert earned(task, columns, task.gold(columns)) == pytest.approx(full_reward(task))


@every_task
def test_blind_answers_have_the_same_names_for_every_problem(task):
    first, *others = task.draw("dev")
    assert all(task.blind_answers(columns).keys() == task.blind_answers(first).keys() for columns in others)


@every_task
def test_rewards_and_metrics_are_those_declared(task):
    columns = task.draw("dev")[0]
    score = task.score(columns, "whatever")
    assert tuple(score.rewards) == tuple(reward.name for reward in task.rewards)
    assert set(score.metrics) == set(task.metrics)
    assert task.goal in task.metrics


@every_task
@given(text=st.text())
def test_no_text_makes_scoring_raise(task, text):
    task.score(task.draw("dev")[0], text)


@every_task
def test_spans_lie_in_the_text_and_do_not_overlap(task):
    for columns in task.draw("dev")[:10]:
        for text in (task.gold(columns), *task.near_misses(columns).values()):
            spans = task.spans(columns, text)
            if spans is None:
                continue
            edges = [edge for span in spans for edge in (span.start, span.end)]
            assert edges == sorted(edges)
            assert not edges or edges[-1] <= len(text)


@every_task
def test_drawing_twice_gives_the_same_problems(task):
    assert task.draw("dev") == task.draw("dev")


def test_an_unknown_task_is_refused_with_a_near_match():
    with pytest.raises(Exception, match="stepwise-parity"):
        task_named("stepwise-party")
