"""Scores the model while it trains: at step 0, then every so many steps, the split shared out among the processes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from accelerate.utils import gather_object
from transformers import PreTrainedTokenizerBase, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOTrainer
from trl.models.utils import unwrap_model_for_generation

from evenhand.evaluation import Answer, Decoding, answer, summarise
from evenhand.records import Evaluation, Problem
from evenhand.runfolder import RunFolder
from evenhand.tasks import Task


@dataclass(frozen=True, slots=True)
class Examination:
    """What is asked, and how."""

    task: Task
    split: str
    problems: Sequence[Problem]
    decoding: Decoding
    every: int


class EvaluationCallback(TrainerCallback):
    """Greedy answers to a split at step 0 and every ``every`` steps, into the run folder and the trainer's log rows.

    ``report`` is called with each evaluation on the main process.
    """

    def __init__(
        self,
        trainer: GRPOTrainer,
        tokenizer: PreTrainedTokenizerBase,
        examination: Examination,
        folder: RunFolder | None,
        report: Callable[[Evaluation], None],
    ) -> None:
        self.trainer = trainer
        self.tokenizer = tokenizer
        self.examination = examination
        self.folder = folder
        self.report = report

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """The fresh model's score; a resumed run has it already."""
        del args, control
        if state.global_step == 0:
            evaluation = self._evaluate(0)
            # No rollout has been made, so this row takes no metrics of a step with it. Every process logs, since
            # other callbacks may speak with each other when a row is logged.
            self.trainer.log(logged(evaluation) if evaluation is not None else {})

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """A score on its way; it joins the log row of this step, so that every tracker shows it."""
        del args, control
        if state.global_step % self.examination.every == 0 or state.global_step == state.max_steps:
            evaluation = self._evaluate(state.global_step)
            if evaluation is not None:
                for key, value in logged(evaluation).items():
                    self.trainer._metrics["train"][key].append(value)

    def _evaluate(self, step: int) -> Evaluation | None:
        """The evaluation, on the main process; None on the others, which answered their share."""
        start = time.perf_counter()
        answers = self._answers()
        if not self.trainer.accelerator.is_main_process:
            return None
        plan = self.examination
        evaluation = summarise(plan.task, answers, plan.split, step, time.perf_counter() - start)
        if self.folder is not None:
            self.folder.write_answers(evaluation, [one.to_json(plan.task) for one in answers])
            self.folder.append("evaluations.jsonl", evaluation.to_json())
        self.report(evaluation)
        return evaluation

    def _answers(self) -> list[Answer]:
        """Every process answers its share of the problems; all get all."""
        accelerator, plan = self.trainer.accelerator, self.examination
        share = plan.problems[accelerator.process_index :: accelerator.num_processes]
        with unwrap_model_for_generation(self.trainer.model_wrapped, accelerator) as model:
            mine = answer(model, self.tokenizer, plan.task, share, plan.decoding)
        everyone: list[Answer] = gather_object(mine)
        return sorted(everyone, key=lambda one: one.problem.index)


def logged(evaluation: Evaluation) -> dict[str, float]:
    """An evaluation as keys of a log row."""
    return {f"{evaluation.split}/{name}": value for name, value in evaluation.metrics.items()}
