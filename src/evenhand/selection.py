"""Which checkpoint of a run to keep, by the rule that its configuration wrote down before training.

Only whole saved checkpoints that were scored can be chosen, and only scores of the split that the run evaluates on: an
evaluation of the test split is never looked at. The value of the chosen checkpoint is the best of several looks at the
same problems and so flatters it; what the run gained is for the test split to say.
"""

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from evenhand.config import RunConfig, SelectionRule
from evenhand.errors import RunFolderError
from evenhand.paired import PairedDifference, paired_difference
from evenhand.records import Evaluation
from evenhand.runfolder import Checkpoint, RunFolder, damage
from evenhand.tasks import task_named

SELECTION_FILE = "selection.json"
TEST_SPLIT = "test"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Another saved checkpoint beside the best one; ``difference`` is its score minus the best one's."""

    step: int
    value: float
    difference: PairedDifference

    def to_json(self) -> dict[str, Any]:
        """Plain types only."""
        return {"step": self.step, "value": self.value, "difference": self.difference.to_json()}


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen checkpoint and how sure the choice is.

    Attributes:
        checkpoint: Its folder, relative to the run folder where it lies inside it.
        value: Its score on ``metric``.
        interval: 95 % (low, high) of that score.
        tied_with: Other saved steps that cannot be told from the best one on these problems.
        rule: The rule, in words.
        n: Problems that every checkpoint was scored on.
        comparisons: Every other candidate beside the best one, by step.
        gain: The chosen checkpoint minus the model before training, or None where that was not scored.
        unsaved_peak: (step, value) of an evaluation above every saved one, or None.
        damaged: Saved steps that were passed over because their files do not hold.
    """

    checkpoint: str
    step: int
    metric: str
    value: float
    interval: tuple[float, float]
    tied_with: tuple[int, ...]
    rule: str
    split: str
    n: int
    comparisons: tuple[Comparison, ...] = ()
    gain: PairedDifference | None = None
    unsaved_peak: tuple[int, float] | None = None
    damaged: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The shape that other programs rely on, then the evidence."""
        return {
            "checkpoint": self.checkpoint,
            "step": self.step,
            "metric": self.metric,
            "value": self.value,
            "interval": list(self.interval),
            "tied_with": list(self.tied_with),
            "rule": self.rule,
            "split": self.split,
            "n": self.n,
            "gain": self.gain.to_json() if self.gain else None,
            "unsaved_peak": (
                {"step": self.unsaved_peak[0], "value": self.unsaved_peak[1]} if self.unsaved_peak else None
            ),
            "damaged": list(self.damaged),
            "comparisons": [comparison.to_json() for comparison in self.comparisons],
        }

    def sentences(self) -> tuple[str, ...]:
        """What a person must know, most important first."""
        said = [
            f"Step {self.step} is chosen: {self.metric} {self.value:.1%} on {self.n} {self.split} problems "
            f"(95 % interval {self.interval[0]:.1%} to {self.interval[1]:.1%})."
        ]
        if self.unsaved_peak is not None:
            said.append(peak_sentence(*self.unsaved_peak))
        if self.tied_with:
            said.append(f"Within noise of the best: step {', '.join(str(step) for step in self.tied_with)}.")
        if self.gain is not None:
            said.append(gain_sentence(self.gain))
        if self.damaged:
            said.append(f"Passed over, files damaged: step {', '.join(str(step) for step in self.damaged)}.")
        return tuple(said)


def peak_sentence(step: int, value: float) -> str:
    """Say that the best evaluation is one that cannot be had."""
    if step == 0:
        return f"The model before training scored higher ({value:.1%}): training did not help on these problems."
    return (
        f"The peak was step {step} ({value:.1%}), which has no whole checkpoint; "
        "let save_steps divide evaluation.every next time."
    )


def gain_sentence(gain: PairedDifference) -> str:
    """Say what the chosen checkpoint gained over the model before training, or that it cannot be told."""
    low, high = gain.interval
    figures = f"{gain.value:+.1%} over the model before training ({low:+.1%} to {high:+.1%}, p = {gain.p:.2g})"
    return f"{figures}." if gain.beyond_noise else f"{figures}: not beyond noise on {gain.n} problems."


