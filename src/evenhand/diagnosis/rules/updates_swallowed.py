"""``updates-swallowed``."""

from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.rules.clip_ratio_zero import CLIP_KEYS, updates_per_generation
from evenhand.records import Severity

# Rows of exact zeros that are asked for. A KL that is computed from weights that moved at all is never exactly 0.
FEWEST_ROWS = 10
# KL of a BF16 policy against itself in FP32 is 2e-6. A small FP32 model at a learning rate of 1e-6, far too low to
# learn, passes 1e-5 after 40 rows and has grown thirtyfold by then; three times is far from that.
ROUNDING = 1e-5
FEWEST_ROWS_OF_ROUNDING = 30
GROWTH = 3.0
# Greedy evaluations that agree on every answer while the gradient lives. Two can agree in a well-trained model;
# four in a row, over 30 steps and below 95 % right, did not occur in any healthy run here.
FEWEST_EVALUATIONS = 4
FEWEST_STEPS = 30


class UpdatesSwallowed(Rule):
    """The gradient is alive, and yet the weights do not move.

    ## Why it matters

    With BF16 weights and no FP32 copy, an update smaller than half a unit in the last place is rounded away. Gradients
    and spread look healthy, and nothing is learned for as long as one waits.

    ## Example

    `kl` exactly 0.0 on 30 rows with beta 0.02 and `grad_norm` 4 to 9; every dev answer the same at every evaluation.

    ## Remedy

    `evenhand probe` measures it: keep norms, or everything, in FP32, or raise the learning rate.
    """

    code: ClassVar[str] = "updates-swallowed"
    severity: ClassVar[Severity] = "stop"
    explains: ClassVar[frozenset[str]] = frozenset(
        {"accuracy-flat-while-weights-move", "reward-flat", "sampled-score-is-not-dev-score"}
    )

    def judge(self, history: History) -> Verdict:
        """KL exactly zero, ratio exactly 1 on reused completions, evaluations identical; a warning for rounding."""
        gradient = history.get("grad_norm").finite
        rate = history.get("learning_rate").finite
        if not len(gradient):
            return self.unknown("grad_norm was not logged")
        if float(np.median(gradient.values)) <= 1e-8 or (len(rate) and float(rate.values.max()) == 0):
            return None
        sign = self.kl_is_zero(history) or self.ratio_is_one(history) or self.evaluations_agree(history)
        most = None if sign is not None else self.kl_is_rounding(history)
        if sign is None and most is None:
            return None
        what, step, evidence = sign or most or ("", 0.0, {})
        reach = "do not reach the weights" if most is None else "hardly reach the weights"
        return self.finding(
            f"The gradient is alive (norm about {float(np.median(gradient.values)):.3g}) and yet {what}: the updates "
            f"{reach}.",
            step=step,
            evidence=evidence | {"grad_norm": float(np.median(gradient.values))},
            remedy="Run evenhand probe: keep norms or all weights in FP32, or raise the learning rate.",
            severity="warn" if most is not None else "stop",
        )

    def kl_is_rounding(self, history: History) -> tuple[str, float, dict[str, float]] | None:
        """KL at the level of rounding and not growing: weights that move add up, and their KL grows with the square."""
        kl = history.get("kl").finite.since(2)
        third = len(kl) // 3
        if len(kl) < FEWEST_ROWS_OF_ROUNDING or float(kl.values.max()) > ROUNDING:
            return None
        early, late = float(kl.values[:third].mean()), float(kl.values[-third:].mean())
        if late <= 0 or late >= GROWTH * early:
            return None
        said = f"KL to the reference stays at {late:.1g} for {len(kl)} rows without growing"
        return said, float(kl.steps[0]), {"kl": late, "rows": len(kl)}

    def kl_is_zero(self, history: History) -> tuple[str, float, dict[str, float]] | None:
        """KL to the reference exactly zero on ten rows after the first."""
        kl = history.get("kl")
        values = kl.values[1:]
        if len(values) < FEWEST_ROWS or np.any(values != 0):
            return None
        return f"KL to the reference is exactly 0 on all {len(kl)} rows", float(kl.steps[0]), {"rows": len(kl)}

    def ratio_is_one(self, history: History) -> tuple[str, float, dict[str, float]] | None:
        """No clipping at all on completions that are used for several updates, with KL unmoved as well."""
        updates = updates_per_generation(history)
        logged = [history.get(key).finite for key in CLIP_KEYS if len(history.get(key)) >= FEWEST_ROWS]
        kl = history.get("kl").values
        if updates is None or updates <= 1 or not logged or not len(kl) or np.any(kl != 0):
            return None
        if any(np.any(series.values != 0) for series in logged):
            return None
        return (
            "later updates on the same completions leave the ratio at 1",
            float(logged[0].steps[0]),
            {"updates": updates},
        )

    def evaluations_agree(self, history: History) -> tuple[str, float, dict[str, float]] | None:
        """Every answer of every greedy evaluation the same."""
        done = history.evaluations
        if np.any(history.get("kl").finite.values > 0):  # they move, if slowly
            return None
        if len(done) < FEWEST_EVALUATIONS or done[-1].step - done[0].step < FEWEST_STEPS or not done[0].predicted:
            return None
        same = all(one.predicted == done[0].predicted and one.outcomes == done[0].outcomes for one in done)
        best = max(done[-1].metrics.values(), default=0.0)
        worst = min(done[-1].metrics.values(), default=0.0)
        if not same or worst >= 0.95 or best <= 0.0:
            return None
        return (
            f"all {len(done)} evaluations from step {done[0].step} to {done[-1].step} agree on every answer",
            float(done[0].step),
            {"evaluations": len(done)},
        )

    def sick(self) -> History:
        """KL at exactly zero for twelve rows."""
        return history_of(
            {"kl": [0.0] * 12, "grad_norm": [5.0] * 12, "reward": [0.4, 0.5] * 6}, settings={"beta": 0.02}
        )


RULE = UpdatesSwallowed()
