"""Groups without spread give way to groups of fresh prompts before an update: DAPO's dynamic sampling.

A group whose completions are all paid alike teaches nothing, so its place in the batch is wasted. DAPO (Yu and others,
2025, arXiv 2503.14476, section 3.2) samples further prompts until the batch is full of groups that teach. Here further
prompts are drawn for a bounded number of rounds, and every completion that was drawn is counted
(``completions_sampled``), so that runs can be compared at equal numbers of completions.

What a step logs stays that of its first round, which is a fair sample of the training prompts: of the groups that are
trained on, hardly any would be solved. ``frac_trained_zero_std`` tells the share of those that have no spread.
"""

import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.nn.functional import pad as padded
from trl import GRPOConfig, GRPOTrainer

from evenhand.errors import ConfigurationError
from evenhand.rewards import weighted_reward

REMEDY = "Train with resample = 0."

# Equal rewards give advantages of rounding errors divided by 1e-4, not always 0.
NOISE = 1e-6

Sample = Callable[[list[dict[str, Any]]], Mapping[str, Any]]


class Resampler:
    """Fills a generation batch with groups that teach.

    Args:
        trainer: Whose rollouts they are; its dataset gives the fresh prompts.
        rounds: How many further rounds are drawn at most for one batch.
        sample: A round: from rows of the dataset, a group's rows together, to TRL's tensors.

    Raises:
        ConfigurationError: groups of two rollouts cannot stand in one batch of this trainer.
    """

    def __init__(self, trainer: GRPOTrainer, rounds: int, sample: Sample) -> None:
        check_trainer(trainer)
        self.trainer = trainer
        self.rounds = rounds
        self.sample = sample

    def fill(self, inputs: Sequence[Mapping[str, Any]], made: Mapping[str, Any]) -> Mapping[str, Any]:
        """The batch with groups of fresh prompts in the places of those without spread, as far as the rounds go.

        Args:
            inputs: The dataset's row of each completion of the first round.
            made: TRL's tensors of the first round, a row for each completion.
        """
        trainer, metrics = self.trainer, self.trainer._metrics["train"]
        first_round = {name: list(values) for name, values in metrics.items()}
        spread = self._spread(made)
        asked = [row["prompt"] for row in inputs[:: trainer.num_generations]]
        for number in range(self.rounds):
            idle = [group for group, alive in enumerate(spread) if not alive]
            fresh = self._fresh(len(idle), asked, number)
            if not fresh:
                break
            asked += [row["prompt"] for row in fresh]
            made, replaced = self._replace(made, idle, fresh)
            spread = [alive or group in replaced for group, alive in enumerate(spread)]
        metrics.clear()
        metrics.update(first_round)
        metrics["num_tokens"] = [trainer.state.num_input_tokens_seen]  # a running total, not a mean
        metrics["frac_trained_zero_std"].append(spread.count(False) / len(spread))
        return made

    def _replace(
        self, made: Mapping[str, Any], idle: Sequence[int], fresh: Sequence[dict[str, Any]]
    ) -> tuple[Mapping[str, Any], set[int]]:
        """A round: the batch with as many idle groups replaced as fresh ones teach, and which were."""
        size = self.trainer.num_generations
        with Table(self.trainer._logs, len(made["completion_ids"])) as table:
            other = self.sample([row for row in fresh for _ in range(size)])
            teaching = [group for group, alive in enumerate(self._spread(other)) if alive]
            places = dict(zip(idle, teaching, strict=False))
            table.moves = {
                place * size + member: source * size + member
                for place, source in places.items()
                for member in range(size)
            }
        token = self.trainer._tokenizer.pad_token_id
        return spliced(made, other, table.moves, token) if places else made, set(places)

    def _spread(self, made: Mapping[str, Any]) -> list[bool]:
        """Of each group of the last rollout, whether its completions are told apart, as wholes or in a part."""
        trainer, size = self.trainer, self.trainer.num_generations
        rewards = logged_rewards(trainer, len(made["completion_ids"]))
        found = []
        for start in range(0, len(rewards), size):
            group, advantages = rewards[start : start + size], made["advantages"][start : start + size]
            alike = math.isclose(max(group), min(group), rel_tol=1e-6, abs_tol=1e-8)
            found.append(not alike or (advantages.ndim > 1 and bool((advantages.abs() > NOISE).any())))
        return found

    def _fresh(self, count: int, asked: Sequence[Any], number: int) -> list[dict[str, Any]]:
        """Rows of the dataset whose prompts are not in the batch, up to ``count``.

        Their order depends on the run's seed, on where in the run the batch stands and on the round alone, so that a
        resumed run draws what the unbroken one drew, whatever was sampled on the way.
        """
        trainer, data = self.trainer, self.trainer.train_dataset
        batches = trainer._step // trainer.args.steps_per_generation  # a step may generate several times
        place = f"{trainer.args.seed} {trainer.state.global_step} {batches} {number}"
        generator = torch.Generator().manual_seed(random.Random(place).getrandbits(63))
        known, found = list(asked), []
        for index in torch.randperm(len(data), generator=generator) if count else ():
            row = data[int(index)]
            if row["prompt"] not in known:
                known.append(row["prompt"])
                found.append(row)
            if len(found) == count:
                break
        return found


