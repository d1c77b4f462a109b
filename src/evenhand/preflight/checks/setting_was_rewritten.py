"""``setting-was-rewritten``."""

from dataclasses import replace
from enum import Enum
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity

# Spellings that mean the same to TRL and Transformers.
SAME = {("scale_rewards", True): "group", ("scale_rewards", False): "none"}
NOTHING: dict[str, tuple[Any, ...]] = {"report_to": ("none", [], ["none"])}


class SettingWasRewritten(Check):
    """The trainer runs with other values than were written.

    ## Why it matters

    A library that rounds a batch up to the group size changes memory, steps and the meaning of the learning rate with
    one line in a log.

    ## Example

    A batch of 1 was asked for, and 32 is running, because the group size is 32.

    ## Remedy

    Write the value that runs, or the one that need not be rewritten.
    """

    code: ClassVar[str] = "setting-was-rewritten"
    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[tuple[Part, ...]] = ("settings",)

    def judge(self, setup: Setup) -> Verdict:
        """Every written field against the value in the trainer's arguments."""
        settings = present(setup.settings)
        changed = {
            name: (value, settings.train[name])
            for name, value in settings.asked.items()
            if name in settings.train and plain(name, value) != plain(name, settings.train[name])
        }
        if not changed:
            return None
        told = "; ".join(f"{name}: {asked!r} was written, {used!r} runs" for name, (asked, used) in changed.items())
        return self.finding(
            told + ".",
            evidence={name: {"asked": str(asked), "used": str(used)} for name, (asked, used) in changed.items()},
            remedy="Write the value that runs.",
        )

    def sick(self) -> Setup:
        """A batch raised to the group size."""
        asked = examples.settings(per_device_train_batch_size=1)
        return Setup(settings=replace(asked, train={**asked.train, "per_device_train_batch_size": 32}))


def plain(name: str, value: Any) -> Any:
    """A value without the differences that are spelling: enumerations, numbers, one-element lists, TRL's synonyms."""
    if isinstance(value, Enum):
        value = value.value
    if value in NOTHING.get(name, ()):
        return None
    if isinstance(value, bool):
        return SAME.get((name, value), value)
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, list | tuple):
        return plain(name, value[0]) if len(value) == 1 else [plain(name, one) for one in value]
    return value if isinstance(value, dict) or value is None else str(value)


CHECK = SettingWasRewritten()
