"""``collapsed-identical-rollouts``."""

import math
from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.rules.solved import success_level, top_reward
from evenhand.diagnosis.signals import dead_rows, dead_since, gradient_floor
from evenhand.records import Severity

# A dead stretch must span this many optimiser steps. The reference collapse must be called within ten.
FEWEST_STEPS = 5
# Chance that a run whose rows were dead as often as before would show such a stretch by luck. Asked at every row of a
# run of 1,000, one run in ten thousand to one in ten would be accused at 1e-7 and 1e-4; 1e-6 keeps it under 1 in 1000.
LUCK = 1e-6
# Entropy from which rollouts still differ: then uniform rewards have another cause. The reference collapse had 0.0004,
# its healthy run 0.024 with most tokens copied.
LIVELY_ENTROPY = 0.1

# Share of the highest reward that one answer to everything cannot earn where true answers are spread.
MOSTLY_EARNED = 0.8


class CollapsedIdenticalRollouts(Rule):
    """No group has any spread, the gradient is gone, and success does not explain it.

    ## Why it matters

    The policy writes one answer for every prompt. All completions of a group earn the same, advantages are zero, the
    gradient is zero, and no later step changes anything: the run is dead, although it goes on to the end.

    ## Example

    Zero-variance groups 0.875, 0.975, 1.0 and entropy 0.125, 0.021, 0.0004 at steps 10, 20, 30; from there on loss and
    gradient norm are exactly 0 while the reward still varies with the prompts.

    ## Remedy

    Go back to the last checkpoint before it. Bound the reward so that no illegal answer dwarfs the rest, lower the
    learning rate, and keep an entropy term or a KL term.
    """

    code: ClassVar[str] = "collapsed-identical-rollouts"
    severity: ClassVar[Severity] = "stop"
    explains: ClassVar[frozenset[str]] = frozenset(
        {
            "collapsing", "groups-uniform", "peak-then-collapse", "predictions-bet-on-one-answer", "reward-flat",
            "accuracy-flat-while-weights-move", "sampled-score-is-not-dev-score", "format-saturated",
            "constant-reward-term", "train-up-heldout-down", "easy-term-crowds-out-goal",
        }
    )  # fmt: skip

    def judge(self, history: History) -> Verdict:
        """A dead stretch at the end of the log, long enough not to be luck, with no success behind it."""
        dead = dead_rows(history)
        if not len(dead):
            return self.unknown("neither frac_reward_zero_std nor reward_std was logged")
        onset = dead_since(dead)
        if onset is None or not self.long_enough(history, onset):
            return None
        entropy = history.get("entropy").finite
        late = entropy.since(onset)
        if len(late) and float(np.median(late.values)) >= LIVELY_ENTROPY:
            return None
        came_to_it = bool(len(dead.before(onset))) and float(dead.before(onset).values.mean()) < 0.5
        if (not came_to_it and not len(late)) or self.earns(history, onset):
            return None
        evidence = {
            "rows": [onset, float(dead.steps[-1])],
            "dead_rows": len(dead.since(onset)),
            "gradient_floor": gradient_floor(history),
            "entropy": float(np.median(late.values)) if len(late) else None,
        }
        return self.finding(
            f"Since step {onset:.0f} every group is uniform and the gradient is gone"
            f"{f' (entropy {float(np.median(late.values)):.2g})' if len(late) else ''}, without success to explain it: "
            "the policy gives one answer to everything, and no further step can change it.",
            step=onset,
            evidence=evidence,
            remedy="Bound the reward, lower the learning rate, keep beta or entropy_coef above 0.",
        )

    def earns(self, history: History, onset: float) -> bool:
        """Whether success explains the stretch: the task is solved, or most of what can be earned is."""
        late = history.get("reward").finite.since(onset)
        if success_level(history, onset) is not None:
            return True
        best = top_reward(history) if len(late) else 0.0
        return best > 0 and float(late.values.mean()) >= MOSTLY_EARNED * best

    def long_enough(self, history: History, onset: float) -> bool:
        """Whether the stretch is beyond what this run's earlier share of dead rows would give by luck."""
        dead = dead_rows(history)
        late, earlier = dead.since(onset), dead.before(onset)
        interval = history.interval
        span = float(late.steps[-1] - onset) + interval
        if span < FEWEST_STEPS or len(late) < 2:
            return False
        # One imagined dead row in two; an averaged row stands for all its steps.
        share = (float(earlier.values.sum()) + 1) / (len(earlier) + 2)
        luck = float(late.values.sum()) * interval * math.log(share)
        return luck <= math.log(LUCK) or (not len(earlier) and len(late) >= 5)

    def sick(self) -> History:
        """The reference collapse, as logged every ten steps."""
        return history_of(
            {
                "loss": [0.02, 0.01, 0.0, 0.0, 0.0, 0.0], "grad_norm": [3.1, 0.8, 0.0, 0.0, 0.0, 0.0],
                "entropy": [0.125, 0.0214, 0.00039, 0.00038, 0.00038, 0.00038],
                "frac_reward_zero_std": [0.875, 0.975, 1.0, 1.0, 1.0, 1.0],
                "reward": [-2.9, -3.1, -4.0, -3.4, -4.4, -3.9], "reward_std": [0.9, 0.2, 2.9, 2.8, 3.0, 2.9],
            },
            first_step=10, interval=10, checkpoints=(20, 40, 60),
        )  # fmt: skip


RULE = CollapsedIdenticalRollouts()
