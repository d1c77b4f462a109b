"""``accuracy-flat-while-weights-move``."""

import math
from typing import ClassVar

import numpy as np

from evenhand.diagnosis.held_out import difference_z, evaluation_at, goal_series
from evenhand.diagnosis.history import History, Series, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.statistics import FLAT_Z, share_error, trend_of
from evenhand.records import Evaluation, Severity

FEWEST_EVALUATIONS = 5  # fewer leave an interval as wide as any rise that one hopes for
FEWEST_STEPS = 40  # the reference's good run had gained 18 points by then
# The rise from the first half's mean to the second's that must be excluded before "flat" is said: ten points, or twenty
# from end to end. Five evaluations of 50 problems at 30 % right cannot exclude it, and then nothing is said.
SMALLEST_RISE = 0.1
# Nothing is wrong with standing still up here.
GOOD_ENOUGH = 0.85


class AccuracyFlatWhileWeightsMove(Rule):
    """The held-out score stands still although the gradient lives and predictions change.

    ## Why it matters

    The policy moves from one wrong answer to another. Typical causes: a reward for being near, which pays for the
    middle; the reward that matters weighted zero; a goal out of the model's reach.

    ## Example

    Dev 1 of 50 from step 10 to 100 while "4" grows from 34 to 40 of 50 predictions; always saying 5 earns nearly as
    much.

    ## Remedy

    Look at what predictions change to, and let `evenhand preflight` say what the best constant answer earns.
    """

    code: ClassVar[str] = "accuracy-flat-while-weights-move"
    severity: ClassVar[Severity] = "warn"
    explains: ClassVar[frozenset[str]] = frozenset({"sampled-score-is-not-dev-score", "reward-flat"})

    def judge(self, history: History) -> Verdict:
        """At least five evaluations over 40 steps, no change beyond noise, and a rise of ten points excluded."""
        found = goal_series(history)
        if found is None:
            return self.unknown("no held-out score was logged")
        metric, series = found
        if len(series) < FEWEST_EVALUATIONS or float(series.steps[-1] - series.steps[0]) < FEWEST_STEPS:
            return self.unknown(
                f"{len(series)} evaluations; standing still needs {FEWEST_EVALUATIONS} over {FEWEST_STEPS} steps"
            )
        gradient = history.get("grad_norm").finite
        dead = not len(gradient) or float(np.median(gradient.values)) <= 1e-8
        if dead or float(series.values[-1]) >= GOOD_ENOUGH or self.moved(history, metric, series):
            return None
        return self.judge_still(history, metric, series)

    def judge_still(self, history: History, metric: str, series: Series) -> Verdict:
        """A score that did not move: whether that is known well enough, and what the predictions did."""
        widest = self.largest_rise(history, metric, series)
        if widest > SMALLEST_RISE:
            return self.unknown(f"the held-out split is too small: a rise of {widest:.2f} would not be seen")
        changed, said = self.predictions_changed(history, series)
        reward = trend_of(history.get("reward"))
        # Nothing moves at all, or the reward rises and no predictions are known: other events.
        if changed == 0 or (changed is None and reward is not None and reward.rises):
            return None
        return self.finding(
            f"The held-out {metric} stands at {series.values[-1]:.3g} over {len(series)} evaluations (step "
            f"{series.steps[0]:.0f} to {series.steps[-1]:.0f}) although the gradient is alive{said}.",
            step=series.steps[0],
            evidence={
                "metric": metric, "first": series.values[0], "last": series.values[-1], "rise_excluded": widest,
                "predictions_changed": changed, "evaluations": len(series),
            },
            remedy="Look at the prediction distribution, and what the best constant answer earns (evenhand preflight).",
        )  # fmt: skip

    def moved(self, history: History, metric: str, series: Series) -> bool:
        """Whether any evaluation differs from the first one beyond noise, or the series has a trend."""
        trend = trend_of(series)
        if trend is not None and not trend.flat:
            return True
        changes = [difference_z(history, metric, float(series.steps[0]), float(step)) for step in series.steps[1:]]
        known = [abs(z) for z in changes if z is not None]
        # The largest of several is compared, so that the bar is higher than for one.
        return bool(known) and max(known) >= FLAT_Z + 1

    def largest_rise(self, history: History, metric: str, series: Series) -> float:
        """Upper end of the 95 % interval of the second half's mean minus the first half's."""
        middle = len(series) // 2
        first, second = series.values[:middle], series.values[middle:]
        last = evaluation_at(history, float(series.steps[-1]))
        known = share_error(last.metrics[metric], last.n) if last is not None and metric in last.metrics else 0.0
        error = max(float(np.std(series.values, ddof=1)), known) * math.sqrt(1 / len(first) + 1 / len(second))
        return float(second.mean() - first.mean()) + FLAT_Z * error

    def predictions_changed(self, history: History, series: Series) -> tuple[int | None, str]:
        """How many predictions differ between the first and the last evaluation, and a clause that says so."""
        first = evaluation_at(history, float(series.steps[0]))
        last = evaluation_at(history, float(series.steps[-1]))
        if first is None or last is None or len(first.predicted) != len(last.predicted):
            return None, ""
        changed = sum(a != b for a, b in zip(first.predicted, last.predicted, strict=True))
        answer, count = max(last.predictions.items(), key=lambda pair: pair[1], default=("", 0))
        was = first.predictions.get(answer, 0)
        return changed, (
            f": {changed} of {last.n} predictions changed, from one wrong answer to another; "
            f'"{answer}" went from {was} to {count}'
        )

    def sick(self) -> History:
        """The reference's recovery run: 1 of 50 for 100 steps."""
        expected = tuple(str(index % 11) for index in range(50))
        evaluations = []
        for step in range(0, 101, 10):
            fours = 34 + (6 * step) // 100
            predicted = tuple("4" if index < fours else "5" for index in range(50))
            right = tuple(1.0 if index == 4 else 0.0 for index in range(50))
            evaluations.append(example_evaluation(step, expected, predicted, right))
        return history_of(
            {"grad_norm": [80.0, 92.0] * 5, "reward": [-0.3, -0.28] * 5, "eval/exact_match": [0.02] * 11},
            first_step=0, interval=10, evaluations=tuple(evaluations),
        )  # fmt: skip


def example_evaluation(
    step: int, expected: tuple[str, ...], predicted: tuple[str, ...], right: tuple[float, ...]
) -> Evaluation:
    """A small evaluation with one metric, for examples."""
    share = sum(right) / len(right)
    return Evaluation(
        step=step,
        split="dev",
        n=len(right),
        metrics={"exact_match": share},
        intervals={"exact_match": (0.0, 1.0)},
        predictions={answer: predicted.count(answer) for answer in sorted(set(predicted))},
        expected=expected,
        predicted=predicted,
        outcomes={"exact_match": right},
        seconds=1.0,
    )


RULE = AccuracyFlatWhileWeightsMove()
