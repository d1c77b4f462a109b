"""``constant-reward-term``."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.reward_study import RewardStudy
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class ConstantRewardTerm(Check):
    """A term of the reward has the same value for every text that was tried.

    ## Why it matters

    It adds nothing to any advantage, and its place in the sum suggests that something is measured. Where it is the term
    of the goal, the run optimises the rest.

    ## Example

    An accuracy term that returns 0.5 whenever the gold answer cannot be parsed, and no gold answer can.

    ## Remedy

    Count for how many problems the gold answer is parsed, and mend the parser or the column.
    """

    code: ClassVar[str] = "constant-reward-term"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """Gold, the near misses of the task, nothing and noise, term by term."""
        study = present(setup.rewards)
        constant = {name: values.pop() for name, values in values_by_term(study).items() if len(values) == 1}
        if not constant:
            return None
        told = ", ".join(f"{name} is always {value:.6g}" for name, value in constant.items())
        return self.finding(
            f"{told}, whatever the completion says, gold included.",
            evidence=constant,
            remedy="See whether the term can read the gold answers at all.",
        )

    def sick(self) -> Setup:
        """Half a point whatever happens."""
        return Setup(rewards=examples.study(examples.near, half_a_point))


def values_by_term(study: RewardStudy) -> dict[str, set[float]]:
    """Distinct values of each term over texts that differ as much as texts can."""
    questions = study.first_look
    kinds = [[text] * len(questions) for text in ("", "qwx 17 zz", "so it goes " * 40)]
    kinds.append([question.asked for question in questions])
    if study.gold_known:
        kinds.append([question.gold or "" for question in questions])
    found: dict[str, set[float]] = {term.name: set() for term in study.terms}
    for texts in kinds:
        for term, values in zip(study.terms, study.by_term(questions, texts), strict=True):
            found[term.name] |= {round(value, 9) for value in values if not math.isnan(value)}
    return found


def half_a_point(completions: Sequence[Any], **_: Any) -> list[float]:
    """What is returned when nothing can be parsed."""
    return [0.5 for _ in completions]


CHECK = ConstantRewardTerm()
