"""Advantages of shape (completions, tokens) from a task's spans, for TRL's loss."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from accelerate.utils import gather_object
from trl import GRPOConfig, GRPOTrainer

from evenhand.credit import Parts, part_advantages, spans_of, token_parts
from evenhand.errors import ConfigurationError
from evenhand.tasks import Task

REMEDY = "Train with credit = 'completion'."
SHOWN = 60  # characters of a text in an error
TRIED_PROBLEMS = 3


class LineCredit:
    """Gives every token the advantage of its own part of the answer.

    Tokens of a part carry the part's advantage over the same part of the group's other completions
    (:func:`evenhand.credit.part_advantages`); tokens outside the named parts, such as those of a line too many, carry
    the completion's, as all tokens do in plain GRPO.

    Args:
        task: Its ``spans`` name the parts. The dataset must hold its ``columns``.

    Raises:
        ConfigurationError: the task has no spans.
        TaskError: its spans do not fit texts that are known before training.
    """

    def __init__(self, task: Task) -> None:
        check_task(task)
        self.task = task

    def token_advantages(
        self, trainer: GRPOTrainer, inputs: Sequence[Mapping[str, Any]], made: Mapping[str, Any]
    ) -> torch.Tensor:
        """Advantages [B, C] of this process's completions, from TRL's own [B].

        They also go into TRL's table of completions, as the column ``line_advantages``.

        Args:
            trainer: Knows group size, scaling, the rewards' weights, the tokenizer and the texts that rewards saw.
            inputs: The dataset's row of each completion.
            made: What ``_generate_and_score_completions`` returned.

        Raises:
            TaskError: spans that do not cover their text.
            ConfigurationError: rewards saw a text that the sampled tokens do not hold.
        """
        rows: list[list[int]] = made["completion_ids"].tolist()
        texts, weights = trainer.rewarded_texts, self._weights(trainer)
        parts = [self._parts(row, text, weights) for row, text in zip(inputs, texts, strict=True)]
        # a group may stand on several processes
        everyone: list[Mapping[str, float]] = gather_object([part.values for part in parts])
        advantages = part_advantages(everyone, trainer.num_generations, trainer.scale_rewards)
        trainer._logs["extra"]["line_advantages"].extend(of_part or None for of_part in advantages)
        first = trainer.accelerator.process_index * len(parts)
        grid: torch.Tensor = made["advantages"][:, None].repeat(1, made["completion_ids"].shape[1])
        decode = decoder(trainer.processing_class)
        own = advantages[first : first + len(parts)]
        for row, (ids, text, part, of_part) in enumerate(zip(rows, texts, parts, own, strict=True)):
            placed = part.behind(place_of(text, decode(ids)))
            for place, name in enumerate(token_parts(placed.spans, ids, decode)):
                if name is not None:
                    grid[row, place] = of_part[name]
        return grid

    def check(self, trainer: GRPOTrainer) -> None:
        """Raise ConfigurationError where this trainer's tokens cannot carry advantages of their own."""
        check_arguments(trainer.args)
        if trainer.tools:
            raise ConfigurationError("credit = 'line' does not go with tools, whose texts no model wrote.", REMEDY)
        if not {reward.name for reward in self.task.rewards} & set(trainer.reward_func_names):
            raise ConfigurationError(
                f"credit = 'line' weighs the rewards of the task {self.task.name}, and the trainer uses none of them.",
                "Give it evenhand.rewards.Grader(task).reward_functions().",
            )

    def _parts(self, row: Mapping[str, Any], text: str, weights: Mapping[str, float]) -> Parts:
        return Parts.read(self.task, {name: row[name] for name in self.task.columns}, text, weights)

    def _weights(self, trainer: GRPOTrainer) -> dict[str, float]:
        """The trainer's weights of the task's rewards; those that it does not use weigh nothing."""
        used = dict(zip(trainer.reward_func_names, trainer.reward_weights.tolist(), strict=True))
        return {reward.name: used.get(reward.name, 0.0) for reward in self.task.rewards}


def check_task(task: Task) -> None:
    """Try the task's spans on texts that are known before training.

    Raises:
        ConfigurationError: its answers have no parts.
        TaskError: spans that do not fit one of the texts.
    """
    weights = {reward.name: reward.weight for reward in task.rewards}
    for columns in task.draw("train")[:TRIED_PROBLEMS]:
        if spans_of(task, columns, task.gold(columns)) is None:
            raise ConfigurationError(f"credit = 'line' needs spans, and the task {task.name} has none.", REMEDY)
        for text in (
            task.gold(columns),
            *task.near_misses(columns).values(),
            *task.blind_answers(columns).values(),
            "",
        ):
            Parts.read(task, columns, text, weights)


def decoder(tokenizer: Any) -> Callable[[Sequence[int]], str]:
    """From leading tokens to their text; completions of a group begin alike, so each beginning is decoded once."""
    known: dict[tuple[int, ...], str] = {}

    def decode(ids: Sequence[int]) -> str:
        beginning = tuple(ids)
        if beginning not in known:
            known[beginning] = tokenizer.decode(list(ids), skip_special_tokens=True)
        return known[beginning]

    return decode


def place_of(text: str, decoded: str) -> int:
    """Where the text that rewards saw begins in what the tokens decode to.

    Raises:
        ConfigurationError: it does not stand there, so its tokens cannot be told.
    """
    place = decoded.find(text)
    if place < 0:
        raise ConfigurationError(
            f"credit = 'line' finds no tokens for {text[:SHOWN]!r}: rewards saw it, and the completion's tokens decode "
            f"to {decoded[:SHOWN]!r}.",
            REMEDY,
        )
    return place


def check_arguments(args: GRPOConfig) -> None:
    """Raise ConfigurationError for losses in which a token's advantage does not stay its own."""
    faults = {
        # the ratio's gradient is shared by all tokens, so each would carry the mean of the completion's advantages
        "importance_sampling_level = 'sequence'": args.importance_sampling_level == "sequence",
        "multi_objective_aggregation = 'normalize_then_sum'": args.multi_objective_aggregation == "normalize_then_sum",
        "loss_type = 'vespo'": args.loss_type == "vespo",
        "use_liger_kernel": args.use_liger_kernel,
        "off_policy_mask_threshold": args.off_policy_mask_threshold is not None,
    }
    named = [name for name, holds in faults.items() if holds]
    if named:
        raise ConfigurationError(f"credit = 'line' does not go with {named[0]}, which knows completions only.", REMEDY)
