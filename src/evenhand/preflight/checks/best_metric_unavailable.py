"""``best-metric-unavailable-in-this-version``."""

import difflib
from dataclasses import replace
from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class BestMetricUnavailable(Check):
    """A checkpoint is to be chosen by a metric that will not be there.

    ## Why it matters

    The choice is made at the end: after hours of training it fails, or falls back on another measure.

    ## Example

    `metric_for_best_model = "eval_reward"`: the installed trainer evaluates nothing by itself, and older ones did not
    hand that metric to the choice.

    ## Remedy

    Name one of the task's metrics under [selection].
    """

    code: ClassVar[str] = "best-metric-unavailable-in-this-version"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("settings",)

    def judge(self, setup: Setup) -> Verdict:
        """The selection's metric against the task's, and the trainer's own best-model options."""
        settings = present(setup.settings)
        if settings.metric is not None and settings.metrics and settings.metric not in settings.metrics:
            near = difflib.get_close_matches(settings.metric, settings.metrics, n=1)
            return self.finding(
                f"The selection goes by '{settings.metric}', and the task measures {', '.join(settings.metrics)}.",
                evidence={"metric": settings.metric, "metrics": list(settings.metrics)},
                remedy=f"--set selection.metric={near[0] if near else settings.metrics[0]}",
            )
        asked = settings.asked.get("metric_for_best_model")
        if not asked and not settings.asked.get("load_best_model_at_end"):
            return None
        return self.finding(
            f"metric_for_best_model = {asked!r} belongs to the trainer's own evaluation, which is not used here.",
            evidence={"metric_for_best_model": asked},
            remedy="Remove it, and set selection.metric.",
        )

    def sick(self) -> Setup:
        """A reward where a metric is wanted."""
        return Setup(settings=replace(examples.settings(), metric="eval_reward"))


CHECK = BestMetricUnavailable()
