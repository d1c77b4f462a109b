"""Trends and drops are told from noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evenhand.diagnosis.history import Series
from evenhand.diagnosis.rules.peak_then_collapse import collapse_of
from evenhand.diagnosis.statistics import binned, drop_of, paired_z, share_difference_z, trend_of


def series(values):
    return Series(np.arange(1.0, len(values) + 1), np.array(values, dtype=float))


@given(st.lists(st.floats(-5, 5).map(lambda value: round(value, 1)), min_size=8, max_size=60))
def test_the_trend_is_kendall_s_and_the_slope_theil_and_sen_s(values):
    trend = trend_of(series(values))
    if len(set(values)) == 1:
        assert trend.z == 0
        return
    statistic, _ = stats.kendalltau(np.arange(len(values)), values)
    assert np.sign(round(trend.z, 9)) in {np.sign(round(statistic, 9)), 0}
    slope = stats.theilslopes(values, np.arange(len(values))).slope
    assert trend.change == pytest.approx(slope * (len(values) - 1), abs=1e-9)


def test_seven_rows_are_too_few_for_a_trend():
    assert trend_of(series(range(7))) is None
    assert trend_of(series(range(8))).rises


def test_noise_is_rarely_called_a_trend():
    generator = np.random.default_rng(0)
    called = sum(abs(trend_of(series(generator.normal(size=100))).z) >= 3 for _ in range(1000))
    assert called <= 8  # 2.7 are expected


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_noise_is_not_called_a_fall(correlation):
    generator = np.random.default_rng(1)
    called = 0
    for _ in range(1000):
        values = [generator.normal()]
        for _ in range(99):
            values.append(correlation * values[-1] + generator.normal())
        called += collapse_of(series(values)) is not None
    assert called <= 3


def test_a_fall_has_its_peak_and_its_onset():
    values = [*np.linspace(0, 1, 50), *np.linspace(1, 0, 10), *[0.0] * 40]
    noisy = np.array(values) + np.random.default_rng(2).normal(0, 0.03, 100)
    drop = drop_of(series(noisy))
    assert 48 <= drop.peak_step <= 56
    assert drop.peak_step < drop.onset <= 62
    assert drop.z > 20


def test_a_long_series_is_averaged_into_bins():
    long = binned(series(np.arange(100_000)))
    assert len(long) == 200
    assert long.values.mean() == pytest.approx(49_999.5)


def test_the_reference_s_last_evaluations_differ_within_noise():
    assert abs(share_difference_z(36 / 50, 32 / 50, 50)) < 1.96


def test_a_paired_difference_is_seen_more_sharply():
    first = np.array([1.0] * 30 + [0.0] * 20)
    second = np.array([1.0] * 18 + [0.0] * 32)
    assert paired_z(first, second) < share_difference_z(0.6, 0.36, 50) < 0
    assert paired_z(first, first) == 0
