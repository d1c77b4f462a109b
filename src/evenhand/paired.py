"""Two answers to the same problems, compared problem by problem.

Two checkpoints that are scored on the same problems share those problems' difficulty, so their difference is known far
better than two separate intervals suggest. A difference is called real only where a paired test says so.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 9999  # scipy's own default; the p-value then resolves to 1/10000
SEED = 0  # the same evaluations always give the same interval


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """``second - first`` on the same problems.

    Attributes:
        value: Difference of the means.
        interval: 95 % (low, high) of it.
        p: Probability of a difference at least this large if neither were better.
        better: Problems on which the second scores higher.
        worse: Problems on which it scores lower.
        method: How interval and ``p`` were worked out.
    """

    value: float
    interval: tuple[float, float]
    p: float
    better: int
    worse: int
    n: int
    method: str

    @property
    def beyond_noise(self) -> bool:
        """Whether the difference is larger than chance explains, at 5 %."""
        return self.p < 1 - CONFIDENCE

    def to_json(self) -> dict[str, Any]:
        """The field names are the keys, and ``beyond_noise``."""
        return {**asdict(self), "interval": list(self.interval), "beyond_noise": self.beyond_noise}


def paired_difference(first: Sequence[float], second: Sequence[float]) -> PairedDifference:
    """Compare two scores per problem, given in the same order of problems.

    Right-or-wrong scores are compared by the exact McNemar test (a binomial test on the problems where the two differ)
    and Newcombe's interval; shares by a sign-flip permutation test and a bootstrap over problems.

    Raises:
        ValueError: the lengths differ, or there are no problems.
    """
    if len(first) != len(second) or not first:
        raise ValueError(f"{len(first)} and {len(second)} scores cannot be paired")
    before, after = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    difference = after - before
    better, worse = int((difference > 0).sum()), int((difference < 0).sum())
    if set(np.unique(np.concatenate([before, after]))) <= {0.0, 1.0}:
        both = int(((before == 1) & (after == 1)).sum())
        interval = newcombe_interval(both, better, worse, len(difference))
        p = stats.binomtest(better, better + worse).pvalue if better + worse else 1.0
        method = "exact McNemar test, Newcombe interval"
    else:
        interval, p = resampled(difference)
        method = "paired permutation test, bootstrap interval"
    return PairedDifference(float(difference.mean()), interval, float(p), better, worse, len(difference), method)


def newcombe_interval(both: int, better: int, worse: int, n: int) -> tuple[float, float]:
    """Interval of a difference of two paired proportions.

    Source: R. G. Newcombe, Improved confidence intervals for the difference between binomial proportions based on
    paired data, Statistics in Medicine 17 (1998), 2635-2650, method 10: the Wilson limits of both proportions, joined
    with the correlation phi of the two, whose numerator is corrected for continuity where it is positive.

    Args:
        both: Problems right in both.
        better: Problems right only in the second.
        worse: Problems right only in the first.
        n: All problems.
    """
    second, first = both + better, both + worse
    neither = n - both - better - worse
    low_second, high_second = wilson(second, n)
    low_first, high_first = wilson(first, n)
    phi = correlation(both, better, worse, neither)
    a, b = second / n, first / n

    def width(up: float, down: float) -> float:
        return math.sqrt(max(up * up - 2 * phi * up * down + down * down, 0.0))

    value = a - b
    return (value - width(a - low_second, high_first - b), value + width(high_second - a, b - low_first))


def correlation(both: int, better: int, worse: int, neither: int) -> float:
    """Phi of a two-by-two table, corrected as in Newcombe's method 10; 0 where a margin is empty."""
    margins = (both + better) * (worse + neither) * (both + worse) * (better + neither)
    if margins == 0:
        return 0.0
    numerator = float(both * neither - better * worse)
    if numerator > 0:
        numerator = max(numerator - (both + better + worse + neither) / 2, 0.0)
    return numerator / math.sqrt(margins)


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Wilson's score interval of a proportion."""
    limits = stats.binomtest(successes, n).proportion_ci(CONFIDENCE, method="wilson")
    return float(limits.low), float(limits.high)


def resampled(difference: "np.ndarray[Any, np.dtype[np.float64]]") -> tuple[tuple[float, float], float]:
    """(interval, p) of a mean difference, without assuming its shape."""
    if np.ptp(difference) == 0:  # every problem moved alike: nothing to resample
        value = float(difference[0])
        return (value, value), 1.0 if value == 0 else float(2.0 ** (1 - len(difference)))
    generator = np.random.default_rng(SEED)
    interval = stats.bootstrap(
        (difference,), np.mean, n_resamples=RESAMPLES, confidence_level=CONFIDENCE, method="percentile", rng=generator
    ).confidence_interval
    test = stats.permutation_test(
        (difference,), np.mean, permutation_type="samples", n_resamples=RESAMPLES, vectorized=True, rng=generator
    )
    return (float(interval.low), float(interval.high)), float(test.pvalue)
