"""What one very bad reward does to its group, under each scaling, and where the safe bound lies."""

import pytest

from evenhand.preflight.outlier import COMFORTABLE, FLAT_BELOW, SCALES, OutlierGroup, safe_bound


@pytest.mark.parametrize("scale", SCALES)
def test_an_outlier_flattens_right_and_wrong_under_every_scaling(scale):
    assert OutlierGroup(-114514, 0, -3.6, 8).relative_gap(scale) < FLAT_BELOW / 100


@pytest.mark.parametrize("scale", SCALES)
def test_the_reference_s_bounded_rewards_leave_them_apart(scale):
    assert OutlierGroup(0.0, 2.5, 1.0, 8).relative_gap(scale) > 0.5


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("scale", SCALES)
def test_the_safe_bound_is_where_right_and_wrong_are_comfortably_apart(scale, size):
    bound = safe_bound(0.0, -3.6, size, scale)
    assert OutlierGroup(bound, 0.0, -3.6, size).relative_gap(scale) == pytest.approx(COMFORTABLE, rel=1e-3)
    assert OutlierGroup(bound * 4, 0.0, -3.6, size).relative_gap(scale) < COMFORTABLE


def test_the_gap_under_group_scaling_is_that_of_the_seven_legal_ones():
    group = OutlierGroup(-114514, 0, -6, 8)
    assert group.advantages("group")[0] == pytest.approx(-2.4749, abs=1e-4)
    assert group.gap("group") == pytest.approx(1.5e-4, abs=1e-5)
