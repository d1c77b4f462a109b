"""On every architecture: scores, gradients and rollouts on the tree are the plain path's."""

import random

import pytest
import torch
from accelerate import Accelerator

from architectures_for_tests import ARCHITECTURES, random_model
from evenhand.prefixtree import Batch, Limits, Sampling, differs, generate_greedy, install, refusal, roll_out, score
from evenhand.prefixtree import rollout as rollouts
from evenhand.prefixtree.scoring import TOKEN_BUDGET

WIDTH = 14
LONGEST_PROMPT = 9
ENDS = (2, 5)


def batch_rows(seed=0):
    """Two prompts of different lengths, four completions each: some alike, one of one token, two equal."""
    generator = random.Random(seed)
    rows, masks = [], []
    for length in (5, LONGEST_PROMPT):
        prompt = [generator.randrange(3, 61) for _ in range(length)]
        stem = [generator.randrange(3, 61) for _ in range(WIDTH)]
        for completion in (stem, stem, stem[:6] + [generator.randrange(3, 61) for _ in range(4)], [2]):
            pad = LONGEST_PROMPT - length
            rest = WIDTH - len(completion)
            rows.append([0] * pad + prompt + completion + [0] * rest)
            masks.append([0] * pad + [1] * (length + len(completion)) + [0] * rest)
    return torch.tensor(rows), torch.tensor(masks)


def plain_scores(model, ids, mask, temperature):
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1][:, -WIDTH:]
    logs = (logits / temperature).log_softmax(-1)
    kept = mask[:, -WIDTH:]
    chosen = logs.gather(-1, ids[:, -WIDTH:, None])[..., 0]
    return chosen * kept, -(logs.exp() * logs).sum(-1) * kept


def gradient(model, values, weights):
    model.zero_grad(set_to_none=True)
    sum((value * weight).sum() for value, weight in zip(values, weights, strict=True)).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("token_budget", [TOKEN_BUDGET, 12])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_scores_and_gradient_are_the_plain_paths(architecture, token_budget):
    model = random_model(architecture)
    ids, mask = batch_rows()
    weights = torch.randn(2, *ids[:, -WIDTH:].shape)
    expected = plain_scores(model, ids, mask, 0.8)
    expected_gradient = gradient(model, expected, weights)
    install(model)
    scores = score(model, Batch.of(ids, mask, WIDTH), 0.8, ids.device, token_budget=token_budget)
    got_gradient = gradient(model, (scores.log_probabilities, scores.entropies), weights)
    torch.testing.assert_close(scores.log_probabilities, expected[0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(scores.entropies, expected[1], rtol=1e-4, atol=1e-4)
    assert (got_gradient - expected_gradient).norm() < 1e-4 * expected_gradient.norm()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_installed_model_without_a_plan_computes_what_it_computed(architecture):
    model = random_model(architecture)
    ids, mask = batch_rows()
    expected = model(input_ids=ids, attention_mask=mask).logits
    install(model)
    install(model)
    assert torch.equal(model(input_ids=ids, attention_mask=mask).logits, expected)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_completions_are_those_of_generate_token_for_token(architecture):
    model = random_model(architecture).eval()
    ids, mask = batch_rows()
    prompts = Batch.of(ids, mask, WIDTH).prompts
    output = model.generate(
        ids[:, :LONGEST_PROMPT],
        attention_mask=mask[:, :LONGEST_PROMPT],
        do_sample=False,
        max_new_tokens=24,
        eos_token_id=list(ENDS),
        pad_token_id=0,
    )[:, LONGEST_PROMPT:].tolist()
    install(model)
    assert generate_greedy(model, prompts, 24, ENDS) == [until_end(row) for row in output]


def until_end(row):
    ends = [place for place, token in enumerate(row) if token in ENDS]
    return row[: ends[0] + 1] if ends else row


@pytest.mark.parametrize("relayout_every", [3, 1000])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_distribution_of_a_rollout_is_the_plain_paths(architecture, relayout_every, monkeypatch):
    """Also when buffers grow, rows leave, and keys and values are laid out anew."""
    monkeypatch.setattr(rollouts, "RELAYOUT_EVERY", relayout_every)
    monkeypatch.setattr(rollouts, "ROOM", 4)
    model = random_model(architecture).eval()
    generator = random.Random(1)
    prompts = [[7, 8, 9], [7, 8, 10, 11, 12]]
    asked = [prompt for prompt in prompts for _ in range(4)]
    lengths = [30, 9, 30, 3, 26, 30, 30, 2]
    forced = [[generator.randrange(3, 5 if i < 5 else 61) for _ in range(length)] for i, length in enumerate(lengths)]
    seen = {}

    class Watching(rollouts._Growth):
        def _draw(self, logits, alive):
            for index in alive:
                seen[index, len(self._completions[index])] = logits[self._row[index]].log_softmax(-1)
            return super()._draw(logits, alive)

    monkeypatch.setattr(rollouts, "_Growth", Watching)
    install(model)
    result = roll_out(model, asked, Limits(30, frozenset()), Sampling(), forced)
    assert result.completions == forced
    for index, (prompt, completion) in enumerate(zip(asked, forced, strict=True)):
        logits = model(input_ids=torch.tensor([prompt + completion]), use_cache=False).logits[0]
        expected = logits.log_softmax(-1)[len(prompt) - 1 : -1]
        got = torch.stack([seen[index, place] for place in range(len(completion))])
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tested_architectures_are_taken(architecture):
    model = random_model(architecture)
    assert refusal(model) is None
    assert differs(model) is None


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_rounding_under_autocast_is_no_reason_against_the_tree(architecture):
    model = random_model(architecture)
    with torch.autocast("cpu", torch.bfloat16):
        assert differs(model) is None


def test_a_model_that_accelerate_wrapped_in_autocast_is_taken():
    accelerator = Accelerator(cpu=True, mixed_precision="bf16")
    model = accelerator.prepare(random_model("llama"))
    assert model(torch.tensor([[5, 6]])).logits.dtype == torch.float32  # converted, though computed in BF16
    assert differs(model) is None


def test_experts_that_report_their_routing_are_scored_and_rolled_out_too():
    model = random_model("qwen3_moe", output_router_logits=True).eval()
    ids, mask = batch_rows()
    assert differs(model) is None
    scores = score(model, Batch.of(ids, mask, WIDTH), 1.0, ids.device)
    expected = plain_scores(model, ids, mask, 1.0)
    torch.testing.assert_close(scores.log_probabilities, expected[0], rtol=1e-4, atol=1e-4)
    assert len(generate_greedy(model, [[5, 6]], 3, ENDS)) == 1
