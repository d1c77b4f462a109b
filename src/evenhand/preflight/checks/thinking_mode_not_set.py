"""``thinking-mode-not-set``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class ThinkingModeNotSet(Check):
    """The chat template has a thinking switch, and nothing sets it.

    ## Why it matters

    The template's default decides length and form of every completion, and another version of the tokenizer may have
    another default.

    ## Example

    A hybrid model fills 192 tokens with a think block and never comes to the answer.

    ## Remedy

    Set it, and set it alike in training, evaluation and use.
    """

    code: ClassVar[str] = "thinking-mode-not-set"
    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[tuple[Part, ...]] = ("model", "settings")

    def judge(self, setup: Setup) -> Verdict:
        """Whether the template asks for ``enable_thinking`` and the trainer gives it."""
        model, settings = present(setup.model), present(setup.settings)
        given = settings.train.get("chat_template_kwargs") or {}
        if "enable_thinking" not in model.template or "enable_thinking" in given:
            return None
        return self.finding(
            f"The chat template of {model.name} has a thinking switch, and chat_template_kwargs does not set it.",
            evidence={"chat_template_kwargs": dict(given)},
            remedy='--set chat_template_kwargs={"enable_thinking": false}',
        )

    def sick(self) -> Setup:
        """No arguments for the template."""
        return Setup(model=examples.model(), settings=examples.settings(chat_template_kwargs={}))


CHECK = ThinkingModeNotSet()
