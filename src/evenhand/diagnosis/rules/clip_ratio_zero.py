"""``clip-ratio-zero-is-normal-on-policy``."""

from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.records import Severity

CLIP_KEYS = ("clip_ratio/region_mean", "clip_ratio/high_mean", "clip_ratio/low_mean")
FEWEST_ROWS = 3  # one row may be anything


def updates_per_generation(history: History) -> float | None:
    """Optimiser steps on one batch of completions, or None where the settings do not tell."""
    iterations = history.setting("num_iterations")
    if iterations is None:
        return None
    accumulation = history.setting("gradient_accumulation_steps") or 1
    return iterations * (history.setting("steps_per_generation") or accumulation) / accumulation


class ClipRatioZero(Rule):
    """No token is ever clipped, because every batch of completions is used for one update.

    ## Why it matters

    The clip guards against reusing old completions. With one update per generation the ratio of new to old policy is
    exactly 1, so there is nothing to clip, and a row of zeros is no sign of a broken loss.

    ## Example

    `clip_ratio/region_mean` 0.0 on every row, `num_iterations` 1.

    ## Remedy

    Nothing. With several updates per generation an exact zero would mean that the updates change nothing.
    """

    code: ClassVar[str] = "clip-ratio-zero-is-normal-on-policy"
    severity: ClassVar[Severity] = "ok"
    live: ClassVar[bool] = False

    def judge(self, history: History) -> Verdict:
        """All logged clip ratios are exactly zero and the run is, as far as known, on-policy."""
        logged = [history.get(key).finite for key in CLIP_KEYS if len(history.get(key)) >= FEWEST_ROWS]
        if not logged:
            return self.unknown(f"no clip_ratio was logged on {FEWEST_ROWS} rows")
        updates = updates_per_generation(history)
        if any(np.any(series.values != 0) for series in logged) or (updates is not None and updates > 1):
            return None
        known = "With one update per generation" if updates is not None else "If there is one update per generation,"
        return self.finding(
            f"{known} the ratio of new to old policy is exactly 1, so a clip ratio of 0 on all {len(logged[0])} rows "
            "is normal.",
            step=logged[0].steps[0],
            evidence={"rows": len(logged[0]), "updates_per_generation": updates},
            remedy="" if updates is not None else "With several updates per generation, suspect swallowed updates.",
        )

    def sick(self) -> History:
        """Clip ratios of zero, nothing known of the settings."""
        return history_of({"clip_ratio/region_mean": [0.0] * 4, "reward": [0.1, 0.2, 0.3, 0.2]})


RULE = ClipRatioZero()