# -- choosing --------------------------------------------------------------------------------------------------------


def configuration_of(folder: RunFolder) -> RunConfig:
    """The configuration that a run was made with.

    Raises:
        RunFolderError: the folder has none, or it does not read.
    """
    text = folder.read_text("config.toml")
    if text is None:
        raise RunFolderError(f"{folder.path} has no config.toml.", "Name a folder that evenhand train has made.")
    try:
        return RunConfig.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise RunFolderError(
            f"{folder.path}/config.toml does not read: {str(error).splitlines()[0]}.",
            "Restore it as it was when the run began.",
        ) from error


def choose(folder: RunFolder, rule: SelectionRule | None = None) -> Selection:
    """Choose a checkpoint; a cold start has only its end to choose.

    Args:
        folder: The run.
        rule: None takes the one in the run's configuration, as ``evenhand select`` always does.

    Raises:
        RunFolderError: the run has no evaluation, no evaluation of that metric, or no checkpoint that was scored.
    """
    configuration = configuration_of(folder)
    if folder.kind == "coldstart":
        return at_the_end(folder, configuration)
    rule = rule or configuration.selection
    metric = rule.metric or task_named(configuration.task).goal
    scored = scored_evaluations(folder, configuration.evaluation.split, metric)
    kept, damaged = whole_candidates(folder, scored, metric, rule)
    best, comparisons, chosen = ranked(kept, metric, rule)
    tied = {best.step, *(c.step for c in comparisons if not c.difference.beyond_noise)} - {chosen.step}
    peak = max(scored, key=lambda e: e.metrics[metric])
    base = next((e for e in scored if e.step == 0), None)
    return Selection(
        checkpoint=shown_path(folder, folder.checkpoint(chosen.step)),
        step=chosen.step,
        metric=metric,
        value=chosen.metrics[metric],
        interval=chosen.intervals[metric],
        tied_with=tuple(sorted(tied)),
        rule=in_words(rule, metric),
        split=chosen.split,
        n=chosen.n,
        comparisons=comparisons,
        gain=paired_difference(base.outcomes[metric], chosen.outcomes[metric]) if base else None,
        unsaved_peak=(peak.step, peak.metrics[metric]) if peak.metrics[metric] > best.metrics[metric] else None,
        damaged=damaged,
    )


def at_the_end(folder: RunFolder, configuration: RunConfig) -> Selection:
    """What a cold start leaves: its last saved evaluation, whose step its stopping rule decided.

    Raises:
        RunFolderError: no evaluated step was saved.
    """
    plan = configuration.coldstart
    metric = plan.stop_metric or task_named(configuration.task).goal
    scored = {e.step: e for e in scored_evaluations(folder, configuration.evaluation.split, metric)}
    saved = [checkpoint for checkpoint in folder.checkpoints() if checkpoint.step in scored]
    if not saved:
        raise RunFolderError(
            f"No evaluated step of {folder.path} was saved.", f"Go on with: evenhand coldstart --resume {folder.path}"
        )
    last, base = scored[saved[-1].step], scored.get(0)
    bound = f"the first evaluation with {metric} of at least {plan.stop_at:.1%}, or the last one"
    return Selection(
        checkpoint=shown_path(folder, saved[-1]),
        step=last.step,
        metric=metric,
        value=last.metrics[metric],
        interval=last.intervals[metric],
        tied_with=(),
        rule="the last evaluation" if plan.stop_metric is None else bound,
        split=last.split,
        n=last.n,
        gain=paired_difference(base.outcomes[metric], last.outcomes[metric]) if base else None,
    )


def shown_path(folder: RunFolder, checkpoint: Checkpoint) -> str:
    """A checkpoint's folder, relative to the run folder where it lies inside it."""
    inside = checkpoint.path.is_relative_to(folder.path)
    return (checkpoint.path.relative_to(folder.path) if inside else checkpoint.path).as_posix()


def save(folder: RunFolder, selection: Selection) -> None:
    """Record the choice in the run folder."""
    folder.write_json(SELECTION_FILE, selection.to_json())


