"""``groups-uniform``."""

from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import History, Series, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.rules.solved import success_level
from evenhand.diagnosis.signals import UNIFORM, listed, stretch_onset, uniform_share
from evenhand.diagnosis.statistics import level_window
from evenhand.records import Severity

# Mean share of uniform groups. A reward of 0 or 1 that is right in 2 % of completions leaves 85 % of groups of eight
# uniform: hard, but something is learned. At 0.9 less than one prompt in ten teaches anything.
UNIFORM_GROUPS = 0.9
# Where groups had spread before, a collapse or success explains it within ten rows; only what lasts longer is this.
FEWEST_ROWS_AFTER_SPREAD = 15


class GroupsUniform(Rule):
    """Reward differs from prompt to prompt, and hardly ever inside a group.

    ## Why it matters

    An advantage compares completions of one prompt. Where all of them earn the same, it is zero, whatever the spread
    between prompts; a reward function can report a large standard deviation while nothing at all is learned.

    ## Example

    `frac_reward_zero_std` 1.0 and `reward_std` 0.0 beside `rewards/if_rewrite_reward/std` 5.08.

    ## Remedy

    Raise sampling variety (temperature, group size), give partial credit, or leave out prompts that are always right
    or always wrong.
    """

    code: ClassVar[str] = "groups-uniform"
    severity: ClassVar[Severity] = "stop"
    explains: ClassVar[frozenset[str]] = frozenset(
        {"reward-flat", "constant-reward-term", "loss-zero-is-normal", "updates-swallowed", "peak-then-collapse"}
    )

    def judge(self, history: History) -> Verdict:
        """At least three rows, uniform in the mean, over prompts that differ in reward."""
        share = uniform_share(history).finite
        if not len(share):
            return self.unknown("neither frac_reward_zero_std nor reward_std was logged")
        if len(share) < 3:
            return self.unknown(f"{len(share)} rows with group spread, 3 are needed")
        tail = share.tail(level_window(len(share)))
        level = float(tail.values.mean())
        onset = self.onset(history)
        rows = len(share.since(onset))
        brief = rows < len(share) and rows < FEWEST_ROWS_AFTER_SPREAD
        if level < UNIFORM_GROUPS or brief or self.replaced(history, onset):
            return None
        if success_level(history, onset) is not None or not self.prompts_differ(history, onset):
            return None
        constant = [part.name for part in history.parts() if len(part.std) and not np.any(part.std.values > 1e-9)]
        total = len(history.parts())
        dull = f" {len(constant)} of {total} reward terms never vary ({listed(constant)})." if constant else ""
        return self.finding(
            f"{level:.0%} of the groups are uniform since step {onset:.0f} although prompts differ in reward: inside a "
            f"group there is nothing to prefer, so nothing is learned.{dull}",
            step=onset,
            evidence={"uniform_groups": level, "constant_terms": constant, "rows": len(share.since(onset))},
            remedy="Raise temperature or num_generations, give partial credit, or drop prompts that never vary.",
        )

    def onset(self, history: History) -> float:
        """First step of the stretch at the end in which uniform groups are the rule."""
        share = uniform_share(history).finite
        return stretch_onset(Series(share.steps, (share.values >= UNIFORM_GROUPS).astype(float)))

    def replaced(self, history: History, onset: float) -> bool:
        """Whether groups with spread took the places of uniform ones before an update: Evenhand's ``resample``."""
        left = history.get("frac_trained_zero_std").finite.since(onset)
        return bool(len(left)) and float(left.values.mean()) < UNIFORM_GROUPS

    def prompts_differ(self, history: History, onset: float) -> bool:
        """Whether rows in which every group is uniform differ in reward, inside a row or from row to row.

        Only such rows count: a hard task has uniform groups as well, all of them at the same low reward.
        """
        share = uniform_share(history).finite.since(onset)
        uniform = share.steps[share.values >= UNIFORM]
        reward, spread = history.get("reward").finite, history.get("reward_std").finite.since(onset)
        levels = reward.values[np.isin(reward.steps, uniform)]
        parts = [part.std.finite for part in history.parts()]
        _, (highest, lowest) = history.aligned("reward_max", "reward_min")
        if len(uniform) >= 3:
            inside = bool(np.any(highest - lowest > 1e-9)) or any(
                np.any(std.values[np.isin(std.steps, uniform)] > 1e-9) for std in parts
            )
            return inside or (len(levels) > 1 and float(np.ptp(levels)) > 1e-6)
        between = max((float(std.since(onset).values.mean()) for std in parts if len(std.since(onset))), default=0.0)
        return bool(len(spread)) and between > 3 * float(spread.values.mean())

    def sick(self) -> History:
        """Groups at +2 or at -8, never mixed."""
        return history_of(
            {
                "loss": [0.0] * 4, "grad_norm": [0.0] * 4, "reward": [3.0, 0.5, 5.5, 3.0], "reward_std": [0.0] * 4,
                "frac_reward_zero_std": [1.0] * 4, "rewards/rewrite/mean": [-3.0, -5.5, -0.5, -3.0],
                "rewards/rewrite/std": [5.08, 4.4, 4.4, 5.08], "rewards/json/mean": [2.0] * 4,
                "rewards/json/std": [0.0] * 4,
            }
        )  # fmt: skip


RULE = GroupsUniform()
