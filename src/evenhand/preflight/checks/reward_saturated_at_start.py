"""``reward-saturated-at-start``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity

AT_CEILING = 0.99  # of what lies between nothing and gold


class RewardSaturatedAtStart(Check):
    """The fresh model already earns everything, or nothing at all.

    ## Why it matters

    At the ceiling no completion is better than another; at the floor none is. Either way every group is uniform and
    more steps cannot help.

    ## Example

    Reward 4.0 of 4.0 for every completion in the first row, gradient 0.

    ## Remedy

    At the ceiling: harder problems. At the floor: partial credit, easier problems, or a model that was first shown the
    form of the answer.
    """

    code: ClassVar[str] = "reward-saturated-at-start"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("samples",)

    def judge(self, setup: Setup) -> Verdict:
        """The sampled rewards between floor and ceiling."""
        samples = present(setup.samples)
        rewards = [sample.reward for sample in samples.completions]
        span = samples.ceiling - samples.floor
        if not rewards or not span > 0:
            return self.unknown("nothing was sampled, or gold earns no more than nothing")
        evidence = {"mean": samples.mean_reward, "ceiling": samples.ceiling, "floor": samples.floor, "n": len(rewards)}
        if samples.mean_reward >= samples.floor + AT_CEILING * span:
            return self.finding(
                f"The fresh model earns {samples.mean_reward:.4g} of {samples.ceiling:.4g}: nothing is left to learn.",
                evidence=evidence,
                remedy="Use harder problems, or a reward with headroom.",
            )
        if max(rewards) <= samples.floor + 1e-9:
            return self.finding(
                f"None of {len(rewards)} completions earns more than saying nothing ({samples.floor:.4g}).",
                evidence=evidence,
                remedy="Give partial credit, use easier problems, or fine-tune on a few examples of the form first.",
            )
        return None

    def sick(self) -> Setup:
        """All right from the first row."""
        return Setup(samples=examples.samples((2.0,) * 8))


CHECK = RewardSaturatedAtStart()
