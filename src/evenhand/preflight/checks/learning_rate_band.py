"""``learning-rate-too-low-for-adapter``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Model, Part, Setup
from evenhand.records import Severity

# Bands in which published GRPO runs lie: full weights of 0.5B and more 1e-7 to 1e-4, adapters 5e-6 to 1e-3 (TRL's
# examples use 1e-6 and 1e-5). Models below ten million parameters take more; the embedded one learns at 2e-4.
FULL = (1e-7, 1e-4)
ADAPTER = (5e-6, 1e-3)
SMALL_MODEL = 50_000_000
SMALL = (1e-6, 1e-3)


class LearningRateBand(Check):
    """The learning rate lies outside the usual band for what is trained.

    ## Why it matters

    An adapter starts at zero and needs tens of times the learning rate of full weights; with theirs it never leaves
    zero. Full weights with an adapter's learning rate are destroyed in a few steps.

    ## Example

    LoRA of rank 8 at 5e-7, copied from a full fine-tuning: no reward after a thousand steps.

    ## Remedy

    Take a learning rate inside the band, and let `evenhand probe` show that the weights move.
    """

    code: ClassVar[str] = "learning-rate-too-low-for-adapter"
    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[tuple[Part, ...]] = ("model", "settings")

    def judge(self, setup: Setup) -> Verdict:
        """The band by kind of training and size of model."""
        model, settings = present(setup.model), present(setup.settings)
        rate = settings.number("learning_rate", 1e-6)
        low, high = band(model)
        if low <= rate <= high:
            return None
        kind = "an adapter" if model.adapter else "full weights"
        return self.finding(
            f"Learning rate {rate:g} for {kind} of a model of {model.parameters / 1e6:.0f} million parameters; usual "
            f"are {low:g} to {high:g}.",
            evidence={"learning_rate": rate, "band": [low, high], "adapter": model.adapter},
            remedy=f"--set learning_rate={(low * high) ** 0.5:.0e}",
        )

    def sick(self) -> Setup:
        """A full model's learning rate for an adapter."""
        return Setup(model=examples.model(adapter=True), settings=examples.settings(learning_rate=5e-7))


def band(model: Model) -> tuple[float, float]:
    """Usual learning rates for this model."""
    if model.adapter:
        return ADAPTER
    return SMALL if model.parameters < SMALL_MODEL else FULL


CHECK = LearningRateBand()
