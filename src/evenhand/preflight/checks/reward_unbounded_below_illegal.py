"""``reward-unbounded-below-illegal``."""

from collections.abc import Sequence
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.exploits import search
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity
from evenhand.rewards import text_of


class RewardUnboundedBelowIllegal(Check):
    """A legal answer that is far off scores below a text that is no answer at all.

    ## Why it matters

    Saying nothing readable becomes the safe choice. The model gives up the form of an answer before it has learned to
    give a right one.

    ## Example

    Reward -|prediction - truth| with -11 for gibberish: the legal answer 24 to a problem whose answer is 6 earns -18.

    ## Remedy

    Bound the distance, so that the worst legal answer stays above what gibberish gets.
    """

    code: ClassVar[str] = "reward-unbounded-below-illegal"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """Answers of gold's form that are out of reach, against texts that answer nothing."""
        study = present(setup.rewards)
        exploits = search(study)
        if not exploits.legal:
            return self.unknown("gold texts show no form whose number could be changed")
        worst, nothing = exploits.legal[0], max(exploits.illegal, key=lambda paid: paid.mean)
        if worst.mean >= nothing.mean - 1e-9:
            return None
        return self.finding(
            f"The legal answer {worst.text!r} earns {worst.mean:.6g} on average, less than {nothing.text!r} with "
            f"{nothing.mean:.6g}.",
            evidence={"legal": worst.mean, "legal_text": worst.text, "illegal": nothing.mean},
            remedy=f"Bound the reward of a legal answer from below, above {nothing.mean:.6g}.",
        )

    def sick(self) -> Setup:
        """A distance without a bound."""
        return Setup(rewards=examples.study(unbounded))


def unbounded(completions: Sequence[Any], answer: Sequence[int], **_: Any) -> list[float]:
    """Minus the distance, and -11 for what is no sum."""
    texts = [text_of(completion).removeprefix("Sum: ") for completion in completions]
    numbers = [int(text) if text.lstrip("-").isdigit() else None for text in texts]
    return [-11.0 if n is None else -float(abs(n - truth)) for n, truth in zip(numbers, answer, strict=True)]


CHECK = RewardUnboundedBelowIllegal()
