"""``metric-absent-explained``."""

from typing import ClassVar

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.records import Severity

# Keys that people look for, and why a sound log may lack them.
EXPECTED = {
    "kl": "logged only where beta is above 0; TRL's default became 0",
    "entropy": "TRL logs it from 0.19 on",
    "frac_reward_zero_std": "TRL logs it from 0.18 on",
    "completions/clipped_ratio": "TRL logs it from 0.17 on",
    "clip_ratio/region_mean": "TRL logs it from 0.17 on",
    "loss": "the log was filtered, or comes from a dashboard that shows chosen panels only",
    "grad_norm": "the log was filtered, or the trainer did not clip the gradient",
    "reward_std": "the log was filtered",
}


class MetricAbsentExplained(Rule):
    """A key that people look for is not in the log, for a reason that is no fault.

    ## Why it matters

    A missing curve looks like a broken logger. Most are missing by a setting or by the version, or are filtered out by
    the dashboard; what is missing is unknown, never zero.

    ## Example

    No `kl` anywhere: beta is 0, so no reference policy is run.

    ## Remedy

    Read `trainer_state.json` or the run folder for everything that was logged; set beta above 0 if KL is wanted.
    """

    code: ClassVar[str] = "metric-absent-explained"
    severity: ClassVar[Severity] = "note"
    live: ClassVar[bool] = False

    def judge(self, history: History) -> Verdict:
        """At least one expected key is missing from a log that has rewards."""
        if not len(history.get("reward")):
            return None
        absent = {name: reason for name, reason in EXPECTED.items() if not len(history.get(name))}
        beta = history.setting("beta")
        if "kl" in absent and beta is not None:
            absent["kl"] = "beta is 0" if beta == 0 else f"beta is {beta:g}, so the log was filtered"
        if not absent:
            return None
        reasons = "; ".join(f"{name} ({reason})" for name, reason in absent.items())
        return self.finding(
            f"Not in this log, so unknown rather than zero: {reasons}.",
            evidence={"absent": absent},
            remedy="Read trainer_state.json or the run folder, where nothing is filtered.",
        )

    def sick(self) -> History:
        """No KL, beta 0."""
        return history_of({"reward": [0.1, 0.2], "loss": [0.0, 0.0], "grad_norm": [1.0, 1.0]}, settings={"beta": 0.0})


RULE = MetricAbsentExplained()
