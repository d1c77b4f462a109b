"""Draw tokens from exactly the distribution that was asked for, one distribution for all completions on a node."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen. The defaults draw from the model's own distribution.

    Attributes:
        greedy: Take the most likely token; then only ``repetition_penalty`` matters beside it.
        temperature: Divisor of the logits.
        top_k: Only so many tokens, 0 for all.
        top_p: Only the smallest set of likeliest tokens that holds so much probability.
        min_p: Only tokens at least so likely as this share of the likeliest one; None for all.
        repetition_penalty: Divides the positive logits of tokens that already occur, and multiplies the negative ones.
    """

    greedy: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float | None = None
    repetition_penalty: float = 1.0

    def processors(self) -> LogitsProcessorList:
        """What changes the logits, in the order in which ``generate`` applies it; nothing that has no effect."""
        chosen = LogitsProcessorList()
        if self.repetition_penalty != 1.0:
            chosen.append(RepetitionPenaltyLogitsProcessor(self.repetition_penalty))
        if self.greedy:
            return chosen
        if self.temperature != 1.0:
            chosen.append(TemperatureLogitsWarper(self.temperature))
        if self.top_k:
            chosen.append(TopKLogitsWarper(self.top_k))
        if self.top_p < 1.0:
            chosen.append(TopPLogitsWarper(self.top_p))
        if self.min_p is not None:
            chosen.append(MinPLogitsWarper(self.min_p))
        return chosen


class Sampler:
    """Draws with torch's global generator of the model's device, so seeds and checkpoints hold for it."""

    def __init__(self, sampling: Sampling) -> None:
        self._greedy = sampling.greedy
        self._process: Any = sampling.processors()  # its types want special tensors
        self.needs_history = sampling.repetition_penalty != 1.0

    def draw(self, logits: torch.Tensor, owners: Sequence[int], histories: Sequence[Sequence[int]] | None) -> list[int]:
        """One token for each completion.

        Args:
            logits: [R, V], one row for each node on which completions stand.
            owners: For each completion, its row.
            histories: For each row the tokens before it, where ``needs_history``.
        """
        scores = logits.float()
        if self._process:
            scores = self._process(_padded(histories, scores.device), scores)
        rows = torch.tensor(owners, device=scores.device)
        if self._greedy:
            return scores.argmax(-1)[rows].tolist()
        # Inverse of the cumulative distribution, in FP64 so that summing the vocabulary does not round shares away.
        cumulative = torch.softmax(scores, dim=-1).double().cumsum(-1)  # [R, V]
        uniform = torch.rand(len(owners), dtype=torch.float64, device=scores.device)
        # 1 - u lies in (0, 1]: a token of probability 0 at the front is never drawn.
        target = (1.0 - uniform) * cumulative[rows, -1]
        return _search(cumulative, rows, target).tolist()


def _search(cumulative: torch.Tensor, rows: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """First column whose cumulative probability reaches the target, for many targets a row without copying rows."""
    order = torch.argsort(rows, stable=True)
    counts = torch.bincount(rows, minlength=len(cumulative))
    width = int(counts.max())
    columns = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows[order]]
    grid = torch.ones(len(cumulative), width, dtype=target.dtype, device=rows.device)
    grid[rows[order], columns] = target[order]
    found = torch.searchsorted(cumulative, grid)[rows[order], columns]
    tokens = torch.empty_like(found)
    tokens[order] = found
    return tokens


def _padded(histories: Sequence[Sequence[int]] | None, device: torch.device) -> torch.Tensor | None:
    """[R, longest]; a shorter history repeats its first token, which no processor here minds."""
    if histories is None:
        return None
    longest = max(map(len, histories))
    return torch.tensor([[*history, *[history[0]] * (longest - len(history))] for history in histories], device=device)
