"""``mps-known-crash``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class MpsKnownCrash(Check):
    """Generate, forward and backward on this device end the process.

    ## Why it matters

    Some versions of PyTorch's Metal backend abort on shapes that GRPO produces. An abort leaves no Python traceback,
    and a run dies in the middle of the night without a word.

    ## Example

    torch 2.9.1 on an M4: incompatible dimensions in a matrix product, signal 6.

    ## Remedy

    Another version of PyTorch, another attention implementation, or the processor for a small model.
    """

    code: ClassVar[str] = "mps-known-crash"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("machine",)

    def judge(self, setup: Setup) -> Verdict:
        """What became of the child process that tried."""
        machine = present(setup.machine)
        if not machine.crash:
            return None
        return self.finding(
            f"A small model on {machine.device}: {machine.crash}.",
            evidence={"device": machine.device, "torch": machine.versions.get("torch", "unknown")},
            remedy="--set device=cpu, or another version of PyTorch.",
        )

    def sick(self) -> Setup:
        """The child was ended by a signal."""
        return Setup(machine=examples.machine(device="mps", crash="the child process was ended by signal 6 (SIGABRT)"))


CHECK = MpsKnownCrash()
