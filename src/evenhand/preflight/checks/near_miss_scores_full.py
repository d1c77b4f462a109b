"""``near-miss-scores-full``."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.exploits import gold_of_another, neighbours
from evenhand.preflight.question import Question
from evenhand.preflight.reward_study import RewardStudy
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity
from evenhand.rewards import text_of


class NearMissScoresFull(Check):
    """A corrupted gold answer earns as much as gold.

    ## Why it matters

    What the reward cannot tell apart, training will not keep apart. The easier of the two texts wins.

    ## Example

    A reward that searches for the right words anywhere pays the full mark for a list with one line missing.

    ## Remedy

    Compare whole lines or parsed values, not words that occur somewhere.
    """

    code: ClassVar[str] = "near-miss-scores-full"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """The task's own near misses, and gold with another problem's last line."""
        study = present(setup.rewards)
        if not study.gold_known:
            return self.unknown("no gold text is known; name its column with --gold")
        questions = study.first_look
        gold = study.totals(questions, [question.gold or "" for question in questions])
        as_good: dict[str, str] = {}
        for name, texts in near_misses(study).items():
            pairs = list(zip(study.totals(questions, texts), gold, strict=True))
            equal = [i for i, (value, full) in enumerate(pairs) if value >= full - 1e-6]
            if len(equal) > len(questions) / 2:
                as_good[name] = texts[equal[0]]
        if not as_good:
            return None
        name, text = next(iter(as_good.items()))
        return self.finding(
            f"A corrupted answer earns as much as gold: {', '.join(as_good)}. For example {text!r}.",
            evidence={"as_good_as_gold": as_good},
            remedy=f"Let the reward notice '{name}'.",
        )

    def sick(self) -> Setup:
        """A reward for any sum at all."""
        return Setup(rewards=examples.study(any_sum))


def near_misses(study: RewardStudy) -> dict[str, list[str]]:
    """Corrupted gold of the first look's questions, by what is wrong."""
    questions, others = study.first_look, neighbours(study)
    found = {"another problem's last line": [swapped(others, question) for question in questions]}
    if study.near_miss_texts is not None:
        offered = [study.near_miss_texts(question.columns) for question in questions]
        found |= {name: [texts[name] for texts in offered] for name in offered[0]}
    return found


def swapped(others: Mapping[int, Question], question: Question) -> str:
    """Gold whose last line is another problem's."""
    other = gold_of_another(others, question).splitlines()
    return "\n".join([*(question.gold or "").splitlines()[:-1], *other[-1:]])


def any_sum(completions: Sequence[Any], **_: Any) -> list[float]:
    """1 for whatever has the form of an answer."""
    return [float(text_of(completion).startswith("Sum: ")) for completion in completions]


CHECK = NearMissScoresFull()
