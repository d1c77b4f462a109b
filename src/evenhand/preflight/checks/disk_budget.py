"""``disk-budget-exceeded``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.budget import as_gib, checkpoint_bytes
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.checks.evaluation_not_on_saved_steps import saved_steps
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class DiskBudget(Check):
    """The run's checkpoints need more disk than there is.

    ## Why it matters

    A full disk ends the run at a save, and the checkpoint that was being written is lost.

    ## Example

    0.6B parameters in FP32, ten checkpoints with Adam's moments: 66 GB.

    ## Remedy

    Save less often, keep fewer (`save_total_limit`), or name another disk with --out.
    """

    code: ClassVar[str] = "disk-budget-exceeded"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("model", "settings", "machine")

    def judge(self, setup: Setup) -> Verdict:
        """Checkpoints times their size against what is free."""
        model, settings, machine = present(setup.model), present(setup.settings), present(setup.machine)
        if not machine.disk:
            return self.unknown("how much disk is free is not known")
        count = len(saved_steps(settings))
        limit = settings.train.get("save_total_limit")
        kept = min(count, limit + 1) if isinstance(limit, int) and limit > 0 else count
        each = checkpoint_bytes(model)
        if each * kept <= machine.disk:
            return None
        return self.finding(
            f"{kept} checkpoints of {as_gib(each)} GiB (weights and Adam's two moments) need {as_gib(each * kept)} "
            f"GiB; {as_gib(machine.disk)} are free.",
            evidence={"checkpoints": kept, "bytes_each": each, "free": machine.disk},
            remedy=f"--set save_total_limit={max(1, machine.disk // max(each, 1) - 2)}, or --out on another disk.",
        )

    def sick(self) -> Setup:
        """Ten checkpoints on a full disk."""
        return Setup(model=examples.model(), settings=examples.settings(), machine=examples.machine(disk=examples.GIB))


CHECK = DiskBudget()
