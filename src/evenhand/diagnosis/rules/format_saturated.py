"""``format-saturated``."""

from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import History, Series, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.signals import at_top, easy_parts, goal_part, is_easy, recent
from evenhand.records import Severity

# Mean from which a term of 0 to 1 has nothing left to give: 98.75 % is one miss in 80 completions.
FULL = 0.98


class FormatSaturated(Rule):
    """The format term is at its top and has nothing left to give.

    ## Why it matters

    Format is learned first, and then holds the total up. A format rate near 100 % says that answers can be read, not
    that they are right.

    ## Example

    `rewards/format_reward` 0.99 to 1.0 on every row while `rewards/hint_reward` moves between 0.68 and 0.98.

    ## Remedy

    Read ability from the goal's term and from a held-out score.
    """

    code: ClassVar[str] = "format-saturated"
    severity: ClassVar[Severity] = "note"
    live: ClassVar[bool] = False

    def judge(self, history: History) -> Verdict:
        """A term named for form stands at its maximum over the last rows while another term does not."""
        parts = history.parts()
        formats = [(part.name, part.mean) for part in parts if is_easy(part.name)]
        formats += (
            [("format_valid", history.get("metrics/format_valid"))] if "metrics/format_valid" in history.series else []
        )
        full = [(name, series) for name, series in formats if self.full(series)]
        if not full:
            return None
        goal = goal_part(history)
        rest = [goal] if goal is not None else [p for p in parts if p.name not in {name for name, _ in full}]
        if not rest or all(
            at_top(part.mean) and part.mean.finite.values[-1] >= FULL for part in rest if len(part.mean)
        ):
            return None
        name, series = full[0]
        others = len(easy_parts(history, goal)) if goal is not None else len(rest)
        below = np.flatnonzero(series.finite.values < FULL)
        onset = series.finite.steps[min(int(below[-1]) + 1, len(series.finite) - 1)] if len(below) else series.steps[0]
        return self.finding(
            f"{name} stands at {float(recent(series).values.mean()):.2f} and has nothing left to give: it says that "
            "answers can be read, not that they are right.",
            step=onset,
            evidence={"term": name, "level": float(recent(series).values.mean()), "other_terms": others},
            remedy="Read ability from the goal's term and a held-out score.",
        )

    def full(self, series: Series) -> bool:
        """Whether a term of 0 to 1 stands at 1 over its last rows."""
        clean = series.finite
        if len(clean) < 3 or float(clean.values.max()) > 1 + 1e-6:
            return False
        return float(recent(clean).values.mean()) >= FULL

    def sick(self) -> History:
        """Format full, the hint term moving."""
        return history_of(
            {
                "reward": [1.72, 1.88, 1.68, 1.97, 1.8], "rewards/format_reward/mean": [1.0, 1.0, 1.0, 0.9875, 1.0],
                "rewards/hint_reward/mean": [0.72, 0.88, 0.68, 0.98, 0.8],
            }
        )  # fmt: skip


RULE = FormatSaturated()
