"""``evaluation-not-on-saved-steps``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Settings, Setup
from evenhand.records import Severity


class EvaluationNotOnSavedSteps(Check):
    """Steps are evaluated that no checkpoint keeps.

    ## Why it matters

    The best evaluation may be one of them, and then it can be admired and not used.

    ## Example

    Evaluated every 10 steps, saved every 20: the peaks at 40 and 70 were equal, and 70 was gone.

    ## Remedy

    Save as often as you evaluate.
    """

    code: ClassVar[str] = "evaluation-not-on-saved-steps"
    severity: ClassVar[Severity] = "note"
    needs: ClassVar[tuple[Part, ...]] = ("settings",)

    def judge(self, setup: Setup) -> Verdict:
        """Multiples of the two intervals."""
        settings = present(setup.settings)
        saved = saved_steps(settings)
        evaluated = range(settings.evaluate_every, settings.updates + 1, settings.evaluate_every)
        lost = [step for step in evaluated if step not in saved]
        if not lost:
            return None
        return self.finding(
            f"Evaluated and not saved: steps {', '.join(map(str, lost[:8]))}{' …' if len(lost) > 8 else ''}.",
            evidence={"every": settings.evaluate_every, "save_steps": settings.train.get("save_steps"), "lost": lost},
            remedy=f"--set save_steps={settings.evaluate_every}",
        )

    def sick(self) -> Setup:
        """Saved half as often as evaluated."""
        return Setup(settings=examples.settings(save_steps=20))


def saved_steps(settings: Settings) -> set[int]:
    """Steps after which a checkpoint is written; the last step is saved in any case."""
    if str(settings.train.get("save_strategy", "steps")).endswith("no"):
        return set()
    every = settings.number("save_steps", 500)
    interval = max(1, round(every * settings.updates) if every < 1 else int(every))
    return {*range(interval, settings.updates + 1, interval), settings.updates}


CHECK = EvaluationNotOnSavedSteps()
