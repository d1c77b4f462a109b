"""``bf16-unsupported-here``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class Bf16Unsupported(Check):
    """BF16 or FP16 autocast is on and the device cannot do it.

    ## Why it matters

    The settings are refused when the trainer is built, or the process dies inside a kernel.

    ## Example

    A configuration for a GPU on a machine without one.

    ## Remedy

    Switch autocast off; weights may still be kept in BF16.
    """

    code: ClassVar[str] = "bf16-unsupported-here"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("settings", "machine")

    def judge(self, setup: Setup) -> Verdict:
        """The switches against the device."""
        settings, machine = present(setup.settings), present(setup.machine)
        bf16, fp16 = settings.train.get("bf16") is True, settings.train.get("fp16") is True
        if not (bf16 and not machine.bf16) and not (fp16 and machine.device != "cuda"):
            return None
        switch = "bf16" if bf16 else "fp16"
        return self.finding(
            f"{switch} is on, and {machine.device} here cannot train with it.",
            evidence={"device": machine.device, "bf16": bf16, "fp16": fp16},
            remedy=f"--set {switch}=false",
        )

    def sick(self) -> Setup:
        """BF16 where there is none."""
        return Setup(settings=examples.settings(bf16=True), machine=examples.machine(bf16=False))


CHECK = Bf16Unsupported()
