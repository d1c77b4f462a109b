"""``completion-budget-too-small``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class CompletionBudgetTooSmall(Check):
    """The longest right answer does not fit into the completion limit.

    ## Why it matters

    A completion that is cut off before its answer is scored as wrong, however right it began.

    ## Example

    The form was changed from one number to eleven lines, and the limit of 8 tokens stayed.

    ## Remedy

    At least the longest gold text and its end token; a third more leaves room to be wrong.
    """

    code: ClassVar[str] = "completion-budget-too-small"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("model", "settings")

    def judge(self, setup: Setup) -> Verdict:
        """Tokens of the longest gold text with its end against ``max_completion_length``."""
        model, settings = present(setup.model), present(setup.settings)
        limit = int(settings.number("max_completion_length", 512))
        if model.gold_tokens is None:
            return self.unknown("no gold text is known")
        if model.gold_tokens <= limit:
            return None
        return self.finding(
            f"The longest gold text takes {model.gold_tokens} tokens with its end, and the limit is {limit}.",
            evidence={"gold_tokens": model.gold_tokens, "max_completion_length": limit},
            remedy=f"--set max_completion_length={model.gold_tokens * 4 // 3}",
        )

    def sick(self) -> Setup:
        """Eleven lines in eight tokens."""
        return Setup(model=examples.model(), settings=examples.settings(max_completion_length=8))


CHECK = CompletionBudgetTooSmall()
