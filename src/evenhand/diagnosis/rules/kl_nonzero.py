"""``kl-nonzero-before-first-update``."""

from typing import ClassVar

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.records import Severity

# KL per token of two copies of the same weights. A BF16 policy against an FP32 reference gives 2e-6, another attention
# kernel up to 1e-3; 0.05 leaves fifty times that.
SAME_WEIGHTS = 0.05
# A first row that averages several steps holds updates already. No learning rate in use reaches this in ten steps.
AVERAGED = 5.0


class KlNonzeroBeforeFirstUpdate(Rule):
    """KL is far from zero before the first update has been made.

    ## Why it matters

    At step 1 policy and reference are the same weights, so they must agree on every token. If they do not, dropout is
    on, or the reference is another model, template or dtype, and the KL term pulls the policy somewhere else.

    ## Example

    `kl` 4,100 at step 1 with dropout 0.1 in embedding, attention and residual.

    ## Remedy

    Switch dropout off (`disable_dropout`); if KL stays high, compare what the reference was loaded from.
    """

    code: ClassVar[str] = "kl-nonzero-before-first-update"
    severity: ClassVar[Severity] = "stop"
    explains: ClassVar[frozenset[str]] = frozenset({"loss-tracks-beta-kl"})

    def judge(self, history: History) -> Verdict:
        """The first logged KL, if the log begins where the run did."""
        kl = history.get("kl").finite
        if not len(kl):
            return self.unknown("kl was not logged (it is absent where beta is 0)")
        first_step, first = float(kl.steps[0]), float(kl.values[0])
        epoch = history.get("epoch").finite
        from_start = first_step <= 1 and (history.steps_known or not len(epoch) or float(epoch.values[0]) <= 0.02)
        limit = SAME_WEIGHTS if from_start else AVERAGED
        if first <= limit or (not from_start and first_step > max(10.0, history.interval)):
            return None
        return self.finding(
            f"KL is {first:.3g} in the first row (step {first_step:.0f}), where policy and reference should be the "
            "same weights: dropout is on, or the reference is another model, template or dtype.",
            step=first_step,
            evidence={"kl": first, "limit": limit, "rows": [first_step]},
            remedy="Set disable_dropout, then check what the reference was loaded from.",
        )

    def sick(self) -> History:
        """Thousands at step 1."""
        return history_of({"kl": [4100.0, 3900.0, 4300.0], "reward": [0.1, 0.1, 0.2], "grad_norm": [9.0, 8.0, 9.0]})


RULE = KlNonzeroBeforeFirstUpdate()
