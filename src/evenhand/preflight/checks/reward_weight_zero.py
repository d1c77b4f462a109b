"""``reward-weight-zero``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class RewardWeightZero(Check):
    """A reward is computed and weighted 0.

    ## Why it matters

    Its curve is drawn beside the others, and nothing pushes it. A flat line there says nothing about training.

    ## Example

    Weights 1, 0, 0: exact match and format are logged for 100 steps and never trained.

    ## Remedy

    Give it a weight, or keep it as a measurement knowingly.
    """

    code: ClassVar[str] = "reward-weight-zero"
    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """The weights."""
        terms = present(setup.rewards).terms
        unpaid = [term.name for term in terms if term.weight == 0]
        if not unpaid:
            return None
        return self.finding(
            f"Weighted 0, so logged and never trained: {', '.join(unpaid)}.",
            evidence={term.name: term.weight for term in terms},
            remedy="Set train.reward_weights, or read these curves as measurements.",
        )

    def sick(self) -> Setup:
        """The second of two counts nothing."""
        return Setup(rewards=examples.study(examples.exact, examples.near, weights=(1.0, 0.0)))


CHECK = RewardWeightZero()
