"""``batch-not-divisible``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Settings, Setup
from evenhand.records import Severity


class BatchNotDivisible(Check):
    """The completions sampled at a time cannot be split into whole groups.

    ## Why it matters

    The per-device batch counts completions, not prompts. A group cut in two has no mean to be compared with, so TRL
    refuses the run.

    ## Example

    7 processes × 1 completion with groups of 8: 7 / 8.

    ## Remedy

    Processes × per-device batch × accumulation must be a multiple of the group size; the finding names the nearest
    settings that are.
    """

    code: ClassVar[str] = "batch-not-divisible"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("settings",)

    def judge(self, setup: Setup) -> Verdict:
        """TRL's own rule: the generation batch over the group size."""
        settings = present(setup.settings)
        size, batch = settings.group_size, settings.generation_batch
        explicit = settings.asked.get("generation_batch_size")
        ragged = isinstance(explicit, int) and settings.micro_batch > 0 and explicit % settings.micro_batch != 0
        if size < 1 or (batch % size == 0 and batch > 0 and not ragged):
            return None
        return self.finding(
            f"{sum_shown(settings)} completions are sampled at a time, which is {batch / size:.4g} groups of {size}.",
            evidence={"completions": batch, "num_generations": size, "nearest": nearest(settings)},
            remedy="Nearest that work: " + "; ".join(nearest(settings)) + ".",
        )

    def sick(self) -> Setup:
        """One completion at a time for groups of eight."""
        return Setup(
            settings=examples.settings(per_device_train_batch_size=1, gradient_accumulation_steps=1, num_generations=8)
        )


def sum_shown(settings: Settings) -> str:
    """The multiplication that gives the generation batch."""
    explicit = settings.asked.get("generation_batch_size")
    if isinstance(explicit, int):
        return f"generation_batch_size = {explicit}"
    per_device = settings.micro_batch // max(settings.processes, 1)
    steps = settings.generation_batch // max(settings.micro_batch, 1)
    return f"{settings.processes} processes × {per_device} per device × {steps} = {settings.generation_batch}"


def nearest(settings: Settings) -> list[str]:
    """Settings near the asked ones for which every group is whole, with the prompts an update sees."""
    size, per_device, processes = settings.group_size, settings.micro_batch, settings.processes
    per_device //= max(processes, 1)
    found = []
    for accumulation in sorted(range(1, 65), key=lambda steps: abs(steps - settings.accumulation)):
        completions = processes * per_device * accumulation
        if completions and completions % size == 0:
            found.append(f"gradient_accumulation_steps={accumulation} ({completions // size} prompts an update)")
            break
    for batch in sorted(range(1, 129), key=lambda batch: abs(batch - per_device)):
        completions = processes * batch * settings.accumulation
        if completions and completions % size == 0:
            found.append(f"per_device_train_batch_size={batch} ({completions // size} prompts an update)")
            break
    completions = max(settings.completions_per_update, 1)
    divisors = [group for group in range(2, completions + 1) if completions % group == 0]
    if divisors:
        group = min(divisors, key=lambda divisor: abs(divisor - size))
        found.append(f"num_generations={group} ({completions // group} prompts an update)")
    return found


CHECK = BatchNotDivisible()
