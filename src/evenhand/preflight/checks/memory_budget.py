"""``memory-budget-exceeded``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.budget import as_gib, memory_parts
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class MemoryBudget(Check):
    """The run needs more memory than there is.

    ## Why it matters

    It fails at the first update, after loading and sampling, or the machine swaps and crawls.

    ## Example

    16 GB, 0.5B parameters in FP32: weights, gradients and Adam's two moments alone take 8 GB, logits of 32 completions
    over 150,000 tokens of vocabulary the rest.

    ## Remedy

    What the finding names first: a smaller micro-batch for logits, BF16 for weights.
    """

    code: ClassVar[str] = "memory-budget-exceeded"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("model", "settings", "machine")

    def judge(self, setup: Setup) -> Verdict:
        """The sum of ``memory_parts`` against what is free."""
        model, settings, machine = present(setup.model), present(setup.settings), present(setup.machine)
        parts = memory_parts(model, settings)
        needed = sum(parts.values())
        if not machine.memory:
            return self.unknown("how much memory is free is not known")
        if needed <= machine.memory:
            return None
        told = " + ".join(f"{name} {as_gib(size)}" for name, size in sorted(parts.items(), key=lambda item: -item[1]))
        return self.finding(
            f"About {as_gib(needed)} GiB are needed and {as_gib(machine.memory)} are free on {machine.device}: {told}.",
            evidence={"parts": parts, "needed": needed, "free": machine.memory},
            remedy=remedy(parts),
        )

    def sick(self) -> Setup:
        """A laptop that is nearly full."""
        return Setup(
            model=examples.model(), settings=examples.settings(), machine=examples.machine(memory=2 * examples.GIB)
        )


def remedy(parts: dict[str, int]) -> str:
    """What helps against the largest part."""
    largest = max(parts, key=lambda name: parts[name])
    if largest in ("logits", "activations", "sampling cache"):
        return "--set per_device_train_batch_size=1 with a larger gradient_accumulation_steps, or a shorter limit."
    return "--set precision.body=bfloat16 with precision.norms=float32, or a smaller model."


CHECK = MemoryBudget()
