"""``logging-steps-fractional``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity

ENOUGH_ROWS = 30  # fewer cannot be told from noise later


class LoggingStepsFractional(Check):
    """So few rows will be logged that the run cannot be diagnosed.

    ## Why it matters

    A fraction means a share of all steps, and a modulo test against it is false after the first step: completions are
    shown once and never again. Trends need rows.

    ## Example

    `logging_steps = 0.0001`; or 50 in a run of 100 steps: two rows.

    ## Remedy

    `logging_steps = 1`; a row costs nothing.
    """

    code: ClassVar[str] = "logging-steps-fractional"
    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[tuple[Part, ...]] = ("settings",)

    def judge(self, setup: Setup) -> Verdict:
        """Fractions, and intervals that leave fewer than 30 rows of a run that has more steps."""
        settings = present(setup.settings)
        interval = settings.number("logging_steps", 10)
        rows = settings.updates // interval if interval >= 1 else 0
        fractional = 0 < interval < 1
        if not fractional and (interval <= 1 or rows >= ENOUGH_ROWS or settings.updates < ENOUGH_ROWS):
            return None
        said = "is a fraction of all steps" if fractional else f"leaves {int(rows)} rows of {settings.updates} steps"
        return self.finding(
            f"logging_steps = {interval:g} {said}.",
            evidence={"logging_steps": interval, "updates": settings.updates},
            remedy="--set logging_steps=1",
        )

    def sick(self) -> Setup:
        """A fraction."""
        return Setup(settings=examples.settings(logging_steps=0.0001))


CHECK = LoggingStepsFractional()
