"""``group-size-one``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class GroupSizeOne(Check):
    """A group holds fewer than two completions.

    ## Why it matters

    The advantage is the distance from the group's mean, and a completion alone is its own mean. TRL refuses such a run.

    ## Example

    `num_generations = 1`, to save memory.

    ## Remedy

    At least 2; 8 if the task is hard. Fewer prompts per update save as much.
    """

    code: ClassVar[str] = "group-size-one"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("settings",)

    def judge(self, setup: Setup) -> Verdict:
        """``num_generations``."""
        settings = present(setup.settings)
        if settings.group_size >= 2:
            return None
        return self.finding(
            f"num_generations is {settings.group_size}: a completion has nothing to be compared with, and every "
            "advantage is 0.",
            evidence={"num_generations": settings.group_size},
            remedy="--set num_generations=8",
        )

    def sick(self) -> Setup:
        """One completion per prompt."""
        return Setup(settings=examples.settings(num_generations=1))


CHECK = GroupSizeOne()
