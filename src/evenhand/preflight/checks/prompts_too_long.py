"""``prompts-too-long``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class PromptsTooLong(Check):
    """The longest prompt and a completion together exceed the model's context.

    ## Why it matters

    The run stops at the first such prompt, or the model attends to positions that it never saw in training.

    ## Example

    A prompt of 3353 tokens, a window of 2560.

    ## Remedy

    Drop or shorten those prompts before training; this version of TRL has no `max_prompt_length`.
    """

    code: ClassVar[str] = "prompts-too-long"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("model", "settings")

    def judge(self, setup: Setup) -> Verdict:
        """Tokens after the chat template."""
        model, settings = present(setup.model), present(setup.settings)
        limit = int(settings.number("max_completion_length", 512))
        if model.context is None:
            return self.unknown("the model does not say how long its context is")
        if model.prompt_tokens + limit <= model.context:
            return None
        return self.finding(
            f"The longest prompt takes {model.prompt_tokens} tokens, with {limit} of completion "
            f"{model.prompt_tokens + limit}; the context holds {model.context}.",
            evidence={"prompt": model.prompt_tokens, "completion": limit, "context": model.context},
            remedy="Drop the longest prompts from the training split, or lower max_completion_length.",
        )

    def sick(self) -> Setup:
        """A context shorter than the prompt."""
        return Setup(model=examples.model(context=128), settings=examples.settings())


CHECK = PromptsTooLong()
