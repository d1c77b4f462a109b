"""``eval-cost-high``."""

from dataclasses import replace
from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.cost import clock, seconds_per_completion, step_seconds
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity

HIGH = 0.5  # of the training time


class EvalCostHigh(Check):
    """Evaluations take a large part of the run's time.

    ## Why it matters

    Every evaluation decodes the whole split. Too often, or with too many problems, it costs more than the training that
    it watches.

    ## Example

    1000 problems every 5 steps of 32 completions: six times the training.

    ## Remedy

    Evaluate less often, or fewer problems; a smaller split has a wider interval.
    """

    code: ClassVar[str] = "eval-cost-high"
    severity: ClassVar[Severity] = "note"
    needs: ClassVar[tuple[Part, ...]] = ("samples", "settings")

    def judge(self, setup: Setup) -> Verdict:
        """Measured sampling speed times the problems of all evaluations, beside the training."""
        samples, settings = present(setup.samples), present(setup.settings)
        training = (step_seconds(setup) or 0.0) * settings.updates
        rounds = settings.updates // max(settings.evaluate_every, 1) + 1
        evaluating = seconds_per_completion(samples) * settings.evaluation_problems * rounds
        if not training or evaluating < HIGH * training:
            return None
        return self.finding(
            f"{rounds} evaluations of {settings.evaluation_problems} problems take about {clock(evaluating)}, the "
            f"training itself {clock(training)}.",
            evidence={"evaluations": rounds, "evaluation_seconds": evaluating, "training_seconds": training},
            remedy=f"--set evaluation.every={settings.evaluate_every * 2}",
        )

    def sick(self) -> Setup:
        """A thousand problems every five steps."""
        settings = replace(examples.settings(), evaluate_every=5, evaluation_problems=1000)
        return Setup(samples=examples.samples(), settings=settings)


CHECK = EvalCostHigh()
