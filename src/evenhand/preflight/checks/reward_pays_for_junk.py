"""``reward-pays-for-junk``."""

from collections.abc import Sequence
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.exploits import search
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity
from evenhand.rewards import text_of

WARN_FROM = 0.9
NOTE_FROM = 0.25


class RewardPaysForJunk(Check):
    """Gold with something wrong around it still earns a good part of gold's reward.

    ## Why it matters

    What is not punished stays, and grows: a word before the answer today is a paragraph later, until completions hit
    their limit.

    ## Example

    Under the rewards of stepwise-parity a stray line before the answer line leaves 80 % of the reward, any text behind
    the answer 40 %.

    ## Remedy

    Parse the whole completion, or say that free text before the answer is wanted, and leave room for it.
    """

    code: ClassVar[str] = "reward-pays-for-junk"
    severity: ClassVar[Severity] = "note"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """Text before, between, behind; the whole twice; another's gold beside it."""
        study = present(setup.rewards)
        if not study.gold_known:
            return self.unknown("no gold text is known; name its column with --gold")
        junk = search(study).junk
        best = junk[0]
        if not best.share >= NOTE_FROM:
            return None
        told = ", ".join(f"{paid.name} {paid.share:.0%}" for paid in junk if paid.share >= NOTE_FROM)
        return self.finding(
            f"Gold with something wrong around it still earns: {told}. The best paid is {best.text!r}.",
            severity="warn" if best.share >= WARN_FROM else "note",
            evidence={"shares": {paid.name: round(paid.share, 4) for paid in junk}, "text": best.text},
            remedy="Read the whole completion, so that what does not belong there costs something.",
        )

    def sick(self) -> Setup:
        """A reward that reads the first line."""
        return Setup(rewards=examples.study(first_line))


def first_line(completions: Sequence[Any], answer: Sequence[int], **_: Any) -> list[float]:
    """Full marks where the first line is right."""
    lines = [(text_of(completion).splitlines() or [""])[0] for completion in completions]
    return [float(line == f"Sum: {truth}") for line, truth in zip(lines, answer, strict=True)]


CHECK = RewardPaysForJunk()
