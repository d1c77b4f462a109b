"""Sample efficiency: how many completions a run samples until a metric first stays at a bound, compared over seeds.

A run reaches the bound at its first evaluation from which on every later one lies at or above it; touching it once
and losing it again is no reaching. A run that never does is censored: it says "not within N completions", never a
number. So two tests are made of an arm and the reference, paired by seed:

* the geometric mean of the ratios of completions, with Student's interval of their logarithms, over the pairs in which
  both runs reached the bound;
* an exact sign test over all pairs: a run that reached the bound beats one that had not within as many completions,
  and two that did not are a tie. Where the other run ended before that many completions, the pair decides nothing.

Ratios of those runs alone that made it are flattered, so the interval decides only where every pair has a ratio and
these differ from one another; else the sign test does. Both are widened for the number of arms like every other
comparison of a study.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal

from scipy import stats

from evenhand.ablation.budgets import Sampling
from evenhand.ablation.correction import LEAST_SEEDS, LEVEL, confidence, corrected
from evenhand.ablation.study import Until
from evenhand.ablation.trials import State
from evenhand.runfolder import RunFolder

ROUNDING = 1e-9  # a rate is a mean of outcomes, and 45 of 50 is at least 0.9


@dataclass(frozen=True, slots=True)
class Point:
    """An evaluation on a learning curve; None is unknown."""

    step: int
    completions: int | None
    value: float | None


@dataclass(frozen=True, slots=True)
class Curve:
    """A run's learning curve, by step."""

    arm: str
    seed: int
    points: Sequence[Point]

    def to_json(self) -> dict[str, Any]:
        """A line of a study's ``curves.jsonl``: points as step, completions and value, None where unknown."""
        points = [[point.step, point.completions, point.value] for point in self.points]
        return {"arm": self.arm, "seed": self.seed, "points": points}


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a run first stayed at the bound.

    Attributes:
        state: ``censored`` where it never did, ``unknown`` where the metric was not measured when it mattered.
        step: The evaluated step from which on it stayed.
        completions: Sampled by that step; None where unknown.
        within: Completions sampled by the last evaluation, which is how far the run was watched.
        later: Evaluations after ``step``, all at the bound or above.
        touched: The first evaluation at the bound or above, kept or lost again.
    """

    arm: str
    seed: int
    state: Literal["reached", "censored", "unknown"]
    step: int | None
    completions: int | None
    within: int | None
    later: int
    touched: Point | None = None

    @property
    def lost(self) -> bool:
        """Whether it was at the bound and then below it again."""
        return self.state != "unknown" and self.touched is not None and self.touched.step != self.step

    def __str__(self) -> str:
        if self.state == "unknown":
            return "unknown"
        if self.state == "censored":
            return "not within its run" if self.within is None else f"not within {self.within} completions"
        return f"step {self.step}, completions unknown" if self.completions is None else str(self.completions)


@dataclass(frozen=True, slots=True)
class Ratio:
    """An arm's completions divided by the reference arm's, and its pairs by their order.

    Attributes:
        seeds: Of the pairs in which both runs are known to have reached the bound or not.
        ratio: Geometric mean over ``ratios`` pairs.
        interval: Of ``ratio``, after correction; None for less than two pairs or equal ratios.
        fewer: Pairs in which the arm took fewer completions.
        undecided: Pairs whose order is not known.
        p: Of ``ratio``, after correction.
        sign_p: Of the sign test, after correction; None where no pair is decided.
        comparisons: For how many arms both are corrected.
        decided_by: Which of the two gave the verdict.
        verdict: better (fewer completions), worse, cannot tell.
    """

    arm: str
    seeds: tuple[int, ...]
    ratios: int
    ratio: float | None
    interval: tuple[float, float] | None
    p: float | None
    fewer: int
    more: int
    tied: int
    undecided: int
    sign_p: float | None
    comparisons: int
    decided_by: Literal["interval", "sign test"]
    verdict: Literal["better", "worse", "cannot tell"]


@dataclass(frozen=True, slots=True)
class Efficiency:
    """A study's outcome for one measure ``until``.

    Attributes:
        curves: Of every finished run.
        gaps: Distances between successive evaluations in steps, shortest first.
        resolution: The largest distance in completions; None where unknown.
    """

    until: Until
    reference: str
    curves: Sequence[Curve]
    reaches: Sequence[Reach]
    ratios: Sequence[Ratio]
    gaps: tuple[int, ...]
    resolution: int | None

    def of(self, arm: str) -> dict[int, Reach]:
        """An arm's runs, by seed."""
        return {reach.seed: reach for reach in self.reaches if reach.arm == arm}

    def to_json(self) -> dict[str, Any]:
        """Plain types only."""
        return {
            "metric": self.until.metric,
            "at_least": self.until.at_least,
            "evaluations_apart": {"steps": list(self.gaps), "completions": self.resolution},
            "runs": [{**asdict(reach), "said": str(reach)} for reach in self.reaches],
            "contrasts": [asdict(ratio) for ratio in self.ratios],
        }

    def sentences(self) -> list[str]:
        """What it shows, how finely it was looked at, and which runs to read with care."""
        head = f"Completions until {self.until.metric} stays at {self.until.at_least:.0%}"
        said = [f"{head}: {ratio_sentence(ratio, self.reference)}" for ratio in self.ratios]
        said += self.resolution_sentences()
        for text, runs in (
            ("Not known, for want of evaluations of the metric or of a count of completions", self.unknown()),
            ("Reached at the last evaluation only, with no later one to confirm it", self.unconfirmed()),
        ):
            names = ", ".join(f"{reach.arm}/seed-{reach.seed}" for reach in runs)
            said += [f"{text}: {names}."] if names else []
        return said + self.lost_sentences()

    def lost_sentences(self) -> list[str]:
        """Runs that were at the bound before: their figure tells when they last fell, not how fast they learned."""
        lost = [
            f"{reach.arm}/seed-{reach.seed} ({place(reach.touched)})"
            for reach in self.reaches
            if reach.lost and reach.touched is not None
        ]
        return [f"There before, and below it again since: {', '.join(lost)}."] if lost else []

    def unknown(self) -> list[Reach]:
        """Runs of which it is not known whether or after how many completions they stayed at the bound."""
        return [r for r in self.reaches if r.state == "unknown" or (r.state == "reached" and r.completions is None)]

    def unconfirmed(self) -> list[Reach]:
        """Runs that no later evaluation confirms."""
        return [reach for reach in self.reaches if reach.state == "reached" and reach.later == 0]

    def resolution_sentences(self) -> list[str]:
        """How finely the runs were looked at."""
        if not self.gaps:
            return []
        steps = f"{self.gaps[-1]} step{'s' if self.gaps[-1] > 1 else ''}"
        apart = f"every {steps}" if len(self.gaps) == 1 else f"at most {steps} apart"
        count = "" if self.resolution is None else f" ({self.resolution} completions)"
        return [
            f"Evaluations lie {apart}{count}: every figure may be up to that much too high, and no less is told apart."
        ]


