"""``reward-changes-arguments``."""

from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity
from evenhand.rewards import text_of


class RewardChangesArguments(Check):
    """A reward function changes the lists that it was handed.

    ## Why it matters

    TRL hands the same lists to every reward function of a step. What one of them strips, sorts or pops, the next one
    never sees, and the completions table shows it wrongly.

    ## Example

    `completion[0]["content"] = completion[0]["content"].strip()` inside the first of three rewards.

    ## Remedy

    Work on copies.
    """

    code: ClassVar[str] = "reward-changes-arguments"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """Arguments before and after each call of the dry run."""
        study = present(setup.rewards)
        changed = {
            name: sorted({argument for outcome in outcomes for argument in outcome.changed})
            for name, outcomes in study.dry_run.items()
            if any(outcome.changed for outcome in outcomes)
        }
        if not changed:
            return None
        told = "; ".join(f"{name} changes {', '.join(arguments)}" for name, arguments in changed.items())
        return self.finding(
            f"{told}; the rewards called after it see the changed lists.",
            evidence=changed,
            remedy="Work on copies: the same lists go to every reward function.",
        )

    def sick(self) -> Setup:
        """Answers are taken off the list one by one."""
        return Setup(rewards=examples.study(pops_answers))


def pops_answers(completions: list[Any], answer: list[int], **_: Any) -> list[float]:
    """Scores from the end, eating the answers."""
    scores = [float(text_of(completion) == f"Sum: {answer.pop()}") for completion in reversed(completions)]
    return scores[::-1]


CHECK = RewardChangesArguments()
