"""Sample completions on a growing tree: while completions of a prompt agree, they are one row.

A step takes one distribution from each node on which completions stand and draws one token for each of them.
Completions that draw the same token stay together, others part. Every completion's token has exactly the distribution
that the model gives its prefix, whoever it shares that prefix with.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from evenhand.prefixtree.arena import Arena, Prefill
from evenhand.prefixtree.attention import AttentionPlan, no_mask, tree_options
from evenhand.prefixtree.narrow import narrow_products
from evenhand.prefixtree.sampling import Sampler, Sampling
from evenhand.prefixtree.tree import PrefixTree

# Slots to begin with beside each prompt; buffers grow by half when they are full.
ROOM = 256
# How often the layout of keys and values is reconsidered, in steps.
RELAYOUT_EVERY = 16


@dataclass(frozen=True, slots=True)
class Limits:
    """When a completion ends: at ``max_new_tokens``, or with one of ``end_ids``, which then is its last token."""

    max_new_tokens: int
    end_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Rollout:
    """``completions`` in the prompts' order, the end token included; ``positions`` is how many tokens were computed."""

    completions: list[list[int]]
    positions: int


@torch.no_grad()
def roll_out(
    model: torch.nn.Module,
    prompts: Sequence[Sequence[int]],
    limits: Limits,
    sampling: Sampling,
    forced: Sequence[Sequence[int]] | None = None,
) -> Rollout:
    """One completion for each prompt; equal prompts share all that they can.

    Args:
        model: A causal language model that takes plans, without wrappers for several processes.
        prompts: Token ids without padding, none empty.
        limits: When completions end.
        sampling: How tokens are drawn.
        forced: Completions to be written instead of what is drawn, for measuring on given text. Drawing still happens.
    """
    device = next(model.parameters()).device
    with narrow_products(model):
        return _Growth(model, prompts, limits, sampling, device, forced).run()


def generate_greedy(
    model: torch.nn.Module, prompts: Sequence[Sequence[int]], max_new_tokens: int, end_ids: Sequence[int]
) -> list[list[int]]:
    """The likeliest completion of each prompt, its end token included where it has one."""
    limits = Limits(max_new_tokens, frozenset(end_ids))
    return roll_out(model, prompts, limits, Sampling(greedy=True)).completions


class _Growth:
    """The state of one rollout. A completion stands on a row: ``self._row[i]`` of the last step's rows."""

    def __init__(
        self,
        model: torch.nn.Module,
        prompts: Sequence[Sequence[int]],
        limits: Limits,
        sampling: Sampling,
        device: torch.device,
        forced: Sequence[Sequence[int]] | None,
    ) -> None:
        self._model = model
        self._limits = limits
        self._sampler = Sampler(sampling)
        self._device = device
        self._forced = forced
        distinct = {tuple(prompt): None for prompt in prompts}
        self._prompts = list(distinct)
        numbered = {prompt: number for number, prompt in enumerate(self._prompts)}
        self._row = [numbered[tuple(prompt)] for prompt in prompts]
        self._completions: list[list[int]] = [[] for _ in prompts]
        self._histories: list[tuple[int, ...]] = list(self._prompts) if self._sampler.needs_history else []
        self._positions = 0

    def run(self) -> Rollout:
        """Prompts, then one token for all completions at a time."""
        tree = PrefixTree.of(self._prompts)
        prefill = Prefill(tree, self._device)
        ends = torch.tensor([path[-1] for path in tree.paths], device=self._device)
        logits = self._forward(tree.tokens, torch.tensor(tree.depths, device=self._device), prefill, ends)
        arena = Arena(prefill, tree.paths, min(ROOM, self._limits.max_new_tokens * len(self._row)))
        alive = list(range(len(self._row)))
        for step in range(self._limits.max_new_tokens):
            alive, rows = self._draw(logits, alive)
            if not alive or step + 1 == self._limits.max_new_tokens:
                break
            plan = arena.step([parent for parent, _ in rows])
            logits = self._forward([token for _, token in rows], plan.depth, plan, None)
            if step % RELAYOUT_EVERY == RELAYOUT_EVERY - 1:
                arena.relayout()
        return Rollout(self._completions, self._positions)

    def _draw(self, logits: torch.Tensor, alive: list[int]) -> tuple[list[int], list[tuple[int, int]]]:
        """A token for each living completion; who lives on, and the new rows as (row above, token)."""
        histories = self._histories if self._sampler.needs_history else None
        tokens = self._sampler.draw(logits, [self._row[index] for index in alive], histories)
        rows: dict[tuple[int, int], int] = {}
        remaining = []
        for index, drawn in zip(alive, tokens, strict=True):
            completion = self._completions[index]
            token = drawn if self._forced is None else self._forced[index][len(completion)]
            completion.append(token)
            if token in self._limits.end_ids or (self._forced and len(completion) == len(self._forced[index])):
                continue
            self._row[index] = rows.setdefault((self._row[index], token), len(rows))
            remaining.append(index)
        if self._sampler.needs_history:
            self._histories = [(*self._histories[parent], token) for parent, token in rows]
        return remaining, list(rows)

    def _forward(
        self, tokens: Sequence[int], depths: torch.Tensor, plan: AttentionPlan, kept: torch.Tensor | None
    ) -> torch.Tensor:
        """Logits [R, V] of the given tokens, or of those among them that are ``kept``."""
        self._positions += len(tokens)
        output = self._model(
            input_ids=torch.tensor([tokens], device=self._device),
            position_ids=depths[None],
            attention_mask=no_mask(self._device),
            prefix_tree=plan,
            **tree_options(self._model),
            **({} if kept is None else {"logits_to_keep": kept}),
        )
        logits: torch.Tensor = output.logits[0]
        return logits