def efficiency_of(states: Sequence[State], until: Until, arms: Sequence[str], reference: str) -> Efficiency:
    """Read every finished trial's curve, and compare the arms with the reference."""
    curves = [
        Curve(
            state.trial.arm,
            state.trial.seed,
            points_of(RunFolder(state.folder), state.trial.config.evaluation.split, until.metric),
        )
        for state in states
        if state.name == "finished"
    ]
    reaches = [reach_of(curve, until.at_least) for curve in curves]
    pairs = [pair for curve in curves for pair in pairwise(curve.points)]
    gaps = tuple(sorted({after.step - before.step for before, after in pairs}))
    counted = [
        after.completions - before.completions
        for before, after in pairs
        if after.completions is not None and before.completions is not None
    ]
    by_arm = {arm: {reach.seed: reach for reach in reaches if reach.arm == arm} for arm in arms}
    others = [arm for arm in arms if arm != reference]
    ratios = [ratio_of(arm, by_arm[arm], by_arm[reference], len(others)) for arm in others]
    return Efficiency(until, reference, curves, reaches, ratios, gaps, max(counted, default=None))


def points_of(folder: RunFolder, split: str, metric: str) -> list[Point]:
    """What a run folder holds of a metric, by step. A metric that is absent or no number is unknown there."""
    sampling = Sampling.of(folder)
    values = {e.step: e.metrics.get(metric, math.nan) for e in folder.evaluations() if e.split == split}
    return [
        Point(step, sampling.at(step), None if math.isnan(value) else value) for step, value in sorted(values.items())
    ]


def reach_of(curve: Curve, bound: float) -> Reach:
    """Where a run first stays at ``bound``: the beginning of its last stretch without an evaluation below."""
    within = curve.points[-1].completions if curve.points else None
    otherwise: Literal["censored", "unknown"] = "censored" if curve.points else "unknown"
    there = (point for point in curve.points if point.value is not None and point.value >= bound - ROUNDING)
    touched = next(there, None)
    held: list[Point] = []
    for point in reversed(curve.points):
        if point.value is None:
            held, otherwise = [], "unknown"
            break
        if point.value < bound - ROUNDING:
            break
        held.append(point)
    if not held:
        return Reach(curve.arm, curve.seed, otherwise, None, None, within, 0, touched)
    first = held[-1]
    return Reach(curve.arm, curve.seed, "reached", first.step, first.completions, within, len(held) - 1, touched)


def place(point: Point) -> str:
    """When a point was, in words."""
    return f"first at step {point.step}" if point.completions is None else f"first at {point.completions} completions"


def order(own: Reach, base: Reach) -> int | None:
    """1 where ``own`` took fewer completions than ``base``, -1 where more, 0 for a tie, None where it is not known."""
    if own.state == base.state == "censored":
        return 0
    if own.state == "censored":
        other = order(base, own)
        return None if other is None else -other
    if own.completions is None:
        return None
    if base.state == "censored":
        return 1 if base.within is not None and own.completions <= base.within else None
    if base.completions is None:
        return None
    return (base.completions > own.completions) - (base.completions < own.completions)


