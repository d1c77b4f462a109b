"""``norm-weights-frozen-by-bf16``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import GroupUpdate, Part, Setup
from evenhand.records import Severity

# Norm weights near 1 in BF16 move at none of the usual learning rates; other models' lie lower and move by a few
# thousandths, which is as good as nothing: 0.3 to 0.5 % of SmolLM2's (median 0.27) in three steps at 1e-5.
FROZEN_BELOW = 0.01


class NormWeightsFrozen(Check):
    """Norm weights in BF16 that an update of this size cannot move.

    ## Why it matters

    A BF16 number near 1 has neighbours 0.0039 and 0.0078 away. An update below half of that is rounded back, every
    time; a larger learning rate moves the matrices and still not the norms.

    ## Example

    lr 1e-5 and 3e-5: 12 % and 24 % of a projection's entries changed, 0 % of the norms.

    ## Remedy

    Keep the norms in FP32 (65,536 of 596 million parameters): --set precision.norms=float32.
    """

    code: ClassVar[str] = "norm-weights-frozen-by-bf16"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("updates",)

    def judge(self, setup: Setup) -> Verdict:
        """Predicted from learning rate and unit in the last place, measured by three steps; both must agree."""
        updates = present(setup.updates)
        frozen = [
            group
            for group in updates.groups
            if group.name == "norms" and group.dtype != "float32" and group.moved < FROZEN_BELOW
        ]
        if not frozen:
            return None
        norms = frozen[0]
        return self.finding(
            f"{norms.moved:.2%} of the {norms.dtype} norm weights moved in {updates.steps} real steps at learning rate "
            f"{updates.learning_rate:g}; predicted were {norms.predicted:.2%}. {sizes(norms)}",
            evidence={"moved": norms.moved, "predicted": norms.predicted, "update": norms.update, "unit": norms.unit},
            remedy="--set precision.norms=float32",
        )

    def sick(self) -> Setup:
        """BF16 norms near 1 at 1e-5."""
        norms = GroupUpdate("norms", "bfloat16", 65_536, 0.0, 0.0, finite=1.0, nonzero=1.0, update=1e-5, unit=0.0078)
        others = [group for group in examples.updates().groups if group.name != "norms"]
        return Setup(updates=examples.updates(groups=(*others, norms)))


def sizes(group: GroupUpdate) -> str:
    """The update beside the distance to the next value."""
    return f"A step changes an entry by about {group.update:.1e}; its next value is {group.unit:.1e} away."


CHECK = NormWeightsFrozen()
