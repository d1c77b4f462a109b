"""Score a batch of completions on the tree of its tokens: each distinct prefix passes through the model once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from evenhand.prefixtree.attention import TreeAttention, no_mask, tree_options
from evenhand.prefixtree.logprobs import node_log_probabilities
from evenhand.prefixtree.tree import PrefixTree, packs

# Largest tree in one pass, and most logits of one pass (2**28 in FP32: 1 GiB).
TOKEN_BUDGET = 8192
LOGIT_BUDGET = 2**28


@dataclass(frozen=True, slots=True)
class Batch:
    """Prompts and completions of different lengths, without padding."""

    prompts: list[list[int]]
    completions: list[list[int]]
    width: int  # C, positions of the padded completions

    @classmethod
    def of(cls, input_ids: torch.Tensor, attention_mask: torch.Tensor, width: int) -> "Batch":
        """From rows [B, P + C] with prompts padded on the left and completions on the right.

        A completion that the mask hides altogether (a truncated one, where those are left out) is empty.
        """
        rows = list(zip(input_ids.tolist(), attention_mask.tolist(), strict=True))
        return cls(
            [_kept(ids[:-width], mask[:-width]) for ids, mask in rows],
            [_kept(ids[-width:], mask[-width:]) for ids, mask in rows],
            width,
        )

    def positions(self) -> int:
        """How many tokens stand in the batch, padding aside."""
        return sum(map(len, self.prompts)) + sum(map(len, self.completions))


@dataclass(frozen=True, slots=True)
class Scores:
    """Per completion position, [B, C] in FP32; 0 where there is no token. ``nodes`` is what the model computed."""

    log_probabilities: torch.Tensor
    entropies: torch.Tensor
    nodes: int


def score(
    model: torch.nn.Module,
    batch: Batch,
    temperature: float,
    device: torch.device,
    token_budget: int | None = TOKEN_BUDGET,
    **model_options: Any,
) -> Scores:
    """Log-probabilities and entropies of all completions, differentiable where gradients are on.

    Args:
        model: A causal language model that takes plans (``attention.install``), possibly wrapped for several processes.
        batch: At least one completion must have a token.
        temperature: The logits' divisor.
        device: Where the model is.
        token_budget: Largest tree in one pass through the model; None: one pass whatever its size, which several
            processes need so that each makes the same number of passes.
        model_options: Further keywords for the model.
    """
    rows = [row for row, completion in enumerate(batch.completions) if completion]
    # The last token predicts nothing that is asked for, so it needs no node.
    sequences = [batch.prompts[row] + batch.completions[row][:-1] for row in rows]
    kept = [range(len(sequences))] if token_budget is None else packs(sequences, token_budget)
    places: list[int] = []
    chosen: list[torch.Tensor] = []
    entropies: list[torch.Tensor] = []
    nodes = 0
    for pack in kept:
        tree = PrefixTree.of([sequences[index] for index in pack])
        edges = _edges(tree, batch, [rows[index] for index in pack])
        places += edges.places
        nodes += len(tree)
        of_tokens, of_nodes = _pass(model, tree, edges, temperature, device, model_options)
        chosen.append(of_tokens)
        entropies.append(of_nodes)
    shape = (len(batch.prompts), batch.width)
    return Scores(_placed(chosen, places, shape, device), _placed(entropies, places, shape, device), nodes)


@dataclass(frozen=True, slots=True)
class _Edges:
    """What is read from a tree: at ``rows[e]`` of the predicting nodes the token ``tokens[e]``, for ``places[e]``."""

    predicting: list[int]
    rows: list[int]
    tokens: list[int]
    places: list[int]  # flat index into [B, C]


def _edges(tree: PrefixTree, batch: Batch, batch_rows: Sequence[int]) -> _Edges:
    nodes: list[int] = []
    tokens: list[int] = []
    places: list[int] = []
    for path, row in zip(tree.paths, batch_rows, strict=True):
        completion = batch.completions[row]
        nodes += path[len(batch.prompts[row]) - 1 :]
        tokens += completion
        places += range(row * batch.width, row * batch.width + len(completion))
    predicting = sorted(set(nodes))
    numbered = {node: number for number, node in enumerate(predicting)}
    return _Edges(predicting, [numbered[node] for node in nodes], tokens, places)


def _pass(
    model: torch.nn.Module,
    tree: PrefixTree,
    edges: _Edges,
    temperature: float,
    device: torch.device,
    model_options: dict[str, Any],
) -> tuple[torch.Tensor, torch.Tensor]:
    """One pass through the model: log-probability and entropy of every edge, [E]."""
    output = model(
        input_ids=torch.tensor([tree.tokens], device=device),
        position_ids=torch.tensor([tree.depths], device=device),
        attention_mask=no_mask(device),
        logits_to_keep=torch.tensor(edges.predicting, device=device),
        prefix_tree=TreeAttention(tree, device),
        **tree_options(model),
        **model_options,
    )
    rows = torch.tensor(edges.rows, device=device)
    tokens = torch.tensor(edges.tokens, device=device)
    chosen, entropies = node_log_probabilities(output.logits.squeeze(0), rows, tokens, temperature)
    return chosen, entropies[rows]


def _placed(
    values: list[torch.Tensor], places: list[int], shape: tuple[int, int], device: torch.device
) -> torch.Tensor:
    flat = torch.zeros(shape[0] * shape[1], device=device)
    return flat.index_put((torch.tensor(places, device=device),), torch.cat(values)).view(shape)


def _kept(ids: list[int], mask: list[int]) -> list[int]:
    return [token for token, seen in zip(ids, mask, strict=True) if seen]
