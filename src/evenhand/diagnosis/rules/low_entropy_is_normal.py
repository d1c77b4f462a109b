"""``low-entropy-is-normal``."""

from typing import ClassVar

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.signals import alive, recent, uniform_share
from evenhand.records import Severity

# Mean token entropy that makes people worry. The reference's healthy run ended at 0.024, most tokens being copied.
WORRYING = 0.1
FEWEST_ROWS = 3  # one row may be anything


class LowEntropyIsNormal(Rule):
    """Mean token entropy is low while groups still spread and the gradient lives.

    ## Why it matters

    Where most tokens are copied from the prompt or fixed by the format, the mean over tokens is small however undecided
    the model is about the few that matter. Low entropy alone is no collapse.

    ## Example

    `entropy` 0.024 at step 100 with `grad_norm` 7.06 and no zero-variance group, two thirds of the answers right.

    ## Remedy

    Nothing. A collapse is entropy, group spread and gradient gone together.
    """

    code: ClassVar[str] = "low-entropy-is-normal"
    severity: ClassVar[Severity] = "ok"
    live: ClassVar[bool] = False

    def judge(self, history: History) -> Verdict:
        """Low at the end, alive at the end."""
        entropy = recent(history.get("entropy"))
        share = recent(uniform_share(history))
        if len(entropy) < FEWEST_ROWS:
            return self.unknown(f"{len(entropy)} rows with entropy, {FEWEST_ROWS} are needed")
        level = float(entropy.values.mean())
        if level >= WORRYING or not alive(history) or not len(share) or float(share.values.mean()) > 0.5:
            return None
        series = history.get("entropy").finite
        low = series.values < WORRYING
        onset = series.steps[int(low.argmax())]
        return self.finding(
            f"Mean entropy is {level:.2g}, and that is all right: {1 - float(share.values.mean()):.0%} of the groups "
            "still have spread and the gradient lives. Most tokens are simply not in doubt.",
            step=onset,
            evidence={"entropy": level, "uniform_groups": float(share.values.mean())},
        )

    def sick(self) -> History:
        """The reference's healthy end."""
        return history_of(
            {
                "entropy": [0.05, 0.04, 0.03, 0.024, 0.024], "frac_reward_zero_std": [0.0, 0.25, 0.0, 0.0, 0.0],
                "grad_norm": [8.0, 6.5, 9.0, 7.06, 7.1], "reward": [2.0, 2.1, 2.0, 2.1, 2.2],
            }
        )  # fmt: skip


RULE = LowEntropyIsNormal()
