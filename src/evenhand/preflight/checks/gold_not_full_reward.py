"""``gold-not-full-reward``."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.exploits import search
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity
from evenhand.rewards import text_of


class GoldNotFullReward(Check):
    """A right answer does not earn the full reward.

    ## Why it matters

    Parser, reward and prompt do not agree on what an answer looks like. What is asked for is not what is paid, and
    training follows the pay.

    ## Example

    The prompt asks for `Answer: 4`, the reward looks for a bare `4`: gold earns 0.

    ## Remedy

    Score one gold text by hand, term by term, and mend the term that is not at its maximum.
    """

    code: ClassVar[str] = "gold-not-full-reward"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """Gold on every question against the declared maximum, the best gold, and the best text found."""
        study = present(setup.rewards)
        if not study.gold_known:
            return self.unknown("no gold text is known; name its column with --gold")
        best_other = max((paid for paid in search(study).blind), key=lambda paid: paid.mean)
        mean = sum(study.gold) / len(study.gold)
        target = max(study.ceiling, best_other.mean)
        short = [i for i, value in enumerate(study.gold) if not value >= study.ceiling - 1e-6]
        if not short and mean >= target - 1e-6 and mean > study.floor:
            return None
        place = short[0] if short else 0
        question, value = study.second_look[place], study.gold[place]
        terms = study.by_term([question], [question.gold or ""])
        by_term = {term.name: values[0] for term, values in zip(study.terms, terms, strict=True)}
        return self.finding(
            f"Gold earns {mean:.4g} on average where {target:.4g} can be had; {len(short)} of {len(study.gold)} gold "
            f"texts fall short. The first one earns {value:.4g}: {question.gold!r}.",
            evidence={"mean": mean, "ceiling": target, "short": len(short), "terms": by_term},
            remedy="Mend the term that is below its maximum: " + lowest_term(by_term) + ".",
        )

    def sick(self) -> Setup:
        """A reward that wants a bare number where gold is a phrase."""
        return Setup(rewards=examples.study(wants_bare_number))


def lowest_term(by_term: dict[str, float]) -> str:
    """The term that pays gold least."""
    return min(by_term, key=lambda name: by_term[name] if not math.isnan(by_term[name]) else -math.inf)


def wants_bare_number(completions: Sequence[Any], answer: Sequence[int], **_: Any) -> list[float]:
    """Full marks for a bare number, a little for any other text."""
    texts = [text_of(completion) for completion in completions]
    return [float(text == str(truth)) for text, truth in zip(texts, answer, strict=True)]


CHECK = GoldNotFullReward()
