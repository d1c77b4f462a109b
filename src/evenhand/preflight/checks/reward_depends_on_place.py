"""``reward-depends-on-place``."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.reward_call import Batch, call
from evenhand.preflight.reward_study import RewardStudy, Term
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class RewardDependsOnPlace(Check):
    """A completion's score changes with its place in the batch, or from one call to the next.

    ## Why it matters

    A group is compared with itself. A score that depends on the neighbours or on chance ranks completions by luck, or
    hands one completion the score of another.

    ## Example

    Scores collected in a set and read back; a judge with a temperature; scores sorted before they are returned.

    ## Remedy

    Score each completion by itself, without chance, and keep the order.
    """

    code: ClassVar[str] = "reward-depends-on-place"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """The same eight completions, again and backwards."""
        study = present(setup.rewards)
        if not study.callable:
            return self.unknown("the rewards cannot be called")
        moved = [term.name for term in study.terms if depends(study, term)]
        if not moved:
            return None
        return self.finding(
            f"The scores of {', '.join(moved)} change when the same completions come again in another order.",
            evidence={"rewards": moved},
            remedy="Score each completion by itself, without chance, and return the scores in the completions' order.",
        )

    def sick(self) -> Setup:
        """Scores sorted before they are returned."""
        return Setup(rewards=examples.study(best_first))


def depends(study: RewardStudy, term: Term) -> bool:
    """Whether the reversed batch gets other scores than the reversed scores."""
    batch = study.dry_batch(8)
    backwards = Batch(
        batch.prompts[::-1], batch.completions[::-1], {name: values[::-1] for name, values in batch.columns.items()}
    )
    forth = call(term.function, batch, study.time_limit).values
    back = call(term.function, backwards, study.time_limit).values[::-1]
    return len(forth) != len(back) or any(not same(a, b) for a, b in zip(forth, back, strict=True))


def same(a: float, b: float) -> bool:
    """Equal, NaN to NaN included."""
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))


def best_first(completions: Sequence[Any], answer: Sequence[int], **_: Any) -> list[float]:
    """Right scores, in the wrong order."""
    return sorted(examples.near(completions, answer), reverse=True)


CHECK = RewardDependsOnPlace()
