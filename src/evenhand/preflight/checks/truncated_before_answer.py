"""``truncated-before-answer``."""

from dataclasses import replace
from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity

MOST_CUT = 0.5  # from half on, what is paid is mostly the beginning of texts


class TruncatedBeforeAnswer(Check):
    """Most completions of the fresh model hit the limit before they end.

    ## Why it matters

    The checker never sees an answer, everything scores alike, and the run goes on for hours with reward, loss and
    gradient at zero.

    ## Example

    Limit 256, answers of 600 to 700 tokens: 97 % cut off.

    ## Remedy

    Set the limit near the 95th percentile of free-running lengths, or show the model how to be short.
    """

    code: ClassVar[str] = "truncated-before-answer"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("samples",)

    def judge(self, setup: Setup) -> Verdict:
        """The share of completions without an end, and what they earn beside those that end."""
        samples = present(setup.samples)
        cut = [sample for sample in samples.completions if not sample.ended]
        share = len(cut) / max(len(samples.completions), 1)
        if share < MOST_CUT:
            return None
        ended = [sample.tokens for sample in samples.completions if sample.ended]
        by_itself = f"those that end by themselves take {max(ended)} tokens at most" if ended else "none ends by itself"
        return self.finding(
            f"{share:.0%} of {len(samples.completions)} completions hit the limit of {samples.limit} tokens; "
            f"{by_itself}.",
            evidence={"cut_off": share, "limit": samples.limit, "longest_ended": max(ended, default=None)},
            remedy=f"Raise the limit: --set max_completion_length={samples.limit * 2}, and look at one completion.",
        )

    def sick(self) -> Setup:
        """Nothing ends."""
        healthy = examples.samples()
        cut = tuple(replace(sample, ended=False, tokens=healthy.limit) for sample in healthy.completions)
        return Setup(samples=replace(healthy, completions=cut))


CHECK = TruncatedBeforeAnswer()