class Table:
    """TRL's table of completions, kept while another round writes its own.

    On leaving, the rows of before are back, those in ``moves`` (row -> row of the other round) taken from the other
    round: what is trained on is what the run folder keeps.

    Args:
        logs: The trainer's ``_logs``.
        rows: Completions of a generation batch.
    """

    def __init__(self, logs: dict[str, Any], rows: int) -> None:
        self.moves: Mapping[int, int] = {}
        self._logs = logs
        self._rows = rows

    def __enter__(self) -> "Table":
        self._before = {name: list(column)[-self._rows :] for name, column in self._columns()}
        self._clear()
        return self

    def __exit__(self, *_: object) -> None:
        other = {name: list(column) for name, column in self._columns()}
        self._clear()
        for name, column in self._columns():
            before = self._before.get(name, [])
            if before or other[name]:
                column.extend(self._joined(before or [None] * self._rows, other[name]))

    def _joined(self, before: Sequence[Any], other: Sequence[Any]) -> Iterator[Any]:
        for place, value in enumerate(before):
            if place not in self.moves:
                yield value
            else:
                yield other[self.moves[place]] if other else None

    def _columns(self) -> Iterator[tuple[tuple[str, str], deque[Any]]]:
        for name, column in self._logs.items():
            if isinstance(column, Mapping):
                yield from (((name, inner), values) for inner, values in column.items())
            else:
                yield (name, ""), column

    def _clear(self) -> None:
        for _, column in self._columns():
            column.clear()


def logged_rewards(trainer: GRPOTrainer, rows: int) -> list[float]:
    """Weighted rewards of the last rollout, from TRL's table."""
    weights = dict(zip(trainer.reward_func_names, trainer.reward_weights.tolist(), strict=True))
    terms = [list(trainer._logs["rewards"][name])[-rows:] for name in weights]
    # a reward function may abstain, which TRL keeps as NaN
    known = (
        {name: value for name, value in zip(weights, row, strict=True) if not math.isnan(value)}
        for row in zip(*terms, strict=True)
    )
    return [weighted_reward(row, weights) for row in known]


def spliced(made: Mapping[str, Any], other: Mapping[str, Any], moves: Mapping[int, int], pad: int) -> dict[str, Any]:
    """TRL's tensors with rows of another rollout in their places, padded to one width.

    Args:
        made: The batch; it stays as it is.
        other: Another rollout of the same trainer.
        moves: Row of the batch -> row of the other rollout that takes its place.
        pad: The padding token; masks, advantages and log-probabilities are padded with 0.
    """
    joined = dict(made)
    places, sources = list(moves), list(moves.values())
    for name, value in made.items():
        if value.ndim == 0:
            continue
        own, rows = value, other[name]
        if value.ndim > 1:
            width, filling = max(value.shape[1], rows.shape[1]), pad if name.endswith("_ids") else 0
            own, rows = (widened(one, width, filling, left=name.startswith("prompt_")) for one in (value, rows))
        joined[name] = own.clone()
        joined[name][places] = rows[sources]
    joined["num_items_in_batch"] = joined["completion_mask"].sum()
    return joined


def widened(rows: torch.Tensor, width: int, filling: int, *, left: bool) -> torch.Tensor:
    """[B, W] padded to ``width`` columns on one side."""
    missing = width - rows.shape[1]
    return padded(rows, (missing, 0) if left else (0, missing), value=filling)


def check_trainer(trainer: GRPOTrainer) -> None:
    """Raise ConfigurationError where groups of two rollouts cannot stand in one batch."""
    data = trainer.train_dataset
    images = {"image", "images"} & set(getattr(data, "column_names", None) or ())
    check_arguments(trainer)
    faults = {
        "several processes": trainer.accelerator.num_processes > 1,
        "tools": bool(trainer.tools),
        "a rollout_func": getattr(trainer, "rollout_func", None) is not None,
        "images": bool(images),
        "a streamed dataset": not (hasattr(data, "__len__") and hasattr(data, "__getitem__")),
    }
    refuse(faults)


def check_arguments(args: GRPOConfig | GRPOTrainer) -> None:
    """Raise ConfigurationError where settings, which a trainer has under the same names, rule it out."""
    aggregation = getattr(args, "multi_objective_aggregation", "sum_then_normalize")
    refuse(
        {
            "scale_rewards = 'batch'": getattr(args, "scale_rewards", "group") == "batch",
            f"multi_objective_aggregation = '{aggregation}'": aggregation != "sum_then_normalize",
            "use_vllm": args.use_vllm,
        }
    )


def refuse(faults: Mapping[str, bool]) -> None:
    """Raise ConfigurationError for the first of what holds."""
    named = [name for name, holds in faults.items() if holds]
    if named:
        raise ConfigurationError(f"resample does not go with {named[0]}.", REMEDY)
