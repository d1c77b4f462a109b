"""``dtype-not-pinned``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Model, Part, Setup
from evenhand.records import Severity


class DtypeNotPinned(Check):
    """The real dtypes of the weights are not the configured ones.

    ## Why it matters

    The trainer's `bf16` switch says how matrices are multiplied, not how weights are kept. A library's default for
    loading changed between versions: the same script trains in FP32 in one and in BF16 in the other.

    ## Example

    Norms configured as FP32, loaded as BF16: no norm weight ever moves.

    ## Remedy

    Set both under [precision], and build a new model and a new trainer after a change.
    """

    code: ClassVar[str] = "dtype-not-pinned"
    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[tuple[Part, ...]] = ("model",)

    def judge(self, setup: Setup) -> Verdict:
        """The census of the loaded model by parameter group."""
        model = present(setup.model)
        wrong = differing(model)
        if not wrong:
            return None
        told = "; ".join(f"{group}: {shares} instead of {model.planned[group]}" for group, shares in wrong.items())
        return self.finding(
            f"Weights are not kept as configured: {told}.",
            evidence={
                "real": {group: dict(counts) for group, counts in model.dtypes.items()},
                "planned": model.planned,
            },
            remedy="Set precision.body and precision.norms, and start from a freshly loaded model.",
        )

    def sick(self) -> Setup:
        """Norms that were cast with the body."""
        dtypes = {**examples.model().dtypes, "norms": {"bfloat16": 65_536}}
        return Setup(model=examples.model(dtypes=dtypes))


def differing(model: Model) -> dict[str, str]:
    """Parameter groups with entries of another dtype than planned."""
    return {
        group: ", ".join(f"{count} in {dtype}" for dtype, count in counts.items() if dtype != model.planned[group])
        for group, counts in model.dtypes.items()
        if group in model.planned and any(dtype != model.planned[group] and count for dtype, count in counts.items())
    }


CHECK = DtypeNotPinned()
