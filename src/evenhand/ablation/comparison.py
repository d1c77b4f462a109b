"""Compare arms over seeds: paired by seed, with intervals, corrected for the number of comparisons.

The unit is a run: two runs with the same setting and another seed differ, and only the spread over seeds says by how
much. Every other arm is compared with the reference on the seeds that both finished. The interval is Student's for
paired differences (``scipy.stats.ttest_rel``), at 1 - 0.05 / m for m arms (Bonferroni), so that all intervals of a
metric hold together with 95 %; p-values are multiplied by m alike.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from scipy import stats

from evenhand.ablation.budgets import Budget, budget_of, budget_sentences
from evenhand.ablation.correction import LEAST_SEEDS, confidence, corrected
from evenhand.ablation.efficiency import Efficiency, efficiency_of
from evenhand.ablation.study import GOAL, MEAN, Study
from evenhand.ablation.trials import State
from evenhand.records import Evaluation
from evenhand.runfolder import RunFolder
from evenhand.tasks import task_named


@dataclass(frozen=True, slots=True)
class Measured:
    """What one trial reached, by the names in the study's ``metrics``; ``step`` is that of its last evaluation."""

    arm: str
    seed: int
    step: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Contrast:
    """An arm minus the reference arm, over the seeds that both finished."""

    arm: str
    metric: str
    seeds: tuple[int, ...]
    difference: float | None
    interval: tuple[float, float] | None
    p: float | None  # after correction
    verdict: str  # better, worse, cannot tell, not comparable

    def to_json(self) -> dict[str, Any]:
        """Plain types only."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Result:
    """A study's outcome."""

    study: Study
    states: Sequence[State]
    measured: Sequence[Measured]
    contrasts: Sequence[Contrast]
    budgets: Sequence[Budget]
    efficiency: Efficiency | None = None

    @property
    def failed(self) -> list[State]:
        """Trials that did not come to their end."""
        return [state for state in self.states if state.name != "finished"]

    def to_json(self) -> dict[str, Any]:
        """For ``ablate --json`` and ``result.json``."""
        return {
            "study": self.study.name,
            "question": self.study.question,
            "reference": self.study.reference,
            "trials": [
                {"arm": s.trial.arm, "seed": s.trial.seed, "state": s.name, "reason": s.reason, "run": str(s.folder)}
                for s in self.states
            ],
            "measured": [asdict(one) for one in self.measured],
            "contrasts": [contrast.to_json() for contrast in self.contrasts],
            "budgets": [budget.to_json() for budget in self.budgets],
            "until": None if self.efficiency is None else self.efficiency.to_json(),
            "sentences": self.sentences(),
        }

    def values(self, arm: str, metric: str) -> dict[int, float]:
        """A metric of an arm's finished trials, by seed."""
        return {one.seed: one.values[metric] for one in self.measured if one.arm == arm and metric in one.values}

    def sentences(self) -> list[str]:
        """What the study shows, in plain words."""
        said = [contrast_sentence(contrast, self.study.reference) for contrast in self.contrasts]
        if len(self.study.seeds) < LEAST_SEEDS:
            said.insert(0, "One seed has no spread, so no interval is possible: nothing can be told from this study.")
        said += [] if self.efficiency is None else self.efficiency.sentences()
        said += budget_sentences(self.budgets)
        names = ", ".join(state.trial.name for state in self.failed)
        return [*said, f"Not finished: {names}."] if names else said


def conclude(study: Study, states: Sequence[State]) -> Result:
    """Measure every finished trial and compare the arms."""
    measured = [one for state in states if state.name == "finished" and (one := measure(state, study)) is not None]
    contrasts = [
        contrast_of(study, arm, metric, measured)
        for metric in study.metrics
        for arm in study.arms
        if arm != study.reference
    ]
    folders = {
        arm: [RunFolder(state.folder) for state in states if state.name == "finished" and state.trial.arm == arm]
        for arm in study.arms
    }
    budgets = [budget_of(arm, finished) for arm, finished in folders.items()]
    until = study.until
    efficiency = None if until is None else efficiency_of(states, until, tuple(study.arms), study.reference)
    return Result(study, states, measured, contrasts, budgets, efficiency)