def in_words(rule: SelectionRule, metric: str) -> str:
    """The rule as a sentence without its full stop."""
    if rule.within_noise:
        return f"the earliest checkpoint not worse than the best {metric} beyond noise"
    return f"the highest {metric}; of equals the {rule.tie}"


def scored_evaluations(folder: RunFolder, split: str, metric: str) -> list[Evaluation]:
    """One evaluation per step, all on the problems of the last one, by step; a resumed run's later row counts.

    Raises:
        RunFolderError: there is none, or none that measures ``metric``.
    """
    rows = {e.step: e for e in folder.evaluations() if e.split == split and e.split != TEST_SPLIT}
    if not rows:
        raise RunFolderError(f"{folder.path} holds no evaluation on {split}.", "Let it train until the first one.")
    known = {name for evaluation in rows.values() for name in evaluation.outcomes}
    if metric not in known:
        raise RunFolderError(f"No evaluation measures '{metric}'.", f"Measured: {', '.join(sorted(known))}.")
    last = rows[max(rows)]
    return [
        evaluation
        for _, evaluation in sorted(rows.items())
        if evaluation.expected == last.expected
        and len(evaluation.outcomes.get(metric, ())) == len(last.expected) > 0
        and math.isfinite(evaluation.metrics.get(metric, math.nan))
    ]


def whole_candidates(
    folder: RunFolder, scored: Sequence[Evaluation], metric: str, rule: SelectionRule
) -> tuple[list[Evaluation], tuple[int, ...]]:
    """(evaluations whose checkpoint is saved, steps found damaged).

    Only a checkpoint that could be chosen has its files hashed, since a large model takes seconds.

    Raises:
        RunFolderError: no scored step has a whole checkpoint.
    """
    saved = {checkpoint.step: checkpoint for checkpoint in folder.checkpoints()}
    kept = [evaluation for evaluation in scored if evaluation.step in saved]
    damaged: list[int] = []
    while kept:
        faulty = first_damaged(kept, saved, metric, rule)
        if faulty is None:
            return kept, tuple(sorted(damaged))
        damaged.append(faulty)
        kept = [evaluation for evaluation in kept if evaluation.step != faulty]
    steps = ", ".join(str(evaluation.step) for evaluation in scored) or "none"
    raise RunFolderError(
        f"No whole checkpoint of {folder.path} was scored (scored steps: {steps}).",
        "Set save_steps so that every evaluated step is saved.",
    )


def first_damaged(
    kept: Sequence[Evaluation], saved: dict[int, Checkpoint], metric: str, rule: SelectionRule
) -> int | None:
    """The step of a damaged checkpoint, of the best one and the one that the rule takes, or None."""
    best, _, chosen = ranked(kept, metric, rule)
    for step in sorted({best.step, chosen.step}):
        if damage(saved[step].path) is not None:
            return step
    return None


def ranked(
    kept: Sequence[Evaluation], metric: str, rule: SelectionRule
) -> tuple[Evaluation, tuple[Comparison, ...], Evaluation]:
    """(the best, every other one beside it, the one that the rule takes)."""
    best = best_of(kept, metric, rule)
    comparisons = tuple(compare(best, other, metric) for other in kept if other.step != best.step)
    if not rule.within_noise:
        return best, comparisons, best
    steps = {best.step, *(c.step for c in comparisons if not c.difference.beyond_noise)}
    return best, comparisons, min((e for e in kept if e.step in steps), key=lambda e: e.step)


def best_of(evaluations: Sequence[Evaluation], metric: str, rule: SelectionRule) -> Evaluation:
    """The highest value; of equals the earliest or the latest."""
    sign = -1 if rule.tie == "earliest" else 1
    return max(evaluations, key=lambda e: (e.metrics[metric], sign * e.step))


def compare(best: Evaluation, other: Evaluation, metric: str) -> Comparison:
    """Another checkpoint minus the best one, on the same problems."""
    difference = paired_difference(best.outcomes[metric], other.outcomes[metric])
    return Comparison(other.step, other.metrics[metric], difference)
