"""``predictions-bet-on-one-answer``."""

from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.rules.accuracy_flat import example_evaluation
from evenhand.records import NO_ANSWER, Evaluation, Severity

# One answer for half of the problems, and that at 2.5 times its share among the true answers plus three standard
# errors. A sound model that is right on two thirds and errs evenly stays far below; a planted habit of answering
# one too high or too low leaves the top share under 0.3 for eleven classes.
HALF = 0.5
TIMES_ITS_SHARE = 2.5
FEWEST_PROBLEMS = 20


def bet(evaluation: Evaluation) -> tuple[str, float, float] | None:
    """The answer that is bet on, its share among predictions and among true answers; None where there is no bet."""
    read = Counter({answer: count for answer, count in evaluation.predictions.items() if answer != NO_ANSWER})
    total = sum(read.values())
    if evaluation.n < FEWEST_PROBLEMS or total < HALF * evaluation.n:
        return None
    answer, count = read.most_common(1)[0]
    said = count / evaluation.n
    true = Counter(evaluation.expected)[answer] / max(len(evaluation.expected), 1)
    noise = 3 * (max(true * (1 - true), 0.01) / evaluation.n) ** 0.5
    return (answer, said, true) if said >= HALF and said >= TIMES_ITS_SHARE * true + noise else None


class PredictionsBetOnOneAnswer(Rule):
    """The model gives one answer to half of the problems or more, though the true answers are spread.

    ## Why it matters

    A policy that does not look at its input can still earn: by the most frequent answer, or by the middle where being
    near pays. Mean scores hide it; the distribution of predictions does not.

    ## Example

    "4" for 40 of 50 problems whose true answers are spread evenly over 0 to 10.

    ## Remedy

    Ask control problems whose answer must move with the input (`evenhand evaluate --split control`), and change the
    reward until no constant answer pays (`evenhand preflight`).
    """

    code: ClassVar[str] = "predictions-bet-on-one-answer"
    severity: ClassVar[Severity] = "warn"

    def judge(self, history: History) -> Verdict:
        """The last evaluation bets; the onset is the first from which all do."""
        if not history.evaluations:
            return self.unknown("no evaluation with its predictions was recorded")
        held = bet(history.evaluations[-1])
        if held is None:
            return None
        answer, said, true = held
        onset = first_of_the_run(bet(one) is not None for one in history.evaluations)
        return self.finding(
            f'"{answer}" is the answer to {said:.0%} of the problems, though it is right for {true:.0%}: the model '
            "bets on one answer instead of looking at its input.",
            step=history.evaluations[onset].step,
            evidence={"answer": answer, "share": said, "true_share": true, "n": history.evaluations[-1].n},
            remedy="Check control problems, and what the best constant answer earns (evenhand preflight).",
        )

    def sick(self) -> History:
        """One answer for 40 of 50."""
        expected = tuple(str(index % 11) for index in range(50))
        predicted = tuple("4" if index < 40 else "5" for index in range(50))
        right = tuple(float(a == b) for a, b in zip(expected, predicted, strict=True))
        return history_of({"reward": [0.1]}, evaluations=(example_evaluation(100, expected, predicted, right),))


def first_of_the_run(flags: Iterable[bool]) -> int:
    """Index of the first of the true flags that reach to the end without a gap."""
    every = list(flags)
    index = len(every)
    while index and every[index - 1]:
        index -= 1
    return min(index, len(every) - 1)


RULE = PredictionsBetOnOneAnswer()
