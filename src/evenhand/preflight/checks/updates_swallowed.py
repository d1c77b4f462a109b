"""``updates-swallowed``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.checks.norm_weights_frozen import sizes
from evenhand.preflight.setup import GroupUpdate, Part, Setup
from evenhand.records import Severity

# Shares of entries that moved, with finite gradients that are not zero. The reference learned with 10 to 24 %.
STOP_BELOW, WARN_BELOW, NOTE_BELOW = 0.001, 0.05, 0.5
ALIVE = 0.01  # of the gradient's entries must be non-zero, or there was nothing to swallow


class UpdatesSwallowed(Check):
    """Real steps with a living gradient leave most entries of a parameter group as they were.

    ## Why it matters

    Weights in BF16 without an FP32 copy keep eight significant bits. An update smaller than half of the last bit is
    rounded to nothing, step after step, while the gradient norm looks healthy.

    ## Example

    Pure BF16 at 1e-6: every gradient of the first step is non-zero, and nearly every entry is unchanged.

    ## Remedy

    Keep the weights in FP32; or norms alone, which are the worst off; or an optimiser with an FP32 master copy or
    stochastic rounding; or the learning rate that the finding names.
    """

    code: ClassVar[str] = "updates-swallowed"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("updates",)

    def judge(self, setup: Setup) -> Verdict:
        """The parameter group that moved least; the share of every group is said, also where all is well."""
        updates = present(setup.updates)
        broken = [group for group in updates.groups if group.finite < 1.0]
        if broken:
            return self.finding(
                f"{1 - broken[0].finite:.2%} of the gradient of {broken[0].name} is not finite.",
                evidence=table(updates.groups),
                remedy="Lower the learning rate, clip harder, or keep the weights in FP32.",
            )
        alive = [group for group in updates.groups if group.entries and group.nonzero >= ALIVE]
        if not alive:
            return self.unknown("the sampled groups gave no gradient: every completion of a group scored alike")
        worst = min(alive, key=lambda group: group.moved)
        told = ", ".join(f"{group.name} {group.moved:.2%}" for group in updates.groups if group.entries)
        return self.finding(
            f"Entries that moved in {updates.steps} real steps at learning rate {updates.learning_rate:g}: {told}. "
            f"{worst.name} ({worst.dtype}): {sizes(worst)}",
            severity=severity_of(worst.moved),
            evidence=table(updates.groups),
            remedy=remedy(worst) if worst.moved < NOTE_BELOW else "",
        )

    def sick(self) -> Setup:
        """Attention in BF16 at 1e-6."""
        groups = [
            replace(group, dtype="bfloat16", moved=0.0004, update=1e-6, unit=1.2e-4)
            if group.name == "attention"
            else group
            for group in examples.updates().groups
        ]
        return Setup(updates=examples.updates(groups=tuple(groups), learning_rate=1e-6))


def severity_of(moved: float) -> Severity:
    """By the share that moved; the share is said in any case."""
    bounds: list[tuple[float, Severity]] = [(STOP_BELOW, "stop"), (WARN_BELOW, "warn"), (NOTE_BELOW, "note")]
    return next((severity for bound, severity in bounds if moved < bound), "ok")


def table(groups: Sequence[GroupUpdate]) -> dict[str, dict[str, float | str]]:
    """Every group's figures, for evidence."""
    return {
        group.name: {
            "dtype": group.dtype,
            "moved": group.moved,
            "predicted": group.predicted,
            "finite": group.finite,
            "nonzero": group.nonzero,
            "update": group.update,
            "unit": group.unit,
        }
        for group in groups
        if group.entries
    }


def remedy(group: GroupUpdate) -> str:
    """What would let this group move."""
    if group.dtype == "float32":
        return "Raise the learning rate."
    part = "norms" if group.name == "norms" else "body"
    rate = f", or --lr {group.mends_at:.1e}, at which half of them move" if group.mends_at else ""
    return (
        f"--set precision.{part}=float32 (the same as an FP32 master copy){rate}, or an optimiser with stochastic "
        "rounding (torchao's AdamW with bf16_stochastic_round)."
    )


CHECK = UpdatesSwallowed()
