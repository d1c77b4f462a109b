"""``split-empty``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class SplitEmpty(Check):
    """A split holds no problem.

    ## Why it matters

    Nothing can be trained or measured on it, and a mean over nothing is no number.

    ## Example

    A filter on the length of prompts removed every row of dev; the evaluation at step 0 fails.

    ## Remedy

    Look at the filter or the file that made the split.
    """

    code: ClassVar[str] = "split-empty"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("data",)

    def judge(self, setup: Setup) -> Verdict:
        """Any split without rows."""
        data = present(setup.data)
        empty = [name for name, questions in data.splits.items() if not questions]
        if not empty and data.splits:
            return None
        return self.finding(
            f"No problem in {', '.join(empty) or 'any split'} of {data.source}.",
            evidence={name: len(questions) for name, questions in data.splits.items()},
            remedy="Look at the filter or the file that made this split.",
        )

    def sick(self) -> Setup:
        """Nothing in dev."""
        return Setup(data=examples.data(splits={"train": examples.sums(20), "dev": ()}))


CHECK = SplitEmpty()
