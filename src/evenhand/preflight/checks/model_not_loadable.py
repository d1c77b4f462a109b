"""``model-not-loadable``."""

from typing import ClassVar

from evenhand.preflight.check import Check, Verdict
from evenhand.preflight.setup import Setup
from evenhand.records import Severity


class ModelNotLoadable(Check):
    """The model cannot be loaded.

    ## Why it matters

    Training would end there. Nothing is fetched: every model is a local directory with all of its files.

    ## Example

    A directory with config.json and tokenizer.json, and no model.safetensors.

    ## Remedy

    Copy the files that the finding names.
    """

    code: ClassVar[str] = "model-not-loadable"
    severity: ClassVar[Severity] = "stop"

    def judge(self, setup: Setup) -> Verdict:
        """What loading it said."""
        return self.finding(setup.load_failure, remedy="Copy the missing files.") if setup.load_failure else None

    def sick(self) -> Setup:
        """No weights."""
        return Setup(load_failure="The model directory models/mine lacks model.safetensors.")


CHECK = ModelNotLoadable()
