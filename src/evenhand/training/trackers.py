"""Findings in the trackers that TRL's ``report_to`` names. Evaluations are there already: they join the log rows."""

from collections.abc import Callable
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from evenhand.records import SEVERITIES, Finding

PREFIX = "findings/"  # findings/<code> = 0 ok, 1 note, 2 warn, 3 stop, at the step where it was found
INTEGRATIONS = "transformers.integrations"  # where the callbacks of report_to live

Say = Callable[[Finding], None]


def tracked(trainer: Trainer, say: Say) -> Say:
    """What a watchdog may call with each finding: it goes to the trackers, then on to ``say``.

    A number is all that every tracker can show (TensorBoard, Weights & Biases, Trackio), so the severity stands as one;
    the words are in the run folder's ``findings.jsonl``.
    """

    def track(finding: Finding) -> None:
        row = {f"{PREFIX}{finding.code}": float(SEVERITIES.index(finding.severity))}
        for callback in trainer.callback_handler.callbacks:
            if type(callback).__module__.startswith(INTEGRATIONS):
                callback.on_log(trainer.args, trainer.state, trainer.control, logs=dict(row), model=trainer.model)
        say(finding)

    return track


class FinalFindings(TrainerCallback):
    """Asks a watchdog for its last findings before the trackers close, which are told of a run's end first."""

    def __init__(self, watchdog: TrainerCallback) -> None:
        self.watchdog = watchdog

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Let the watchdog speak now; asked again in its own turn, it has nothing new to say."""
        self.watchdog.on_train_end(args, state, control)

    def attach(self, trainer: Trainer) -> None:
        """Stand before every other callback."""
        trainer.callback_handler.callbacks.insert(0, self)
