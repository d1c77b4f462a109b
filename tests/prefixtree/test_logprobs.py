"""Log-probabilities, entropies and their gradients are those of the plain formulas."""

import pytest
import torch

from evenhand.prefixtree.logprobs import node_log_probabilities


def plain(logits, rows, tokens, temperature):
    logs = (logits.float() / temperature).log_softmax(-1)
    return logs[rows, tokens], -(logs.exp() * logs).sum(-1)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("count", [1, 63, 130])
def test_values_and_gradients_are_the_formulas(count, temperature):
    torch.manual_seed(count)
    logits = (3 * torch.randn(count, 17)).requires_grad_()
    rows, tokens = torch.randint(count, (2 * count,)), torch.randint(17, (2 * count,))
    weights = torch.randn(2 * count), torch.randn(count)
    results = []
    for compute in (plain, node_log_probabilities):
        values = compute(logits, rows, tokens, temperature)
        loss = sum((value * weight).sum() for value, weight in zip(values, weights, strict=True))
        results.append((*values, *torch.autograd.grad(loss, logits)))
    for expected, got in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_a_token_that_cannot_be_leaves_entropy_and_gradient_finite():
    logits = torch.tensor([[0.0, -torch.inf, 1.0]], requires_grad=True)
    chosen, entropies = node_log_probabilities(logits, torch.tensor([0]), torch.tensor([2]), 1.0)
    (chosen.sum() + entropies.sum()).backward()
    assert entropies.isfinite().all()
    assert logits.grad.isfinite().all()
    expected = torch.tensor([0.0, 1.0]).log_softmax(-1)
    torch.testing.assert_close(entropies[0], -(expected.exp() * expected).sum())


def test_half_precision_logits_are_computed_in_fp32():
    torch.manual_seed(0)
    logits = torch.randn(4, 1000).bfloat16()
    chosen, entropies = node_log_probabilities(logits, torch.arange(4), torch.arange(4), 1.0)
    expected = plain(logits, torch.arange(4), torch.arange(4), 1.0)
    assert chosen.dtype == entropies.dtype == torch.float32
    torch.testing.assert_close(chosen, expected[0])
    torch.testing.assert_close(entropies, expected[1])