def ratio_of(arm: str, own: Mapping[int, Reach], base: Mapping[int, Reach], comparisons: int) -> Ratio:
    """An arm beside the reference; both by seed."""
    common = sorted(own.keys() & base.keys())
    seeds = tuple(seed for seed in common if "unknown" not in (own[seed].state, base[seed].state))
    orders = [order(own[seed], base[seed]) for seed in seeds]
    fewer, more = orders.count(1), orders.count(-1)
    logs = []
    for seed in seeds:
        first, second = own[seed].completions, base[seed].completions
        if first and second:  # known, and not reached before the first completion, which has no ratio
            logs.append(math.log(first / second))
    mean = math.fsum(logs) / len(logs) if logs else None
    interval, p = interval_of(logs, comparisons)
    sign_p = corrected(float(stats.binomtest(fewer, fewer + more).pvalue), comparisons) if fewer + more else None
    by_interval = interval is not None and len(logs) == len(seeds)
    verdict: Literal["better", "worse", "cannot tell"] = "cannot tell"
    if interval is not None and by_interval:
        verdict = "better" if interval[1] < 1 else "worse" if interval[0] > 1 else "cannot tell"
    elif sign_p is not None and sign_p < LEVEL:
        verdict = "better" if fewer > more else "worse"
    return Ratio(
        arm=arm,
        seeds=seeds,
        ratios=len(logs),
        ratio=None if mean is None else math.exp(mean),
        interval=interval,
        p=p,
        fewer=fewer,
        more=more,
        tied=orders.count(0),
        undecided=orders.count(None),
        sign_p=sign_p,
        comparisons=comparisons,
        decided_by="interval" if by_interval else "sign test",
        verdict=verdict,
    )


def interval_of(logs: Sequence[float], comparisons: int) -> tuple[tuple[float, float] | None, float | None]:
    """(interval of the geometric mean, p) from logarithms of ratios; None for too few, or without spread."""
    if len(logs) < LEAST_SEEDS or max(logs) - min(logs) < 1e-12:
        return None, None
    test = stats.ttest_1samp(logs, 0.0)
    limits = test.confidence_interval(confidence(comparisons))
    return (math.exp(limits.low), math.exp(limits.high)), corrected(float(test.pvalue), comparisons)


def ratio_sentence(ratio: Ratio, reference: str) -> str:
    """One comparison in plain words."""
    head = f"{ratio.arm} beside {reference}"
    if not ratio.seeds:
        return f"{head} cannot be told: of no seed are both runs known."
    parts = [part for part in (factor_part(ratio), order_part(ratio)) if part]
    if ratio.verdict == "cannot tell":
        parts.append(doubt_part(ratio))
        return f"{head}: {'; '.join(parts)}."
    kind = "fewer" if ratio.verdict == "better" else "more"
    parts += [] if ratio.decided_by == "interval" else [sign_test_part(ratio)]
    return f"{head} takes {kind}: {'; '.join(parts)}."


def factor_part(ratio: Ratio) -> str:
    """The ratio, or nothing where there is none."""
    if ratio.ratio is None:
        return ""
    if ratio.interval is None:
        return f"×{ratio.ratio:.2f} in {ratio.ratios} pair(s), without an interval"
    low, high = ratio.interval
    return f"×{ratio.ratio:.2f} (×{low:.2f} to ×{high:.2f}) over {ratio.ratios} pairs in which both reached it"


def order_part(ratio: Ratio) -> str:
    """How many pairs go which way."""
    counts = {"fewer": ratio.fewer, "more": ratio.more, "tied": ratio.tied, "undecided": ratio.undecided}
    named = ", ".join(f"{word} in {count}" for word, count in counts.items() if count or word in {"fewer", "more"})
    p = "" if ratio.sign_p is None else f" (sign test p = {ratio.sign_p:.3f})"
    return f"{named} of {len(ratio.seeds)}{p}"


def sign_test_part(ratio: Ratio) -> str:
    """Why the sign test decides."""
    if ratio.ratios == len(ratio.seeds):
        return "the ratios are all the same, so the sign test decides"
    return "not every pair has a ratio, so the sign test decides"


def doubt_part(ratio: Ratio) -> str:
    """That the data cannot tell, and what they could have told."""
    if len(ratio.seeds) < LEAST_SEEDS:
        return "one seed gives no interval, so this is an anecdote"
    doubt = "the data cannot tell them apart"
    if ratio.decided_by == "interval" and ratio.interval is not None:
        factor = math.sqrt(ratio.interval[1] / ratio.interval[0])
        return f"{doubt}; a true factor nearer to 1 than ×{factor:.2f} would not be seen with so few seeds"
    doubt += f" ({sign_test_part(ratio)})"
    least = 2.0 ** (1 - ratio.fewer - ratio.more) * ratio.comparisons
    if least >= LEVEL:
        doubt += (
            f", and with {ratio.fewer + ratio.more} decided pair(s) that test could not have told, whatever they showed"
        )
    return doubt
