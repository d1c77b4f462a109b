"""``truncated-before-answer``."""

from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import NOTHING, History, Series, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.rules.peak_then_collapse import collapse_of
from evenhand.diagnosis.signals import goal_part, recent, stretch_onset, uniform_share
from evenhand.records import Severity

# Share of completions that hit the limit. 0.9 leaves room for the few short ones of a batch; public reports of the
# fault stand at 0.97 to 1.0, healthy long-reasoning runs reach 0.1 to 0.3, so a false alarm needs a rare task.
CLIPPED = 0.9
# Rows from which it is said although answers are read; where none is, one row of completions says enough.
FEWEST_ROWS = 3
# A goal that is earned this often was read before the limit: the text only goes on after it.
GOAL_EARNED = 0.05


def all_clipped(history: History) -> Series:
    """1.0 on rows where completions are cut off before they end, else 0.0."""
    clipped = history.get("completions/clipped_ratio")
    if len(clipped):
        cut = clipped.values >= CLIPPED
        return Series(clipped.steps, cut.astype(float))
    steps, (low, high) = history.aligned("completions/min_length", "completions/max_length")
    if len(steps) < 3 or len(np.unique(high)) > 1:
        return NOTHING
    return Series(steps, (low == high).astype(float))


class TruncatedBeforeAnswer(Rule):
    """Nearly every completion hits the length limit and none ends by itself.

    ## Why it matters

    A checker that looks for a final answer never sees one: every completion scores alike, groups have no spread, the
    gradient is zero, and the trainer says nothing.

    ## Example

    `completions/clipped_ratio` 1.0, `completions/mean_terminated_length` 0, `reward` 0.0, `grad_norm` 0.0 on every row
    with a limit of 256 tokens, where the task needs 600.

    ## Remedy

    Let the model write freely on a few dozen prompts and set `max_completion_length` near the 95th percentile of the
    lengths, or shorten what the prompt asks for.
    """

    code: ClassVar[str] = "truncated-before-answer"
    severity: ClassVar[Severity] = "stop"
    explains: ClassVar[frozenset[str]] = frozenset(
        {
            "groups-uniform", "collapsed-identical-rollouts", "collapsing", "reward-saturated-at-start", "reward-flat",
            "constant-reward-term", "loss-zero-is-normal", "accuracy-flat-while-weights-move",
            "peak-then-collapse", "predictions-bet-on-one-answer", "easy-term-crowds-out-goal",
        }
    )  # fmt: skip

    def judge(self, history: History) -> Verdict:
        """Holds from the first of the last rows, nine in ten of which are cut; a warning where answers are read."""
        cut = all_clipped(history)
        if not len(cut):
            return self.unknown("neither completions/clipped_ratio nor the shortest and longest length was logged")
        if float(recent(cut).values.mean()) < 0.8 or (len(cut) < FEWEST_ROWS and self.answers_are_read(history)):
            return None
        onset = stretch_onset(cut)
        came_later = len(cut.before(onset)) >= 3
        if came_later and collapse_of(history.get("reward")) is not None:
            return None  # what ends the run is the fall; that completions no longer end is a part of it
        return self.report(history, cut, onset, came_later)

    def report(self, history: History, cut: Series, onset: float, came_later: bool) -> Verdict:
        """The finding: what the limit is, and whether the limit or the policy is to blame."""
        longest = history.get("completions/max_length").finite
        limit = history.setting("max_completion_length") or (float(longest.values.max()) if len(longest) else None)
        read = self.answers_are_read(history)
        ratio, reward = recent(history.get("completions/clipped_ratio")), recent(history.get("reward"))
        evidence = {
            "clipped_ratio": float(ratio.values.mean()) if len(ratio) else 1.0,
            "limit": limit,
            "reward": float(reward.values.mean()) if len(reward) else None,
            "rows": len(cut.since(onset)),
        }
        tail = "yet answers are read, so it costs time more than signal." if read else "so no answer is ever read."
        remedy = "Measure free-running lengths and set max_completion_length near their 95th percentile."
        if came_later:
            remedy = "Completions used to end: lower the learning rate before raising max_completion_length."
        return self.finding(
            f"Nearly every completion runs into the limit{f' of {limit:.0f} tokens' if limit else ''} since step "
            f"{onset:.0f} and none ends by itself, {tail}",
            step=onset,
            evidence=evidence,
            remedy=remedy,
            severity="warn" if read else "stop",
        )

    def answers_are_read(self, history: History) -> bool:
        """Whether the goal is earned by a share of the cut completions."""
        goal = goal_part(history)
        earned = recent(goal.mean if goal is not None else history.get("reward")).values
        uniform = recent(uniform_share(history)).values
        spread = not len(uniform) or float(uniform.mean()) < 0.9
        return bool(len(earned)) and float(earned.mean()) > GOAL_EARNED and spread

    def sick(self) -> History:
        """Every completion as long as the limit, nothing earned."""
        rows = 5
        return history_of(
            {
                "loss": [0.0] * rows, "grad_norm": [0.0] * rows, "reward": [0.0] * rows, "reward_std": [0.0] * rows,
                "frac_reward_zero_std": [1.0] * rows, "completions/clipped_ratio": [1.0] * rows,
                "completions/mean_terminated_length": [0.0] * rows, "completions/max_length": [256.0] * rows,
            }
        )  # fmt: skip


RULE = TruncatedBeforeAnswer()
