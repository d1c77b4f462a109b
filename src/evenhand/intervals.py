"""Intervals beside rates: 95 %, from SciPy. SciPy is loaded at the first call: it takes half a second."""

import math
from collections.abc import Sequence

CONFIDENCE = 0.95


def rate_interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the mean of per-problem values in 0..1.

    Wilson's score interval for values that are all 0 or 1 (E. B. Wilson, 1927), which holds up near 0 % and 100 %.
    For shares, Student's interval of the mean, cut to 0..1. (0, 1) where there are no values.
    """
    from scipy import stats  # noqa: PLC0415 - heavy, and most commands need no interval

    count = len(values)
    if count == 0:
        return 0.0, 1.0
    if all(value in (0.0, 1.0) for value in values):
        interval = stats.binomtest(round(sum(values)), count).proportion_ci(CONFIDENCE, method="wilson")
        return float(interval.low), float(interval.high)
    if count == 1:
        return 0.0, 1.0  # one value says nothing about spread
    mean = math.fsum(values) / count
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * deviation / math.sqrt(count)
    return max(0.0, mean - half), min(1.0, mean + half)
