"""``label-wrong``."""

from dataclasses import replace
from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity


class LabelWrong(Check):
    """A stored answer differs from the one worked out anew from the question.

    ## Why it matters

    A wrong label pays for wrong answers. No curve shows it: accuracy simply stops rising where the labels are wrong.

    ## Example

    Numbers 3, 8, 8 with the stored count 1: a completion that counts the two even numbers is paid nothing.

    ## Remedy

    Draw the data again, or mend the rows that the finding names.
    """

    code: ClassVar[str] = "label-wrong"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("data",)

    def judge(self, setup: Setup) -> Verdict:
        """Every row of every split is worked out again."""
        data = present(setup.data)
        if data.recompute is None:
            return self.unknown("nothing says how the answer follows from the question")
        wrong, rows = [], 0
        for split, questions in data.splits.items():
            for place, question in enumerate(questions):
                rows += 1
                for column, value in data.recompute(question.columns).items():
                    if question.columns.get(column) != value:
                        wrong.append((split, place, column, question.columns.get(column), value))
        if not wrong:
            return None
        split, place, column, stored, value = wrong[0]
        return self.finding(
            f"{len(wrong)} of {rows} stored answers are wrong; first {split} row {place}: {column} is {stored!r}, and "
            f"worked out it is {value!r}.",
            evidence={"wrong": len(wrong), "rows": rows, "first": {"split": split, "row": place, column: stored}},
            remedy="Draw the data again, or mend these rows.",
        )

    def sick(self) -> Setup:
        """One sum is off by one."""
        first, *others = examples.sums(20)
        spoiled = replace(first, columns={**first.columns, "answer": first.columns["answer"] + 1})
        return Setup(data=examples.data(splits={"train": (spoiled, *others)}))


CHECK = LabelWrong()
