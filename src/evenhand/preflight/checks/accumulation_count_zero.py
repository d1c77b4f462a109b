"""``accumulation-count-zero``."""

from dataclasses import replace
from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class AccumulationCountZero(Check):
    """The data do not fill one generation batch, or no micro-batch is left for an update.

    ## Why it matters

    TRL's sampler drops what does not fill a generation batch. With too few problems nothing is left: an epoch has no
    step, or a mean over no micro-batch is NaN from the first row on.

    ## Example

    20 problems, 32 prompts per generation batch: 20 // 32 = 0 batches.

    ## Remedy

    Fewer prompts per generation batch, or more problems.
    """

    code: ClassVar[str] = "accumulation-count-zero"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("settings",)

    def judge(self, setup: Setup) -> Verdict:
        """Batches of an epoch, and micro-batches of an update."""
        settings = present(setup.settings)
        if settings.accumulation < 1 or settings.micro_batch < 1:
            return self.finding(
                f"{settings.micro_batch} completions × {settings.accumulation} accumulation steps: no update has any "
                "completion.",
                evidence={"micro_batch": settings.micro_batch, "accumulation": settings.accumulation},
                remedy="--set gradient_accumulation_steps=1",
            )
        prompts = settings.generation_batch // max(settings.group_size, 1)
        if not prompts or settings.problems >= prompts:
            return None
        return self.finding(
            f"One generation batch takes {prompts} prompts, and the training split has {settings.problems}: "
            f"{settings.problems} // {prompts} = 0 batches in an epoch.",
            evidence={"prompts_per_generation": prompts, "problems": settings.problems},
            remedy=f"--set gradient_accumulation_steps={max(1, settings.accumulation * settings.problems // prompts)}",
        )

    def sick(self) -> Setup:
        """Three problems where a batch takes four."""
        return Setup(settings=replace(examples.settings(), problems=3))


CHECK = AccumulationCountZero()
