"""``device-not-usable``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup, Unusable
from evenhand.records import Severity


class DeviceNotUsable(Check):
    """The device that was asked for cannot be used by this process.

    ## Why it matters

    "Not available" has four causes with four cures: this build of PyTorch lacks the device, the machine has none, a
    restricted shell hides it, or another interpreter is running than the one it was installed for.

    ## Example

    `torch.backends.mps.is_available()` is false inside a sandboxed shell of a Mac on which it works; the run goes on
    for hours on the processor.

    ## Remedy

    As the finding says for its cause.
    """

    code: ClassVar[str] = "device-not-usable"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("machine",)

    def judge(self, setup: Setup) -> Verdict:
        """A stop where the device was asked for; a warning where ``auto`` passes over one that the machine has."""
        machine = present(setup.machine)
        chosen = machine.unusable.get(machine.asked)
        if machine.asked == "auto":
            passed = [name for name, why in machine.unusable.items() if why.cause != "not-present"]
            if not passed:
                return None
            chosen = machine.unusable[passed[0]]
            told, severity = f"{passed[0]} is passed over, and {machine.device} used: {chosen.reason}.", WARN
        elif chosen is not None:
            told, severity = f"{machine.asked} cannot be used: {chosen.reason}.", STOP
        else:
            return None
        evidence = {name: {"cause": why.cause, "reason": why.reason} for name, why in machine.unusable.items()}
        return self.finding(told, severity=severity, evidence=evidence, remedy=chosen.remedy or "--set device=auto")

    def sick(self) -> Setup:
        """A GPU is asked for, and this build of PyTorch has no CUDA."""
        unusable = {"cuda": Unusable("not-built", "this PyTorch was built without it", "Install a build that has it.")}
        return Setup(machine=examples.machine(asked="cuda", unusable=unusable))


WARN: Severity = "warn"
STOP: Severity = "stop"

CHECK = DeviceNotUsable()
