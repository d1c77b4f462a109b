"""``reward-prints``."""

from collections.abc import Sequence
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class RewardPrints(Check):
    """A reward function writes to the terminal.

    ## Why it matters

    It is called at every step for every completion: the output buries the log, and mixes with results that another
    program reads.

    ## Example

    A `print(completion)` left over from debugging: 32 texts a step.

    ## Remedy

    Remove it, or hand the value to `log_extra`, which puts it beside the completion.
    """

    code: ClassVar[str] = "reward-prints"
    severity: ClassVar[Severity] = "note"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """What was written during the dry run."""
        study = present(setup.rewards)
        printed = {
            name: outcomes[-1].printed.strip().splitlines()[0][:80]
            for name, outcomes in study.dry_run.items()
            if outcomes[-1].printed.strip()
        }
        if not printed:
            return None
        return self.finding(
            f"{', '.join(printed)} prints at every call, for example {next(iter(printed.values()))!r}.",
            evidence=printed,
            remedy="Remove the print, or hand the value to log_extra.",
        )

    def sick(self) -> Setup:
        """A print left over."""
        return Setup(rewards=examples.study(talks))


def talks(completions: Sequence[Any], answer: Sequence[int], **_: Any) -> list[float]:
    """The healthy reward, with a print left in."""
    scores = examples.near(completions, answer)
    print("scores", scores)
    return scores


CHECK = RewardPrints()
