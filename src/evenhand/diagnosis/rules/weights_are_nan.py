"""``weights-are-nan``."""

from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.rules.accumulation_count_zero import gradient_alone_is_nan
from evenhand.records import Severity

# What comes out of a forward or backward pass. A reward term may be NaN by right: TRL logs that where a function
# abstained on a whole batch.
COMPUTED = ("loss", "grad_norm", "kl", "entropy")
# Rows of finite numbers after which a non-finite one was a skipped update rather than the end: FP16 loss scaling
# skips one or two in a row. A broken run has none.
RECOVERED_AFTER = 3


def first_broken(history: History) -> tuple[float, str, str] | None:
    """Step, key and value of the first number that is not finite, or of the first ``null`` where numbers stood before.

    TRL replaces a NaN loss by 0.0 in the log and writes ``null`` for KL and entropy of such a step.
    """
    found = []
    for name in COMPUTED:
        series = history.get(name)
        broken = np.flatnonzero(~np.isfinite(series.values))
        if len(broken):
            found.append((float(series.steps[broken[0]]), name, str(series.values[broken[0]])))
    empty = [history.nulls.get(name, np.empty(0)) for name in ("kl", "entropy")]
    present = [steps for steps in empty if len(steps)]
    numbered = all(len(history.get(name)) for name in ("kl", "entropy") if name in history.nulls)
    if present and numbered and not found:
        found.append((float(min(steps[0] for steps in present)), "kl or entropy", "null"))
    return min(found, default=None)


def recovered(history: History, step: float) -> bool:
    """Whether every computed key has at least three entries after the last non-finite one, all finite."""
    lengths = []
    for name in COMPUTED:
        later = history.get(name).since(step)
        if len(later):
            broken = np.flatnonzero(~np.isfinite(later.values))
            lengths.append(len(later) - (int(broken[-1]) + 1 if len(broken) else 0))
        lengths += [0 for empty in history.nulls.get(name, ()) if empty >= step]
    return bool(lengths) and min(lengths) >= RECOVERED_AFTER


class WeightsAreNan(Rule):
    """A number of the forward or backward pass is NaN or infinite, and stays so.

    ## Why it matters

    One such update makes every weight NaN, and no later step can mend it: the model writes the same token for ever, or
    generation fails. TRL hides the loss of such a step behind 0.0, so the loss curve looks calm.

    ## Example

    `grad_norm` 0.9, 1.1, nan, nan with `loss` 0.0012, 0.0007, 0.0, 0.0 from step 59 on.

    ## Remedy

    Go back to the checkpoint before the first such row, lower the learning rate or clip harder, and leave the broken
    rows out of every average.
    """

    code: ClassVar[str] = "weights-are-nan"
    severity: ClassVar[Severity] = "stop"
    explains: ClassVar[frozenset[str]] = frozenset({"updates-swallowed", "dtype-changed-on-save"})

    def judge(self, history: History) -> Verdict:
        """The first non-finite number; a single skipped update that the run survived is a note."""
        first = first_broken(history)
        if first is None or gradient_alone_is_nan(history):
            return None
        step, name, value = first
        evidence = {"key": name, "value": value, "rows": [step], "rows_before": int((history.steps < step).sum())}
        if recovered(history, step):
            return self.finding(
                f"{name} was {value} at step {step:.0f} and finite again afterwards: that update was skipped.",
                step=step,
                evidence=evidence,
                remedy="Nothing, if it stays rare; with FP16 it is the loss scale being found.",
                severity="note",
            )
        return self.finding(
            f"{name} is {value} from step {step:.0f} on: the weights are NaN or about to be, and nothing after this "
            "row means anything.",
            step=step,
            evidence=evidence,
            remedy="Lower the learning rate or clip the gradient harder before going on.",
        )

    def sick(self) -> History:
        """Two calm rows, then NaN behind a loss of 0.0."""
        nan = float("nan")
        return history_of({"loss": [0.001, 0.002, 0.0], "grad_norm": [0.9, 1.1, nan], "kl": [0.001, 0.002, nan]})


RULE = WeightsAreNan()
