"""``sampling-measured``."""

import math
from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.checks.group_size_too_small import ENOUGH, SIZES, informative_share
from evenhand.preflight.setup import Part, Samples, Setup
from evenhand.records import Severity


class SamplingMeasured(Check):
    """What the fresh model writes: how varied, how long, how often right.

    ## Why it matters

    Group size and completion limit decide what a step costs and whether it can teach anything. Both follow from a few
    groups of the fresh model.

    ## Example

    9 of 32 texts distinct, all ended by themselves, longest 57 of 64 tokens, 30 % right, 94 % of groups with spread.

    ## Remedy

    None; it is always shown when a model was sampled.
    """

    code: ClassVar[str] = "sampling-measured"
    severity: ClassVar[Severity] = "note"
    needs: ClassVar[tuple[Part, ...]] = ("samples", "settings")

    def judge(self, setup: Setup) -> Verdict:
        """Counts over the sampled groups, and what they advise."""
        samples, settings = present(setup.samples), present(setup.settings)
        if not samples.completions:
            return self.unknown("nothing was sampled")
        n, facts = len(samples.completions), measured(samples)
        size, limit = advised_size(samples.success_rate), advised_limit(samples, setup)
        return self.finding(
            f"{n} completions of {len(samples.groups)} problems: {facts['distinct']} distinct texts, {facts['ended']} "
            f"ended by themselves, {facts['longest']} of {samples.limit} tokens at most, {samples.success_rate:.0%} "
            f"right, {samples.spread_share:.0%} of groups with spread, mean reward {samples.mean_reward:.4g} of "
            f"{samples.ceiling:.4g}. Advised: group size {size} ({size / settings.group_size:.3g}× the sampling of "
            f"{settings.group_size}), limit {limit} tokens.",
            evidence={
                **facts,
                "success_rate": samples.success_rate,
                "spread_share": samples.spread_share,
                "mean_reward": samples.mean_reward,
                "seconds": samples.seconds,
                "advised_group_size": size,
                "advised_limit": limit,
            },
        )

    def sick(self) -> Setup:
        """Any sampled set-up: this is always said."""
        return Setup(samples=examples.samples(), settings=examples.settings())


def measured(samples: Samples) -> dict[str, float]:
    """Counts and means over all completions."""
    lengths = sorted(sample.tokens for sample in samples.completions)
    facts: dict[str, float] = {
        "completions": len(lengths),
        "distinct": sum(len({sample.text for sample in group}) for group in samples.groups),
        "ended": sum(sample.ended for sample in samples.completions),
        "median_length": lengths[len(lengths) // 2],
        "longest": lengths[-1],
    }
    names = samples.completions[0].metrics
    return facts | {name: sum(s.metrics[name] for s in samples.completions) / len(lengths) for name in names}


def advised_size(rate: float) -> int:
    """The smallest group of which three in four have right and wrong in them; 8 where the rate says nothing."""
    if rate in (0.0, 1.0):
        return 8
    return next((size for size in SIZES if informative_share(rate, size) >= ENOUGH), SIZES[-1])


def advised_limit(samples: Samples, setup: Setup) -> int:
    """The 95th percentile of lengths that ended and the longest gold text, whichever is longer, and an eighth more."""
    ended = sorted(sample.tokens for sample in samples.completions if sample.ended)
    usual = ended[math.ceil(0.95 * len(ended)) - 1] if ended else samples.limit
    gold = setup.model.gold_tokens if setup.model is not None else None
    return math.ceil(max(usual, gold or 0) * 1.125)


CHECK = SamplingMeasured()
