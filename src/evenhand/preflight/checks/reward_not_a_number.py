"""``reward-not-a-number``."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity
from evenhand.rewards import text_of


class RewardNotANumber(Check):
    """A reward function returns NaN, infinity, or no score.

    ## Why it matters

    An infinite reward makes the advantages of its whole group NaN. NaN and None count as "not judged": TRL leaves the
    term out of the sum, so the completion is paid by the other terms alone, and by none it learns nothing.

    ## Example

    `math.log(0)` guarded by returning NaN; a parser that returns None for everything it cannot read, and so never
    punishes an unreadable answer.

    ## Remedy

    Return a number for every text; None only where a completion truly cannot be judged.
    """

    code: ClassVar[str] = "reward-not-a-number"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """The dry run's values; None alone is a note, since TRL allows it."""
        study = present(setup.rewards)
        infinite, missing, none = [], [], []
        for name, outcomes in study.dry_run.items():
            values = [value for outcome in outcomes for value in outcome.values]
            nones = sum(outcome.nones for outcome in outcomes)
            if any(math.isinf(value) for value in values):
                infinite.append(name)
            if sum(math.isnan(value) for value in values) > nones:
                missing.append(name)
            if nones:
                none.append(name)
        if not (infinite or missing or none):
            return None
        parts = [("infinity", infinite), ("NaN", missing), ("None", none)]
        told = "; ".join(f"{', '.join(names)} returned {what}" for what, names in parts if names)
        return self.finding(
            f"{told}, for texts as a model may write them.",
            severity="stop" if infinite or missing else "note",
            evidence={what: names for what, names in parts if names},
            remedy="Return a number for every text; None leaves the term out of the completion's reward.",
        )

    def sick(self) -> Setup:
        """A logarithm of nothing."""
        return Setup(rewards=examples.study(infinite_for_nothing))


def infinite_for_nothing(completions: Sequence[Any], **_: Any) -> list[float]:
    """The logarithm of the length."""
    lengths = [len(text_of(completion)) for completion in completions]
    return [math.log(length) if length else -math.inf for length in lengths]


CHECK = RewardNotANumber()
