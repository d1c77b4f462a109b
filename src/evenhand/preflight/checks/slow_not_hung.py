"""``slow-not-hung``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.cost import clock, step_seconds
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity

LONG = 60.0  # seconds without a line in the log, after which people begin to wonder


class SlowNotHung(Check):
    """The first row of the log will take minutes.

    ## Why it matters

    A run that prints nothing looks hung and is killed. On a processor one generation of a group can take that long.

    ## Example

    0.5B parameters on a laptop's processor: four minutes before the first row.

    ## Remedy

    Wait, or take fewer or shorter completions.
    """

    code: ClassVar[str] = "slow-not-hung"
    severity: ClassVar[Severity] = "note"
    needs: ClassVar[tuple[Part, ...]] = ("samples", "settings")

    def judge(self, setup: Setup) -> Verdict:
        """Measured speed times the completions of one update."""
        settings = present(setup.settings)
        seconds = step_seconds(setup) or 0.0
        first = seconds * max(settings.number("logging_steps", 1), 1)
        if first < LONG:
            return None
        return self.finding(
            f"About {clock(seconds)} an update, {clock(first)} before the first row of the log, "
            f"{clock(seconds * settings.updates)} in all.",
            evidence={"seconds_per_update": seconds, "seconds_in_all": seconds * settings.updates},
            remedy="It is slow, not hung. Fewer completions an update or a lower max_completion_length take less.",
        )

    def sick(self) -> Setup:
        """Ten minutes for a few groups."""
        return Setup(samples=examples.samples(seconds=600.0), settings=examples.settings())


CHECK = SlowNotHung()
