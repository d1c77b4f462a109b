"""Paired comparisons: known figures, symmetry, and no claim where the data cannot carry one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evenhand.paired import newcombe_interval, paired_difference

RIGHT_OR_WRONG = st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 1.0])), min_size=1, max_size=60)


def test_newcombe_interval_gives_the_published_example() -> None:
    # Newcombe (1998), table III, first data set, method 10: 36, 12, 2, 0 of 50.
    assert newcombe_interval(36, 12, 2, 50) == pytest.approx((0.0569, 0.3404), abs=5e-5)


def test_right_or_wrong_uses_the_exact_mcnemar_test() -> None:
    first, second = [0.0] * 9 + [1.0] * 41, [1.0] * 8 + [0.0] * 1 + [1.0] * 39 + [0.0] * 2
    found = paired_difference(first, second)
    assert (found.better, found.worse) == (8, 2)
    assert found.p == pytest.approx(stats.binomtest(8, 10).pvalue)
    assert found.value == pytest.approx(0.12)
    assert not found.beyond_noise


def test_the_same_answers_differ_by_nothing() -> None:
    for scores in ([1.0, 0.0, 1.0], [0.5, 0.25, 1.0], [0.5], [1.0]):
        found = paired_difference(scores, scores)
        assert (found.value, found.p, found.beyond_noise) == (0.0, 1.0, False)


def test_shares_are_compared_without_assuming_their_shape() -> None:
    first = [0.5 + 0.01 * (i % 7) for i in range(50)]
    second = [value + 0.05 + 0.01 * (i % 3) for i, value in enumerate(first)]
    found = paired_difference(first, second)
    assert found.interval[0] <= found.value <= found.interval[1]
    assert found.beyond_noise
    assert "permutation" in found.method


def test_one_problem_is_never_enough() -> None:
    assert not paired_difference([0.0], [1.0]).beyond_noise
    assert not paired_difference([0.1], [0.9]).beyond_noise


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_difference([1.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_difference([], [])


@settings(max_examples=80, deadline=None)
@given(RIGHT_OR_WRONG)
def test_the_interval_holds_the_difference_and_turning_round_negates_it(pairs: list[tuple[float, float]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    there, back = paired_difference(first, second), paired_difference(second, first)
    assert -1 - 1e-9 <= there.interval[0] <= there.value + 1e-9
    assert there.value - 1e-9 <= there.interval[1] <= 1 + 1e-9
    assert back.value == pytest.approx(-there.value)
    assert back.interval == pytest.approx((-there.interval[1], -there.interval[0]))
    assert back.p == pytest.approx(there.p)
