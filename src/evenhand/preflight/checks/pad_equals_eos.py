"""``pad-equals-eos``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class PadEqualsEos(Check):
    """The padding token is the end token.

    ## Why it matters

    A mask made from token ids cannot tell padding from a real end. The end drops out of the loss, and the model forgets
    to stop.

    ## Example

    `tokenizer.pad_token = tokenizer.eos_token`, as many tutorials write.

    ## Remedy

    Use a token of its own for padding, one that never occurs in a completion.
    """

    code: ClassVar[str] = "pad-equals-eos"
    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[tuple[Part, ...]] = ("model",)

    def judge(self, setup: Setup) -> Verdict:
        """The two ids."""
        model = present(setup.model)
        if model.pad is None or model.pad != model.end:
            return None
        return self.finding(
            f"Padding and end of text are the same token, {model.pad}.",
            evidence={"pad_token_id": model.pad, "eos_token_id": model.end},
            remedy="Set another pad_token in the model folder's tokenizer_config.json.",
        )

    def sick(self) -> Setup:
        """One id for both."""
        return Setup(model=examples.model(pad=1, end=1))


CHECK = PadEqualsEos()
