"""Callbacks that write a run folder while any ``GRPOTrainer`` trains, score the model, and show how far it is."""

import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOTrainer

from evenhand.records import Completion, StepMetrics
from evenhand.rewards import text_of, weighted_reward
from evenhand.runfolder import CHECKPOINT_PREFIX, RunFolder, mark_complete
from evenhand.training.watchdog import any_process


class RunFolderCallback(TrainerCallback):
    """Writes a run folder from any ``GRPOTrainer``: metrics, completions, checkpoints' marks, the trainer's state.

    Args:
        trainer: The trainer; Transformers does not hand it to callbacks.
        folder: Where to write; None makes a new folder under ``runs/trl/``.
        writes: False on every process but the main one.
    """

    def __init__(self, trainer: GRPOTrainer, folder: RunFolder | None = None, writes: bool | None = None) -> None:
        self.trainer = trainer
        self.writes = trainer.accelerator.is_main_process if writes is None else writes
        self.folder = folder
        self._pending: list[Completion] = []

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Open the folder."""
        del control
        if not self.writes:
            return
        if self.folder is None:
            self.folder = RunFolder.create(Path("runs"), "trl")
            self.folder.write_json("trainer_arguments.json", args.to_dict())
            self.folder.link_checkpoints(Path(args.output_dir or ""))
        self.folder.write_status("running", step=state.global_step, max_steps=state.max_steps)

    def on_substep_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """A step may hold several rollouts; the trainer's table keeps only the last."""
        del args, control
        self._take_completions(state.global_step + 1)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Write the step's completions."""
        del args, control
        self._take_completions(state.global_step)
        if self.folder is not None and self._pending:
            self.folder.write_completions(state.global_step, self._pending)
        self._pending = []

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Append the row, and keep Transformers' own state beside it."""
        del args, control
        if self.folder is None or not logs or "train_runtime" in logs:
            return
        values = {key: float(value) if isinstance(value, int | float) else value for key, value in logs.items()}
        self.folder.append("metrics.jsonl", StepMetrics(state.global_step, values).to_json())

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Mark the checkpoint whole: it is written in place, so an unmarked one may be half."""
        del control
        self.trainer.accelerator.wait_for_everyone()  # every rank has written its part
        if self.folder is None or not state.is_world_process_zero:
            return
        checkpoint = Path(args.output_dir or "") / f"{CHECKPOINT_PREFIX}{state.global_step}"
        if checkpoint.is_dir():
            mark_complete(checkpoint)
        state.save_to_json(str(self.folder.path / "trainer_state.json"))

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Close the folder."""
        del args, control
        if self.folder is not None:
            state.save_to_json(str(self.folder.path / "trainer_state.json"))
            ended = "finished" if state.global_step >= state.max_steps else "stopped"
            self.folder.write_status(ended, step=state.global_step, max_steps=state.max_steps)

    def _take_completions(self, step: int) -> None:
        """Read TRL's table of completions if the micro-step that just ended sampled them."""
        trainer = self.trainer
        cycle = trainer.args.steps_per_generation * trainer.num_iterations
        if self.folder is not None and (trainer._step - 1) % cycle == 0:
            groups_so_far = len({completion.group for completion in self._pending})
            self._pending += sampled_completions(trainer, step, groups_so_far)


def sampled_completions(trainer: GRPOTrainer, step: int, first_group: int = 0) -> list[Completion]:
    """The completions of the trainer's last rollout, of all processes, group by group."""
    logs = trainer._logs
    weights = dict(zip(trainer.reward_func_names, trainer.reward_weights.tolist(), strict=True))
    extra = {column: list(values) for column, values in logs["extra"].items()}
    found = []
    for i, completion in enumerate(logs["completion"]):
        rewards = {name: values[i] for name, values in logs["rewards"].items()}
        readings = {column: values[i] for column, values in extra.items() if i < len(values)}
        prompt = logs["prompt"][i]
        found.append(
            Completion(
                step=step,
                group=first_group + i // trainer.num_generations,
                prompt=prompt if isinstance(prompt, str) else text_of(prompt),
                text=text_of(completion),
                rewards=rewards,
                reward=weighted_reward(rewards, weights),
                advantage=logs["advantages"][i],
                metrics=readings.get("metrics") or {},
                prediction=readings.get("prediction"),
                columns=readings.get("columns") or {},
                line_advantages=readings.get("line_advantages") or {},
            )
        )
    return found


class InterruptCallback(TrainerCallback):
    """Ctrl-C ends the run after the step at hand, with a checkpoint; a second one ends it at once."""

    def __init__(self) -> None:
        self.interrupted = False
        self._earlier: Any = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Listen. Signals can only be caught in the main thread."""
        del args, state, control
        if threading.current_thread() is threading.main_thread():
            self._earlier = signal.signal(signal.SIGINT, self._note)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Save and stop, if asked to."""
        del args, state
        if any_process(self.interrupted):  # a signal may reach the processes on two sides of a step's end
            self.interrupted = True
            control.should_save = True
            control.should_training_stop = True

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop listening."""
        del args, state, control
        self.restore()

    def restore(self) -> None:
        """Give the signal back to whoever had it."""
        if self._earlier is not None:
            signal.signal(signal.SIGINT, self._earlier)
            self._earlier = None

    def _note(self, number: int, frame: Any) -> None:
        del number, frame
        self.interrupted = True
        self.restore()
