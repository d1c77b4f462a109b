"""``dtype-changed-on-save``."""

from typing import ClassVar

from evenhand.diagnosis.history import History, Weights, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.records import Severity


def main_dtype(elements: dict[str, int]) -> str | None:
    """The dtype that holds most of the elements."""
    return max(elements, key=lambda name: elements[name]) if elements else None


class DtypeChangedOnSave(Rule):
    """A saved checkpoint has other dtypes than the model from which it was saved.

    ## Why it matters

    Weights saved in BF16 have lost their FP32 norms, and with them every small update of those; weights saved in FP32
    take twice the space of the model that was loaded. Either way what is reloaded is not what was trained.

    ## Example

    A model loaded in BF16 (8.0 GB) ends as a file in FP32 (16.1 GB).

    ## Remedy

    Convert on export and say so; keep norms in FP32 only where that was chosen, and reload each tensor at the dtype in
    which it was saved.
    """

    code: ClassVar[str] = "dtype-changed-on-save"
    severity: ClassVar[Severity] = "warn"
    live: ClassVar[bool] = False

    def judge(self, history: History) -> Verdict:
        """The first set of weights is the model; the others are compared with it, matrices and norms apart."""
        if len(history.weights) < 2:
            return self.unknown("no dtypes of the model and of a saved checkpoint to compare")
        model = history.weights[0]
        for saved in history.weights[1:]:
            change = self.change(model, saved)
            if change:
                digits = "".join(filter(str.isdigit, saved.label))
                return self.finding(
                    f"{saved.label} was saved with {change}.",
                    step=int(digits) if digits else None,
                    evidence={
                        "model": model.label,
                        "saved": saved.label,
                        "body": dict(saved.body),
                        "norms": dict(saved.norms),
                    },
                    remedy="Reload each tensor at the dtype it was trained in, and convert on export only.",
                )
        return None

    def change(self, model: Weights, saved: Weights) -> str | None:
        """What differs, in words."""
        for what, before, after in (("matrices", model.body, saved.body), ("norms", model.norms, saved.norms)):
            was, now = main_dtype(dict(before)), main_dtype(dict(after))
            if was is not None and now is not None and was != now:
                return f"its {what} in {now}, which the model holds in {was}"
        return None

    def sick(self) -> History:
        """BF16 in, FP32 out."""
        model = Weights("model", {"BF16": 1000}, {"BF16": 10})
        return history_of({"reward": [0.1]}, weights=(model, Weights("checkpoint-100", {"F32": 1000}, {"F32": 10})))


RULE = DtypeChangedOnSave()