def measure(state: State, study: Study) -> Measured | None:
    """What a trial reached; None where it has no evaluation."""
    split = state.trial.config.evaluation.split
    evaluations: list[Evaluation] = [e for e in RunFolder(state.folder).evaluations() if e.split == split]
    if not evaluations:
        return None
    evaluations.sort(key=lambda evaluation: evaluation.step)
    goal = task_named(state.trial.config.task).goal
    values = {}
    for metric in study.metrics:
        name = metric.removeprefix(MEAN)
        value = value_of(evaluations, goal if name == GOAL else name, mean=metric.startswith(MEAN))
        if value is not None:
            values[metric] = value
    return Measured(state.trial.arm, state.trial.seed, evaluations[-1].step, values)


def value_of(evaluations: Sequence[Evaluation], name: str, mean: bool) -> float | None:
    """A metric at the last evaluation, or its mean over all after step 0; None where it was not measured."""
    places = [evaluation for evaluation in evaluations if evaluation.step > 0] if mean else [*evaluations[-1:]]
    values = [evaluation.metrics[name] for evaluation in places if name in evaluation.metrics]
    return math.fsum(values) / len(values) if values and len(values) == len(places) else None


def contrast_of(study: Study, arm: str, metric: str, measured: Sequence[Measured]) -> Contrast:
    """One arm beside the reference."""
    own = {one.seed: one.values[metric] for one in measured if one.arm == arm and metric in one.values}
    base = {one.seed: one.values[metric] for one in measured if one.arm == study.reference and metric in one.values}
    seeds = tuple(sorted(own.keys() & base.keys()))
    tasks = {str(study.arms[name].get("task", study.shared.get("task"))) for name in (arm, study.reference)}
    if metric.removeprefix(MEAN) == GOAL and len(tasks) > 1:
        return Contrast(arm, metric, seeds, None, None, None, "not comparable")
    if len(seeds) < LEAST_SEEDS:
        difference = own[seeds[0]] - base[seeds[0]] if seeds else None
        return Contrast(arm, metric, seeds, difference, None, None, "cannot tell")
    return tested(Contrast(arm, metric, seeds, None, None, None, "cannot tell"), own, base, len(study.arms) - 1)


def tested(contrast: Contrast, own: Mapping[int, float], base: Mapping[int, float], comparisons: int) -> Contrast:
    """The paired test over the contrast's seeds; ``own`` and ``base`` hold a metric by seed."""
    pairs = [(own[seed], base[seed]) for seed in contrast.seeds]
    differences = [a - b for a, b in pairs]
    mean = math.fsum(differences) / len(differences)
    if max(differences) - min(differences) < 1e-12:  # no spread, so no estimate of it
        return replace(contrast, difference=mean, interval=(mean, mean))
    test = stats.ttest_rel(*zip(*pairs, strict=True))
    limits = test.confidence_interval(confidence(comparisons))
    interval = (float(limits.low), float(limits.high))
    verdict = "better" if interval[0] > 0 else "worse" if interval[1] < 0 else "cannot tell"
    p = corrected(float(test.pvalue), comparisons)
    return replace(contrast, difference=mean, interval=interval, p=p, verdict=verdict)


def contrast_sentence(contrast: Contrast, reference: str) -> str:
    """One comparison in plain words."""
    head = f"{contrast.metric}: {contrast.arm} beside {reference}"
    if contrast.verdict == "not comparable":
        return f"{head} is not compared: their goals are different metrics of different tasks."
    if contrast.difference is None:
        return f"{head} cannot be told: no seed was finished by both."
    figure = f"{100 * contrast.difference:+.1f} points over {len(contrast.seeds)} seed(s)"
    if contrast.interval is None:
        return f"{head}, {figure}; one seed gives no interval, so this is an anecdote."
    low, high = (100 * end for end in contrast.interval)
    if contrast.verdict == "cannot tell":
        if low == high:
            return f"{head}, {figure}, the same with every seed; that says little about other seeds."
        return (
            f"{head}, {figure} ({low:+.1f} to {high:+.1f}): the data cannot tell them apart; "
            f"a true difference below {(high - low) / 2:.1f} points would not be seen with so few seeds."
        )
    return f"{head} is {contrast.verdict}: {figure} ({low:+.1f} to {high:+.1f})."
