"""Trends and drops, told apart from noise.

Written here rather than taken from ``scipy.stats``, whose import alone takes longer than a diagnosis may. A long log
is first averaged into at most 200 bins: the rows of a run are not independent, and no trend worth a finding needs more.
"""

import math
from dataclasses import dataclass

import numpy as np

from evenhand.diagnosis.history import Floats, Series

MOST_BINS = 200
FEWEST_ROWS = 8  # below this not even a strictly rising series reaches |z| = 3

# |z| from which a trend is called. Two-sided false alarm on independent noise: 0.27 %; on noise in which a row repeats
# a third of its predecessor (correlation 0.33) about 3 %.
TREND_Z = 3.0
# |z| below which a series is called flat: a true trend of that size is missed once in twenty.
FLAT_Z = 1.96
# A drop is measured from the highest of many windows, so noise alone reaches z of 3 to 4. At 6, noise of 100 rows gave
# no alarm in 1,000 runs, and one in 1,000 where neighbouring rows have a correlation of 0.5 (tests/diagnosis).
DROP_Z = 6.0


@dataclass(frozen=True, slots=True)
class Trend:
    """A monotone trend: Mann and Kendall's z, and the change from first to last by Theil and Sen's slope."""

    z: float
    start: float
    change: float
    noise: float  # standard deviation of one row around its neighbours

    @property
    def rises(self) -> bool:
        """Beyond noise."""
        return self.z >= TREND_Z

    @property
    def falls(self) -> bool:
        """Beyond noise."""
        return self.z <= -TREND_Z

    @property
    def flat(self) -> bool:
        """No trend that noise would not make by itself."""
        return abs(self.z) < FLAT_Z


@dataclass(frozen=True, slots=True)
class Drop:
    """A fall from the highest smoothed level to the last one."""

    peak: float
    peak_step: float
    last: float
    onset: float  # first step from which the level stays below the peak beyond noise
    z: float
    floor: float  # lowest level before the peak


def binned(series: Series, bins: int = MOST_BINS) -> Series:
    """Means of equal stretches, so that no more than ``bins`` remain."""
    if len(series) <= bins:
        return series
    edges = np.linspace(0, len(series), bins + 1).astype(int)
    counts = np.diff(edges)
    return Series(
        np.add.reduceat(series.steps, edges[:-1]) / counts, np.add.reduceat(series.values, edges[:-1]) / counts
    )


def spread_of(differences: Floats) -> float:
    """Standard deviation from the median of squares, which a few large ones do not move.

    0.4549 is the median of chi-squared with one degree of freedom. From the mean where most are exactly zero.
    """
    squares = differences**2
    middle = float(np.median(squares)) / 0.4549
    return math.sqrt(middle if middle > 0 else float(np.mean(squares)))


def noise_of(values: Floats) -> float:
    """Standard deviation of one value around its neighbours: from first differences, which a trend hardly touches."""
    return spread_of(np.diff(values)) / math.sqrt(2) if len(values) > 2 else 0.0


def level_error(values: Floats, window: int) -> float:
    """Standard error of the difference of two means of ``window`` rows, for rows that resemble their neighbours.

    Neighbours of correlation r make a mean (1 + r) / (1 - r) times as uncertain. r shows in how much less a row differs
    from the next one than from the moving average around it.
    """
    near = noise_of(values)
    around = moving_average(values, 15)
    usual = max(near, spread_of(values - around) * math.sqrt(15 / 14))
    correlation = min(max(1 - (near / usual) ** 2, 0.0), 0.8) if usual > 0 else 0.0
    return usual * math.sqrt(2 / window * (1 + correlation) / (1 - correlation))


def moving_average(values: Floats, width: int) -> Floats:
    """Mean of the ``width`` values around each, fewer at the ends."""
    sums = np.concatenate(([0.0], np.cumsum(values)))
    index = np.arange(len(values))
    low, high = np.maximum(index - width // 2, 0), np.minimum(index + width // 2 + 1, len(values))
    averages: Floats = (sums[high] - sums[low]) / (high - low)
    return averages


def trend_of(series: Series) -> Trend | None:
    """The trend of a series, or None where it has fewer than 8 finite values.

    Mann-Kendall with the correction for ties (Kendall, Rank Correlation Methods, 1975) and continuity.
    """
    clean = binned(series.finite)
    n = len(clean)
    if n < FEWEST_ROWS:
        return None
    upper = np.triu_indices(n, 1)
    rises = (clean.values[None, :] - clean.values[:, None])[upper]
    score = float(np.sign(rises).sum())
    _, ties = np.unique(clean.values, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    z = (score - math.copysign(1, score)) / math.sqrt(variance) if score and variance > 0 else 0.0
    slope = float(np.median(rises / (clean.steps[None, :] - clean.steps[:, None])[upper]))
    change = slope * float(clean.steps[-1] - clean.steps[0])
    middle = float(np.median(clean.values))
    return Trend(z=z, start=middle - change / 2, change=change, noise=noise_of(clean.values))


def level_window(rows: int) -> int:
    """How many rows make a level: a tenth of the log, between 5 and 50."""
    return min(50, max(5, rows // 10))


def drop_of(series: Series) -> Drop | None:
    """The fall from the highest level to the last, or None where there are fewer than three windows of rows."""
    clean = series.finite
    window = level_window(len(clean))
    if len(clean) < 3 * window:
        return None
    sums = np.concatenate(([0.0], np.cumsum(clean.values)))
    levels = (sums[window:] - sums[:-window]) / window  # (rows - window + 1,)
    top = int(np.argmax(levels))
    error = level_error(clean.values, window)
    fall = float(levels[top] - levels[-1])
    below = levels[top:] < levels[top] - 3 * error
    above = np.flatnonzero(~below)
    onset = min(top + int(above[-1]) + 1 if len(above) else top, len(levels) - 1)
    return Drop(
        peak=float(levels[top]),
        peak_step=float(clean.steps[top + window - 1]),
        last=float(levels[-1]),
        onset=float(clean.steps[onset + window - 1]),
        z=fall / error if error > 0 else (math.inf if fall > 1e-12 else 0.0),
        floor=float(levels[: top + 1].min()),
    )


def share_error(share: float, count: int) -> float:
    """Standard error of a share of ``count``, by Agresti and Coull, so that it is not 0 at 0 or 1."""
    adjusted = (share * count + 2) / (count + 4)
    return math.sqrt(adjusted * (1 - adjusted) / (count + 4))


def share_difference_z(first: float, second: float, count: int) -> float:
    """z of the difference of two shares, each of ``count`` problems: positive where the second is higher."""
    error = math.hypot(share_error(first, count), share_error(second, count))
    return (second - first) / error


def paired_z(first: Floats, second: Floats) -> float:
    """z of a difference problem by problem; both of shape (problems,). Sharper than two separate shares."""
    difference = second - first
    spread = float(np.std(difference, ddof=1)) if len(difference) > 1 else 0.0
    # Four imagined problems, two of them changed each way: with no change at all the error is not zero.
    error = math.sqrt((len(difference) * spread**2 + 4) / (len(difference) + 4) ** 2)
    return float(difference.mean()) / error if error > 0 else 0.0
