"""Advantages of shape (completions, tokens) from a task's spans, for TRL's loss."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from accelerate.utils import gather_object
from trl import GRPOConfig, GRPOTrainer

from evenhand.credit import Parts, checked_spans, part_advantages, token_parts
from evenhand.errors import ConfigurationError
from evenhand.tasks import Task

REMEDY = "Train with credit = 'completion'."


class LineCredit:
    """Gives every token the advantage of its own part of the answer.

    Tokens of a part carry the part's advantage over the same part of the group's other completions
    (:func:`evenhand.credit.part_advantages`); tokens outside the named parts, such as those of a line too many, carry
    the completion's, as all tokens do in plain GRPO.

    Args:
        task: Its ``spans`` name the parts. The dataset must hold its ``columns``.

    Raises:
        ConfigurationError: the task has no spans.
    """

    def __init__(self, task: Task) -> None:
        check_task(task)
        self.task = task

    def token_advantages(
        self, trainer: GRPOTrainer, inputs: Sequence[Mapping[str, Any]], made: Mapping[str, Any]
    ) -> torch.Tensor:
        """Advantages [B, C] of this process's completions, from TRL's own [B].

        Args:
            trainer: Knows the group size, the scaling, the rewards' weights and the tokenizer.
            inputs: The dataset's row of each completion.
            made: What ``_generate_and_score_completions`` returned.

        Raises:
            TaskError: spans that do not cover their text.
        """
        tokenizer: Any = trainer.processing_class
        rows: list[list[int]] = made["completion_ids"].tolist()
        texts = tokenizer.batch_decode(rows, skip_special_tokens=True)
        weights = self._weights(trainer)
        parts = [self._parts(row, text, weights) for row, text in zip(inputs, texts, strict=True)]
        # a group may stand on several processes
        everyone: list[Mapping[str, float]] = gather_object([part.values for part in parts])
        first = trainer.accelerator.process_index * len(parts)
        scale = trainer.scale_rewards
        advantages = part_advantages(everyone, trainer.num_generations, scale)[first : first + len(parts)]
        grid: torch.Tensor = made["advantages"][:, None].repeat(1, made["completion_ids"].shape[1])

        def decode(ids: Sequence[int]) -> str:
            return str(tokenizer.decode(ids, skip_special_tokens=True))

        for row, (ids, part, of_part) in enumerate(zip(rows, parts, advantages, strict=True)):
            for place, name in enumerate(token_parts(part.spans, ids, decode)):
                if name is not None:
                    grid[row, place] = of_part[name]
        return grid

    def _parts(self, row: Mapping[str, Any], text: str, weights: Mapping[str, float]) -> Parts:
        columns = {name: row[name] for name in self.task.columns}
        return Parts.of(checked_spans(self.task.spans(columns, text) or (), text, self.task.name), weights)

    def _weights(self, trainer: GRPOTrainer) -> dict[str, float]:
        """The trainer's weights of the task's rewards; those that it does not use weigh nothing."""
        used = dict(zip(trainer.reward_func_names, trainer.reward_weights.tolist(), strict=True))
        return {reward.name: used.get(reward.name, 0.0) for reward in self.task.rewards}


def check_task(task: Task) -> None:
    """Raise ConfigurationError if the task's answers have no parts."""
    columns = task.draw("train")[0]
    if task.spans(columns, task.gold(columns)) is None:
        raise ConfigurationError(f"credit = 'line' needs spans, and the task {task.name} has none.", REMEDY)


def check_arguments(args: GRPOConfig) -> None:
    """Raise ConfigurationError for losses that compare whole completions with their advantages."""
    faults = {
        "loss_type = 'vespo'": args.loss_type == "vespo",
        "use_liger_kernel": args.use_liger_kernel,
        "off_policy_mask_threshold": args.off_policy_mask_threshold is not None,
    }
    named = [name for name, holds in faults.items() if holds]
    if named:
        raise ConfigurationError(f"credit = 'line' does not go with {named[0]}, which knows completions only.", REMEDY)
