"""``state-left-over``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class StateLeftOver(Check):
    """The model in memory is not the fresh one on disk.

    ## Why it matters

    A notebook keeps its objects. A run that starts from a model already trained has a step-0 baseline that is not the
    fresh model's, and two runs that were to be compared are one.

    ## Example

    Step-0 baselines of 0 of 50 and then 2 of 50 for the same model: the second had been trained before.

    ## Remedy

    Load the model anew for every run, in a process of its own.
    """

    code: ClassVar[str] = "state-left-over"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("model",)

    def judge(self, setup: Setup) -> Verdict:
        """Marks of an earlier training, then the weights themselves."""
        model = present(setup.model)
        if model.trained:
            return self.finding(f"This model object is not fresh: {model.trained}.", remedy="Load it anew.")
        if setup.updates is not None and setup.updates.stale:
            return self.finding(
                f"The optimiser holds {setup.updates.stale} tensors that the model no longer has.",
                evidence={"stale": setup.updates.stale},
                remedy="Build the trainer after every change of precision.",
            )
        if not model.unequal:
            return None
        return self.finding(
            f"{len(model.unequal)} tensors in memory differ from those on disk, first {model.unequal[0]}.",
            evidence={"tensors": list(model.unequal[:20])},
            remedy="Load the model anew, in a fresh process.",
        )

    def sick(self) -> Setup:
        """A projection that was trained."""
        return Setup(model=examples.model(unequal=("model.layers.0.self_attn.q_proj.weight",)))


CHECK = StateLeftOver()
