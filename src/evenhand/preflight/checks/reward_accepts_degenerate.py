"""``reward-accepts-degenerate-answer``."""

from collections.abc import Sequence
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.exploits import search
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity
from evenhand.rewards import text_of

# Above this the way to the top is shorter from the exploit than from honesty. The reference's rewards pay 44 % and the
# reference learned; a distance reward that pays 75 % for the middle did not.
STOP_ABOVE = 0.6
NOTE_ABOVE = 0.25  # below this an exploit is no better than the partial credit of a poor honest answer
SHOWN = 5


class RewardAcceptsDegenerateAnswer(Check):
    """A text that knows nothing of the problem earns a large part of gold's reward.

    ## Why it matters

    Training finds what pays. A form filled without looking is easier to learn than an ability, and once every
    completion is the same, no group has any spread and the run is over.

    ## Example

    Under the rewards of stepwise-parity, `odd` on every line with `Answer: 0` earns 44 % of gold; under a reward that
    searches for words, `even odd` on every line earns nearly everything.

    ## Remedy

    Pay for whole, parsed answers; let an easy term count only where the hard one holds; draw problems on which a
    constant answer is rarely right.
    """

    code: ClassVar[str] = "reward-accepts-degenerate-answer"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """The best of everything that the search tried."""
        study = present(setup.rewards)
        if not study.gold_known:
            return self.unknown("no gold text is known; name its column with --gold")
        blind = search(study).blind
        best = blind[0]
        if not best.share > NOTE_ABOVE:
            return None
        fresh = setup.samples.mean_reward if setup.samples is not None else None
        compared = "" if fresh is None else f" The fresh model earns {study.share(fresh):.0%}."
        shown = [paid for paid in blind if paid.share > NOTE_ABOVE][:SHOWN]
        told = "; ".join(f"{paid.name} {paid.share:.0%}" for paid in shown)
        return self.finding(
            f"Answers that know nothing of the problem earn up to {best.share:.0%} of gold: {told}.{compared} The best "
            f"one writes {best.text!r}.",
            severity="stop" if best.share > STOP_ABOVE else "note",
            evidence={
                "shares": {paid.name: round(paid.share, 4) for paid in blind},
                "text": best.text,
                "mean_reward": best.mean,
                "questions": best.questions,
                "fresh_model_mean": fresh,
            },
            remedy="Pay less for what can be had without looking, or let it count only together with the goal.",
        )

    def sick(self) -> Setup:
        """A reward for words that occur somewhere."""
        return Setup(rewards=examples.study(contains_the_answer))


def contains_the_answer(completions: Sequence[Any], answer: Sequence[int], **_: Any) -> list[float]:
    """Full marks wherever the right number occurs."""
    return [float(str(truth) in text_of(c)) for c, truth in zip(completions, answer, strict=True)]


CHECK = RewardAcceptsDegenerateAnswer()
