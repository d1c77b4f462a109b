"""Reward functions share one score per completion; advantages are TRL's."""

import pytest

from evenhand.rewards import Grader, full_reward, group_advantages, text_of, weighted_reward
from evenhand.tasks.stepwise_parity import TASK

COLUMNS = {"numbers": [[2, 3, 2, 5]] * 2, "answer": [2, 2], "task_version": [TASK.version] * 2}
GOLD = "2: even\n3: odd\n2: even\n5: odd\nAnswer: 2"


def test_every_reward_function_reads_the_one_score_of_a_completion():
    grader = Grader(TASK)
    completions = [[{"role": "assistant", "content": GOLD}], [{"role": "assistant", "content": "Answer: 2"}]]
    values = {f.__name__: f(completions=completions, prompts=[], **COLUMNS) for f in grader.reward_functions()}
    assert values == {"item": [1.0, 0.0], "answer": [1.0, 1.0], "consistency": [1.0, 0.0]}
    assert grader.scored == 2


def test_another_list_of_completions_is_scored_anew():
    grader = Grader(TASK)
    item = grader.reward_functions()[0]
    assert item(completions=[GOLD, GOLD], **COLUMNS) == [1.0, 1.0]
    assert item(completions=["", ""], **COLUMNS) == [0.0, 0.0]


def test_readings_reach_trl_s_completions_table_once():
    logged = {}
    for function in Grader(TASK).reward_functions():
        function(
            completions=[GOLD, "x"],
            log_extra=lambda name, values: logged.setdefault(name, []).extend(values),
            **COLUMNS,
        )
    assert logged["prediction"] == ["2", "none"]
    assert [len(values) for values in logged.values()] == [2, 2, 2]


def test_messages_are_read_by_their_last_content():
    assert text_of([{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]) == "b"
    assert text_of([{"role": "assistant", "content": None}]) == ""
    assert text_of([]) == ""


def test_the_full_reward_is_two_and_a_half():
    assert full_reward(TASK) == 2.5
    assert weighted_reward({"item": 1.0, "answer": 0.0}, {"item": 1.0, "answer": 1.0}) == 1.0


def test_four_right_and_four_half_right_are_apart_as_the_reference_says():
    advantages = group_advantages([2.5] * 4 + [1.0] * 4, 8)
    assert advantages[0] == pytest.approx(0.935, abs=5e-4)
    assert advantages[-1] == pytest.approx(-0.935, abs=5e-4)


def test_one_outlier_flattens_its_group():
    advantages = group_advantages([-114514, -6, -5, -4, -3, -2, -1, 0], 8)
    assert advantages[0] == pytest.approx(-2.4749, abs=5e-5)
    assert advantages[1] == pytest.approx(0.35348, abs=1e-5)
    assert advantages[7] == pytest.approx(0.35363, abs=1e-5)


def test_scaling_by_batch_or_not_at_all():
    rewards = [0.0, 1.0, 10.0, 10.0]
    assert group_advantages(rewards, 2, "none") == [-0.5, 0.5, 0.0, 0.0]
    assert group_advantages(rewards, 2, "batch")[1] < group_advantages(rewards, 2, "group")[1]


@pytest.mark.parametrize("reward", [0.1, 0.7, 2.3])
@pytest.mark.parametrize("group_size", [3, 6, 8])
def test_equal_rewards_carry_exactly_nothing(reward, group_size):
    assert group_advantages([reward] * group_size, group_size) == [0.0] * group_size
