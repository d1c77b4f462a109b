"""``answer-in-prompt``."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.question import Question
from evenhand.preflight.reward_study import spread
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity

# The own answer stands in the prompt this much oftener than another problem's does. A count such as 5 stands in many
# prompts by chance, and then another's count does too; over 200 rows chance moves the difference by less than 0.1.
LEAK = 0.5
ROWS = 200


class AnswerInPrompt(Check):
    """The right answer can be read in the prompt.

    ## Why it matters

    The model learns to copy. Rewards and dev scores reach the ceiling, and asked without the leak it knows nothing.

    ## Example

    A template that writes every column into the prompt writes `answer: 4` too.

    ## Remedy

    Keep the answer in a column beside the prompt; TRL hands it to the rewards.
    """

    code: ClassVar[str] = "answer-in-prompt"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("data",)

    def judge(self, setup: Setup) -> Verdict:
        """How often the own answer is there against how often another problem's is, so that chance does not count."""
        data = present(setup.data)
        questions = spread(data.train, ROWS)
        if not data.answers or len(questions) < 2:
            return self.unknown("no column is known to hold the answer")
        for column in data.answers:
            values = [question.columns.get(column) for question in questions]
            texts = [str(value) if isinstance(value, str | int | float) else "" for value in values]
            own, others = leak_rates(questions, texts)
            if own - others >= LEAK:
                return self.finding(
                    f"The column '{column}' can be read in {own:.0%} of the prompts; another problem's answer is there "
                    f"in {others:.0%}.",
                    evidence={"column": column, "own": own, "another": others, "prompt": questions[0].asked[:200]},
                    remedy=f"Take '{column}' out of the prompt; rewards get it as a column.",
                )
        return None

    def sick(self) -> Setup:
        """A prompt that tells the sum."""
        spoiled = [
            replace(question, prompt=f"{question.asked} (answer: {question.columns['answer']})")
            for question in examples.sums(60)
        ]
        return Setup(data=examples.data(splits={"train": spoiled}))


def leak_rates(questions: Sequence[Question], answers: Sequence[str]) -> tuple[float, float]:
    """Share of prompts that hold their own answer, and share that hold the next different answer."""
    own = other = 0
    for place, question in enumerate(questions):
        following = (answers[(place + step) % len(answers)] for step in range(1, len(answers)))
        another = next((answer for answer in following if answer != answers[place]), answers[place])
        own += stands_in(answers[place], question.whole)
        other += stands_in(another, question.whole)
    return own / len(questions), other / len(questions)


def stands_in(answer: str, prompt: str) -> bool:
    """Whether the answer stands in the prompt as a word of its own."""
    return bool(answer) and re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", prompt) is not None


CHECK = AnswerInPrompt()
