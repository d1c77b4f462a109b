"""``reward-ignores-completion``."""

from collections.abc import Sequence
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.exploits import gold_of_another, neighbours
from evenhand.preflight.reward_study import RewardStudy
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class RewardIgnoresCompletion(Check):
    """The reward is the same for very different completions of the same problem.

    ## Why it matters

    A group is uniform, every advantage is 0, and nothing is learned, while the reward itself may look lively from one
    problem to the next.

    ## Example

    The function compares the answer column with itself; or it reads `prompts` where it means `completions`.

    ## Remedy

    Score two texts of one problem by hand and see where they become the same.
    """

    code: ClassVar[str] = "reward-ignores-completion"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """Gold, another's gold, nothing, noise and an echo, for each question of the first look."""
        study = present(setup.rewards)
        table = rewards_of_different_texts(study)
        if any(max(row) - min(row) > 1e-9 for row in zip(*table.values(), strict=True)):
            return None
        means = {name: sum(values) / len(values) for name, values in table.items()}
        return self.finding(
            f"Every completion of a problem earns the same, whatever it says: {', '.join(table)}.",
            evidence=means,
            remedy="Look at what the function reads: it must be the completion's text.",
        )

    def sick(self) -> Setup:
        """Pays for the question."""
        return Setup(rewards=examples.study(pays_for_the_question))


def rewards_of_different_texts(study: RewardStudy) -> dict[str, list[float]]:
    """Weighted rewards by kind of text, one per question."""
    questions, others = study.first_look, neighbours(study)
    kinds = {
        "nothing": [""] * len(questions),
        "noise": ["qwx 17 zz"] * len(questions),
        "the question echoed": [question.asked for question in questions],
        "a long text": ["so it goes " * 40] * len(questions),
    }
    if study.gold_known:
        kinds["gold"] = [question.gold or "" for question in questions]
        kinds["another problem's gold"] = [gold_of_another(others, question) for question in questions]
    return {name: study.totals(questions, texts) for name, texts in kinds.items()}


def pays_for_the_question(prompts: Sequence[Any], **_: Any) -> list[float]:
    """Reads the wrong list."""
    return [float(len(str(prompt)) % 3) for prompt in prompts]


CHECK = RewardIgnoresCompletion()
