"""``steps-explained``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.checks.batch_not_divisible import sum_shown
from evenhand.preflight.cost import clock, step_seconds
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class StepsExplained(Check):
    """What a step is: completions, prompts, epochs, and how long it will take.

    ## Why it matters

    Steps are taken for epochs, and completions for prompts. 100 steps may be a fifth of an epoch; a progress bar may
    show six times the steps that were computed from prompts.

    ## Example

    8 × 4 = 32 completions of 32 / 8 = 4 prompts an update; 100 updates see 400 prompts, 0.2 of 2000.

    ## Remedy

    None; it is always shown.
    """

    code: ClassVar[str] = "steps-explained"
    severity: ClassVar[Severity] = "note"
    needs: ClassVar[tuple[Part, ...]] = ("settings",)

    def judge(self, setup: Setup) -> Verdict:
        """The arithmetic of the installed TRL."""
        settings = present(setup.settings)
        if settings.group_size < 1 or settings.completions_per_update < 1:
            return self.unknown("the batch arithmetic does not work")
        iterations = max(int(settings.number("num_iterations", 1)), 1)
        prompts = settings.generations * settings.generation_batch / settings.group_size
        epochs = prompts / max(settings.problems, 1)
        again = f", each used for {iterations} updates" if iterations > 1 else ""
        time = step_seconds(setup)
        estimate = f" About {clock(time * settings.updates)} on this machine." if time else ""
        return self.finding(
            f"An update sees {settings.completions_per_update} completions ({sum_shown(settings)} sampled at a time) "
            f"of {settings.prompts_per_update:.4g} prompts{again}; {settings.updates} updates see {prompts:.6g} "
            f"prompts, {epochs:.3g} epochs of {settings.problems}.{estimate}",
            evidence={
                "completions_per_update": settings.completions_per_update,
                "prompts_per_update": settings.prompts_per_update,
                "updates": settings.updates,
                "updates_per_epoch": settings.updates_per_epoch,
                "updates_per_generation": iterations,
                "prompts": prompts,
                "epochs": epochs,
                "seconds": time * settings.updates if time else None,
            },
            remedy="To see more prompts in as many updates, raise gradient_accumulation_steps.",
        )

    def sick(self) -> Setup:
        """Any set-up: this is always said."""
        return Setup(settings=examples.settings())


CHECK = StepsExplained()
