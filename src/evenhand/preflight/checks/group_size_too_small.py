"""``group-size-too-small-for-difficulty``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity

SIZES = (2, 4, 8, 16, 32)
FEW = 0.4  # fewer groups than this with any spread: more than half of the sampling is thrown away
ENOUGH = 0.75


class GroupSizeTooSmall(Check):
    """At the fresh model's success rate most groups have no spread.

    ## Why it matters

    A group in which all are right or all wrong has no advantage. With a success rate p and a reward of right or wrong,
    a group of G is useless with probability p^G + (1 - p)^G: its sampling is paid for and thrown away.

    ## Example

    p = 0.18: of groups of 2, 30 % have spread; of groups of 8, 80 %.

    ## Remedy

    Larger groups, easier problems, or rewards with partial credit; the finding shows the share for each size.
    """

    code: ClassVar[str] = "group-size-too-small-for-difficulty"
    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[tuple[Part, ...]] = ("samples", "settings")

    def judge(self, setup: Setup) -> Verdict:
        """The share of sampled groups with spread; partial credit counts, so the formula alone does not decide."""
        samples, settings = present(setup.samples), present(setup.settings)
        rate = samples.success_rate
        shares = {size: informative_share(rate, size) for size in SIZES}
        sampled = len(samples.groups[0]) if samples.groups else 0
        measured = samples.spread_share
        if len(samples.groups) < 4 or sampled < 2:
            return self.unknown("too few groups were sampled")
        # a group sampled larger than the run's would show more spread than the run will
        expected = measured if sampled <= settings.group_size else min(measured, 1.0)
        if expected >= FEW or rate in (0.0, 1.0):
            return None
        advised = next((size for size, share in shares.items() if share >= ENOUGH), SIZES[-1])
        told = ", ".join(f"{size}: {share:.0%} at {size / settings.group_size:.3g}×" for size, share in shares.items())
        return self.finding(
            f"{measured:.0%} of the sampled groups have any spread, at a success rate of {rate:.1%}. Share that right "
            f"or wrong alone gives, by group size and sampling cost: {told}.",
            evidence={"success_rate": rate, "measured_spread": measured, "share_by_size": shares},
            remedy=f"--set num_generations={advised}",
        )

    def sick(self) -> Setup:
        """Groups of two, of which one in four has any spread."""
        twos = examples.samples((0.0, 0.0))
        one_right = examples.samples((0.0, 2.0)).completions[:2]
        return Setup(
            settings=examples.settings(num_generations=2),
            samples=examples.samples(completions=(*one_right, *twos.completions[2:])),
        )


def informative_share(rate: float, size: int) -> float:
    """Share of groups of ``size`` in which right and wrong both occur: 1 - p^G - (1 - p)^G."""
    return 1 - rate**size - (1 - rate) ** size


CHECK = GroupSizeTooSmall()
