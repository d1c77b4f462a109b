"""``constant-answer-pays``."""

from collections.abc import Sequence
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.exploits import search
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity
from evenhand.rewards import text_of

LARGE = 0.5  # half of gold for one and the same text
# A fresh model that cannot do the task earns next to nothing, and every constant beats it; worth a warning only where
# the constant earns something itself.
WORTH_A_WORD = 0.2


class ConstantAnswerPays(Check):
    """One and the same text for every problem earns a large part of gold's reward, or more than the fresh model.

    ## Why it matters

    The policy drifts to that text: it is the safest bet, needs no input, and each step toward it pays. Accuracy stands
    still while the weights move.

    ## Example

    Under the distance reward -|prediction - truth| / 11, always saying 5 costs 0.25 a problem, and gold costs 0:
    the run ended with "4" for 40 of 50 problems.

    ## Remedy

    Pay for being right, not for being near; or pay for nearness only inside a group that has a right answer.
    """

    code: ClassVar[str] = "constant-answer-pays"
    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """The best text that is the same for every problem."""
        study = present(setup.rewards)
        if not study.gold_known:
            return self.unknown("no gold text is known; name its column with --gold")
        constants = search(study).constant
        if not constants:
            return None
        best = constants[0]
        fresh = setup.samples.mean_reward if setup.samples is not None else None
        beats = fresh is not None and best.mean > fresh and best.share > WORTH_A_WORD
        if not (best.share >= LARGE or beats):
            return None
        compared = "" if fresh is None else f"; the fresh model earns {study.share(fresh):.0%}"
        return self.finding(
            f"Always answering {best.text!r} earns {best.share:.0%} of gold (mean reward {best.mean:.5g}){compared}.",
            evidence={"text": best.text, "mean": best.mean, "share": best.share, "fresh_model_mean": fresh},
            remedy="Pay for being right rather than for being near.",
        )

    def sick(self) -> Setup:
        """A distance reward."""
        return Setup(rewards=examples.study(distance))


def distance(completions: Sequence[Any], answer: Sequence[int], **_: Any) -> list[float]:
    """Minus the distance, and -11 for what is no sum."""
    texts = [text_of(completion).removeprefix("Sum: ") for completion in completions]
    return [-abs(int(t) - truth) if t.isdigit() else -11.0 for t, truth in zip(texts, answer, strict=True)]


CHECK = ConstantAnswerPays()
