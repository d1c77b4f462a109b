"""``reward-wrong-length``."""

from collections.abc import Sequence
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity
from evenhand.rewards import text_of


class RewardWrongLength(Check):
    """A reward function returns another number of scores than it got completions.

    ## Why it matters

    Older versions of TRL spread one score over the whole batch, so that every group is uniform and nothing is learned;
    newer ones raise at the first step.

    ## Example

    `return sum(scores) / len(scores)` in brackets: 1 score for 3 completions.

    ## Remedy

    Return one score per completion, in the order of the completions.
    """

    code: ClassVar[str] = "reward-wrong-length"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """The dry run with 3 and with 8 completions."""
        study = present(setup.rewards)
        wrong = {
            name: fault.message
            for name, outcomes in study.dry_run.items()
            for fault in [next((o.fault for o in outcomes if o.fault and o.fault.kind == "length"), None)]
            if fault is not None
        }
        if not wrong:
            return None
        return self.finding(
            "; ".join(wrong.values()) + ".",
            evidence={"rewards": list(wrong)},
            remedy="Return one score per completion, in the same order.",
        )

    def sick(self) -> Setup:
        """One mean for the batch."""
        return Setup(rewards=examples.study(one_for_all))


def one_for_all(completions: Sequence[Any], **_: Any) -> list[float]:
    """A mean, where scores are wanted."""
    return [sum(len(text_of(c)) for c in completions) / len(completions)]


CHECK = RewardWrongLength()
