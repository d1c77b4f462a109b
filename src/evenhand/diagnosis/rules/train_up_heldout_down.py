"""``train-up-heldout-down``."""

from typing import ClassVar

from evenhand.diagnosis.held_out import fallen, goal_series
from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.rules.peak_then_collapse import best_checkpoint
from evenhand.records import Severity


class TrainUpHeldoutDown(Rule):
    """The sampled training reward rises while the held-out score falls.

    ## Why it matters

    The policy learns the training problems, or the reward's weaknesses, and unlearns the task. What the reward curve
    promises will not be there on new problems.

    ## Example

    Training reward 0.65 to 0.74 while the held-out score goes from 0.63 to 0.58 over ten evaluations.

    ## Remedy

    Take the checkpoint at the held-out peak; add a KL term, make fewer passes over the data, and report the held-out
    score alone.
    """

    code: ClassVar[str] = "train-up-heldout-down"
    severity: ClassVar[Severity] = "stop"
    explains: ClassVar[frozenset[str]] = frozenset({"sampled-score-is-not-dev-score", "peak-then-collapse"})

    def judge(self, history: History) -> Verdict:
        """Opposite movements, both beyond noise."""
        if goal_series(history) is None:
            return self.unknown("no held-out score was logged")
        fall = fallen(history)
        if fall is None or not fall.reward_rises:
            return None
        keep = best_checkpoint(history, fall.peak_step)
        return self.finding(
            f"The training reward rises while the held-out {fall.metric} fell from {fall.peak:.3g} at step "
            f"{fall.peak_step:.0f} to {fall.last:.3g}, beyond noise: what is gained does not carry over.",
            step=fall.onset,
            evidence={"metric": fall.metric, "peak": fall.peak, "last": fall.last, "z": fall.z, "checkpoint": keep},
            remedy=f"Take {'the held-out peak' if keep is None else f'checkpoint {keep}'}; add KL or fewer passes.",
        )

    def sick(self) -> History:
        """Ten evaluations downhill, the reward uphill."""
        held_out = [0.63, 0.635, 0.63, 0.62, 0.615, 0.61, 0.60, 0.595, 0.59, 0.58]
        reward = [0.65 + 0.01 * step + 0.002 * (-1) ** step for step in range(10)]
        return history_of({"reward": reward, "eval/accuracy": held_out, "grad_norm": [0.5] * 10}, interval=20)


RULE = TrainUpHeldoutDown()
