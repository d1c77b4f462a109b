"""What happens around the steps of a cold start: its rows, its stopping rule, its checkpoints."""

import json
import math
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from evenhand.errors import RunStopped
from evenhand.records import Evaluation
from evenhand.runfolder import COMPLETE, Checkpoint, RunFolder, replace_file
from evenhand.training.callbacks import RunFolderCallback

# What a checkpoint holds for going on; a model is loaded without.
STATE_FOR_RESUMING = ("optimizer.pt", "scheduler.pt", "scaler.pt", "rng_state.pth")


class SupervisedFolderCallback(RunFolderCallback):
    """Writes a run folder from a supervised trainer."""

    def _take_completions(self, step: int) -> None:
        """Nothing is sampled."""


class StoppingRule(TrainerCallback):
    """Saves every evaluated step, and ends the run at the first whose metric reaches the bound.

    Attach it behind what evaluates, and let that call :meth:`note`.

    Args:
        metric: A metric of the task; None: the run ends with its examples.
        bound: What the metric must reach.
    """

    def __init__(self, metric: str | None, bound: float) -> None:
        self.metric = metric
        self.bound = bound
        self.newest: Evaluation | None = None

    def note(self, evaluation: Evaluation) -> None:
        """An evaluation was made."""
        self.newest = evaluation

    def met(self) -> bool:
        """Whether the newest evaluation ends the cold start."""
        return self.newest is not None and reached(self.newest, self.metric, self.bound)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Raise RunStopped where the model reaches the bound as it comes."""
        del args, control
        if state.global_step == 0 and self.newest is not None and self.met():
            value = self.newest.metrics[str(self.metric)]
            raise RunStopped(
                f"Before the first example {self.metric} is {value:.1%}, and the cold start ends at {self.bound:.1%}: "
                "there is nothing to teach.",
                "Train it as it is, or begin another cold start with a higher coldstart.stop_at.",
            )

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Save where the step was evaluated, and stop where the bound is reached.

        Raises:
            RunStopped: the weights are no numbers any more; nothing is saved then.
        """
        del args
        if self.newest is None or self.newest.step != state.global_step:
            return
        refuse_spoilt(model, state.global_step)
        control.should_save = True
        if self.met():
            control.should_training_stop = True


def reached(evaluation: Evaluation, metric: str | None, bound: float) -> bool:
    """Whether an evaluation ends the cold start."""
    return metric is not None and evaluation.metrics.get(metric, -math.inf) >= bound


def refuse_spoilt(model: Any, step: int) -> None:
    """Raise RunStopped where a weight is NaN or infinite."""
    for name, weights in model.named_parameters():
        if not bool(torch.isfinite(weights).all()):
            raise RunStopped(
                f"After step {step} the weights of {name} are not finite.",
                "Begin another cold start with a lower coldstart.learning_rate, or with the weights in FP32.",
            )


class LeanCheckpoints(TrainerCallback):
    """Keeps the weights of every checkpoint, and the optimiser's state, twice their size, of the newest alone.

    Attach it behind what marks checkpoints complete.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """The newest one is whole, so the earlier ones are no longer needed for going on."""
        del args, control
        for checkpoint in self.folder.checkpoints():
            if checkpoint.step < state.global_step:
                without_optimiser(checkpoint)


def without_optimiser(checkpoint: Checkpoint) -> None:
    """Delete what only going on needs; the record of what must be there changes first."""
    record = checkpoint.path / COMPLETE
    kept = json.loads(record.read_text(encoding="utf-8"))
    hashes = {name: value for name, value in kept["sha256"].items() if name not in STATE_FOR_RESUMING}
    if hashes == kept["sha256"]:
        return
    replace_file(record, json.dumps({**kept, "sha256": hashes}, indent=2) + "\n")
    for name in STATE_FOR_RESUMING:
        (checkpoint.path / name).unlink(missing_ok=True)
