"""``split-overlap``."""

from itertools import combinations
from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class SplitOverlap(Check):
    """The same problem stands in two splits.

    ## Why it matters

    A problem that was trained on measures memory when it is asked again. Scores on the overlap say nothing about new
    problems.

    ## Example

    12 of 50 dev problems are also training problems: dev accuracy rises by up to 24 points without any ability.

    ## Remedy

    Draw the splits with different seeds and drop the problems that they share.
    """

    code: ClassVar[str] = "split-overlap"
    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[tuple[Part, ...]] = ("data",)

    def judge(self, setup: Setup) -> Verdict:
        """Problems are the same where their whole prompts are."""
        splits = present(setup.data).splits
        if len(splits) < 2:
            return self.unknown("there is only one split")
        prompts = {name: {question.whole for question in questions} for name, questions in splits.items()}
        shared = {f"{a}, {b}": len(prompts[a] & prompts[b]) for a, b in combinations(prompts, 2)}
        found = {pair: count for pair, count in shared.items() if count}
        if not found:
            return None
        told = "; ".join(f"{pair}: {count}" for pair, count in found.items())
        return self.finding(
            f"Splits share problems ({told}), so a score on one says something about memory.",
            evidence={"shared": found, "problems": {name: len(texts) for name, texts in prompts.items()}},
            remedy="Remove the shared problems from the split that is trained on.",
        )

    def sick(self) -> Setup:
        """Five problems of train are asked again in dev."""
        questions = examples.sums(30)
        return Setup(data=examples.data(splits={"train": questions[:25], "dev": questions[20:]}))


CHECK = SplitOverlap()
