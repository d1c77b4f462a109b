"""Readings that several rules share: uniform groups, a live gradient, the reward that is the goal."""

import re
from collections.abc import Sequence

import numpy as np

from evenhand.diagnosis.history import NOTHING, History, RewardPart, Series
from evenhand.diagnosis.statistics import level_window

# A share of zero-variance groups from which a row counts as uniform. 1.0 exactly would miss logs averaged over steps.
UNIFORM = 0.999
# A gradient below this share of the run's usual one counts as none: what is left of a collapsed run's is rounding and
# the last of the KL term. Healthy gradients vary by a factor of about ten around their median.
DEAD_GRADIENT = 0.01
# Where the log holds no row with a live gradient to compare with.
DEAD_GRADIENT_ALONE = 1e-3
# Share of dead rows from which a stretch is dead. Small models that collapsed for good showed 3 to 15 % live rows.
DEAD_SHARE = 0.8
# The last level of a reward from which it counts as at its top: 5 % of the way from the lowest level seen to the top.
NEAR_TOP = 0.05

GOAL_WORDS = re.compile(
    r"acc|correct|answer|exact|match|solv|goal|hint|result|success|pass|verif|outcome|math|equation|code|test", re.I
)
EASY_WORDS = re.compile(
    r"format|tag|xml|json|style|length|len_|steps|language|repet|penalt|think|structure|template|consist",
    re.I,
)


def uniform_share(history: History) -> Series:
    """Share of groups without spread in reward, per row.

    TRL logs it; before it did, ``reward_std`` was the mean over groups, so that 0 means that all were uniform; verl
    logs the range of the advantages.
    """
    share = history.get("frac_reward_zero_std")
    if len(share):
        return share
    spread = history.get("reward_std")
    if len(spread):
        return Series(spread.steps, (np.abs(spread.values) < 1e-9).astype(float))
    steps, (high, low) = history.aligned("advantages/max", "advantages/min")
    if len(steps):
        return Series(steps, ((np.abs(high) < 1e-9) & (np.abs(low) < 1e-9)).astype(float))
    return NOTHING


def gradient_floor(history: History) -> float:
    """The gradient norm below which a row counts as dead, judged by this run's own rows with spread."""
    gradient = history.get("grad_norm").finite
    share = uniform_share(history)
    if not len(gradient):
        return DEAD_GRADIENT_ALONE
    alive = gradient.values[gradient.values > 1e-8]
    if len(share):
        spread = share.steps[share.values < UNIFORM]
        alive = gradient.values[np.isin(gradient.steps, spread) & (gradient.values > 1e-8)]
    return DEAD_GRADIENT * float(np.median(alive)) if len(alive) else DEAD_GRADIENT_ALONE


def dead_rows(history: History) -> Series:
    """1.0 on rows whose groups are all uniform and whose gradient is gone, else 0.0; empty where neither is known."""
    share = uniform_share(history)
    if not len(share):
        return NOTHING
    gradient = history.get("grad_norm")
    uniform = share.values >= UNIFORM
    if not len(gradient):
        return Series(share.steps, uniform.astype(float))
    both = np.isin(share.steps, gradient.steps)
    steps = share.steps[both]
    norms = gradient.values[np.isin(gradient.steps, steps)]
    return Series(steps, (uniform[both] & (np.abs(norms) <= gradient_floor(history))).astype(float))


def dead_since(dead: Series) -> float | None:
    """First step of the dead stretch at the end of a run: at least 80 % of its rows and of its end are dead.

    A collapsed policy still samples something else now and then, and one such completion makes a row alive.
    """
    end = dead.tail(min(10, max(2, len(dead) // 2)))
    if not len(dead) or float(end.values.mean()) < DEAD_SHARE:
        return None
    return stretch_onset(dead, DEAD_SHARE)


def stretch_onset(flags: Series, share: float = 0.9) -> float:
    """First step of the longest stretch that reaches to the end and in which at least ``share`` of the rows hold."""
    means = np.cumsum(flags.values[::-1]) / np.arange(1, len(flags) + 1)  # of the last k rows, k = 1 … rows
    begins = np.flatnonzero((means >= share) & (flags.values[::-1] > 0))
    return float(flags.steps[len(flags) - 1 - begins[-1]]) if len(begins) else float(flags.steps[-1])


def alive(history: History, rows: int = 10) -> bool:
    """Whether the last rows have both a gradient and, where that is known, groups with spread."""
    gradient = history.get("grad_norm").finite.tail(rows)
    share = uniform_share(history).finite.tail(rows)
    if not len(gradient) or float(np.median(gradient.values)) <= 1e-8:
        return False
    return not len(share) or float(share.values.mean()) < 0.9


def recent(series: Series) -> Series:
    """The last level of a series: a tenth of its rows, at least 5."""
    return series.finite.tail(level_window(len(series)))


def at_top(series: Series) -> bool:
    """Whether the last level is the highest that the series ever had, within 5 % of its range."""
    clean = series.finite
    if not len(clean):
        return False
    last = float(recent(clean).values.mean())
    highest = float(clean.values.max())
    return last >= highest - NEAR_TOP * max(usual_range(clean), abs(highest))


def usual_range(series: Series) -> float:
    """From the lower quartile to the highest value: one outlier of a penalty does not stretch it."""
    return float(series.values.max() - np.quantile(series.values, 0.25)) if len(series) else 0.0


def goal_part(history: History) -> RewardPart | None:
    """The reward term that stands for the task itself, by name: right answers rather than form. None where unclear."""
    named = history.settings.get("goal_reward")
    parts = history.parts()
    for part in parts:
        if part.name == named:
            return part
    goals = [part for part in parts if GOAL_WORDS.search(part.name) and not is_easy(part.name)]
    return goals[0] if goals else (parts[0] if len(parts) == 1 and not is_easy(parts[0].name) else None)


def is_easy(name: str) -> bool:
    """Whether a term's name says that it pays for form: format, length, tags, repetition, consistency."""
    return bool(EASY_WORDS.search(name))


def easy_parts(history: History, goal: RewardPart) -> list[RewardPart]:
    """The terms other than the goal."""
    return [part for part in history.parts() if part.name != goal.name]


def starts_at_the_start(history: History) -> bool:
    """Whether the log begins where the run did, as far as can be told: rows of a pasted tail do not count."""
    if not history.steps_known:
        epoch = history.get("epoch").finite
        return not len(epoch) or float(epoch.values[0]) <= 0.05
    return bool(history.rows) and float(history.steps[0]) <= max(10.0, history.interval)


def per_row(history: History) -> int:
    """Completions behind one row where the settings tell, else one group of eight."""
    per_device = history.setting("per_device_train_batch_size")
    accumulation = history.setting("gradient_accumulation_steps") or 1
    processes = history.setting("num_processes") or 1
    if per_device is None:
        return int(history.setting("num_generations") or 8)
    return max(1, int(per_device * accumulation * processes))


def listed(names: Sequence[str], most: int = 4) -> str:
    """``a, b and c``; a long list is cut."""
    shown = list(names[:most]) + ([f"{len(names) - most} more"] if len(names) > most else [])
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1] if shown else "none"
