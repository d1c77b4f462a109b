"""What evaluations on a held-out split say: which metric is the goal, whether it moved, whether it fell."""

from dataclasses import dataclass

import numpy as np

from evenhand.diagnosis.history import History, Series
from evenhand.diagnosis.statistics import FEWEST_ROWS, paired_z, share_difference_z, trend_of
from evenhand.records import Evaluation

# z from which a held-out fall is called. The peak is the best of many evaluations, so that noise alone reaches 2 to
# 2.5; at 4 one run of 20 evaluations in 500 is accused. The reference's run (36 of 50, then 32) reaches 1.
FALL_Z = 4.0
# Evaluations that must lie below the peak: a small model that learned for good fell from 96 % to 58 % at one of them.
LASTING = 2
# Evaluations without a known number of problems: fewer than these have no measurable noise.
FEWEST_EVALUATIONS = 5
GOALS = ("answer_accuracy", "accuracy", "acc", "exact_match", "fully_correct", "score", "reward")


@dataclass(frozen=True, slots=True)
class Fall:
    """A held-out metric below its peak, beyond noise."""

    metric: str
    peak: float
    peak_step: float
    last: float
    onset: float
    z: float
    lost: float  # share of what had been gained, 1 where it had only fallen
    reward_rises: bool
    clear: bool  # beyond noise by itself; else only together with a rising reward


def goal_series(history: History) -> tuple[str, Series] | None:
    """The held-out metric that stands for the task, or None where nothing but a loss was evaluated."""
    held_out = {name: series.finite for name, series in history.held_out() if len(series.finite)}
    named = history.settings.get("goal_metric")
    if named in held_out:
        return str(named), held_out[str(named)]
    for goal in GOALS:
        for name, series in held_out.items():
            if name.lower() == goal or f"/{goal}/" in f"/{name.lower()}/":
                return name, series
    for name, series in held_out.items():
        if any(goal in name.lower() for goal in GOALS):
            return name, series
    return None


def evaluation_at(history: History, step: float) -> Evaluation | None:
    """The full record of an evaluation, where there is one."""
    return next((one for one in history.evaluations if one.step == step), None)


def difference_z(history: History, metric: str, first_step: float, second_step: float) -> float | None:
    """z of the change of a metric between two evaluations: problem by problem where both are known, else by size."""
    first, second = evaluation_at(history, first_step), evaluation_at(history, second_step)
    if first is None or second is None:
        return None
    if metric in first.outcomes and len(first.outcomes[metric]) == len(second.outcomes.get(metric, ())) > 1:
        return paired_z(np.array(first.outcomes[metric]), np.array(second.outcomes[metric]))
    if metric in first.metrics and metric in second.metrics and first.n > 0:
        return share_difference_z(first.metrics[metric], second.metrics[metric], first.n)
    return None


def fallen(history: History) -> Fall | None:
    """The fall of the goal's metric from its peak to the last evaluation, or None where it is within noise."""
    found = goal_series(history)
    if found is None or len(found[1]) < 2:
        return None
    metric, series = found
    top = int(np.argmax(series.values))
    last, peak = float(series.values[-1]), float(series.values[top])
    if top >= len(series) - LASTING:
        return None
    peak_step = float(series.steps[top])
    falls = [difference_z(history, metric, peak_step, float(step)) for step in series.steps[-LASTING:]]
    known = [fall for fall in falls if fall is not None]
    z = max(known) if len(known) == LASTING else trend_z(series)
    if z is None or z > -FALL_Z:
        return None
    after = np.flatnonzero(series.values[top:] >= (peak + last) / 2)
    onset = series.steps[min(top + int(after[-1]) + 1, len(series) - 1)]
    floor = float(series.values[: top + 1].min())
    gained = max(peak - floor, 0.0)
    reward = trend_of(history.get("reward"))
    return Fall(
        metric=metric,
        peak=peak,
        peak_step=peak_step,
        last=last,
        onset=float(onset),
        z=z,
        lost=(peak - last) / gained if gained > 0 else 1.0,
        reward_rises=reward is not None and reward.rises,
        clear=z < -FALL_Z,
    )


def trend_z(series: Series) -> float | None:
    """z of a fall where the number of problems is unknown, so that noise shows only between evaluations.

    Eight evaluations since the peak, or in all, may show a trend. Five to seven must fall every time, which noise does
    once in 120 runs; fewer are not judged.
    """
    after = series.tail(len(series) - int(np.argmax(series.values)))
    for stretch in (after, series):
        trend = trend_of(stretch)
        if trend is not None and trend.falls:
            return min(trend.z, -FALL_Z - 1e-6)
    if FEWEST_EVALUATIONS <= len(after) < FEWEST_ROWS and bool((np.diff(after.values) < 0).all()):
        return -FALL_Z
    return None
