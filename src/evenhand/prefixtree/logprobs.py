"""Log-probabilities and entropies of a distribution's logits, without a second copy of the logits in memory.

log p(token) = x_token - logsumexp(x)        H = logsumexp(x) - sum_i p_i x_i        with x = logits / temperature
d log p(token) / dx_i = [i = token] - p_i    dH / dx_i = -p_i (x_i - logsumexp(x) + H)
"""

from typing import Any

import torch
from torch.autograd.function import once_differentiable

# Rows whose probabilities are in memory at once.
ROWS_AT_ONCE = 64


class NodeLogProbabilities(torch.autograd.Function):
    """Forward and backward by rows, in FP32 whatever the logits' type.

    Several tokens may be read from one row: an edge names its row and its token. Gradients of all edges of a row are
    added up, which is how completions share a node.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, rows: torch.Tensor, tokens: torch.Tensor, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """logits [K, V]; rows and tokens [E] -> log-probabilities [E], entropies [K], both FP32."""
        normalisers = torch.empty(len(logits), dtype=torch.float32, device=logits.device)
        entropies = torch.empty_like(normalisers)
        for start in range(0, len(logits), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            scaled = logits[part].float() / temperature
            normalisers[part] = torch.logsumexp(scaled, dim=-1)
            log_probabilities = scaled.sub_(normalisers[part, None])
            # 0 × -inf is 0 here: a token that cannot be has no share in the entropy
            shares = log_probabilities.exp().mul_(log_probabilities.clamp_min_(torch.finfo(torch.float32).min))
            entropies[part] = -shares.sum(-1)
        chosen = logits[rows, tokens].float() / temperature - normalisers[rows]
        ctx.save_for_backward(logits, rows, tokens, normalisers, entropies)
        ctx.temperature = temperature
        return chosen, entropies

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, chosen_gradient: torch.Tensor, entropy_gradient: torch.Tensor
    ) -> tuple[torch.Tensor, None, None, None]:
        """Gradient for the logits, [K, V] in their type."""
        logits, rows, tokens, normalisers, entropies = ctx.saved_tensors
        edges = torch.zeros_like(normalisers).index_add_(0, rows, chosen_gradient.float())  # [K]
        gradient = torch.empty_like(logits)
        for start in range(0, len(logits), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            logs = (logits[part].float() / ctx.temperature).sub_(normalisers[part, None])
            probabilities = logs.exp()
            logs.clamp_min_(torch.finfo(torch.float32).min).add_(entropies[part, None])
            logs.mul_(entropy_gradient[part, None]).add_(edges[part, None])
            gradient[part] = probabilities.mul_(logs).div_(-ctx.temperature)
        values = (chosen_gradient.float() / ctx.temperature).to(gradient.dtype)
        gradient.index_put_((rows, tokens), values, accumulate=True)
        return gradient, None, None, None


def node_log_probabilities(
    logits: torch.Tensor, rows: torch.Tensor, tokens: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability of each edge's token [E] and entropy of each row [K]; differentiable in ``logits`` [K, V]."""
    chosen, entropies = NodeLogProbabilities.apply(logits, rows, tokens, temperature)  # type: ignore[no-untyped-call]
    return chosen, entropies
