"""Draws follow the distribution that was asked for, exactly; a wrong one would be noticed."""

from collections import Counter
from itertools import product

import pytest
import torch
from scipy import stats
from transformers import GenerationConfig

from architectures_for_tests import random_model
from evenhand.prefixtree import Limits, Sampling, install, roll_out
from evenhand.prefixtree.sampling import Sampler

DRAWS = 4000
PROMPT = [3, 4, 5]
LENGTH = 3

SETTINGS = {
    "as the model says": Sampling(),
    "temperature": Sampling(temperature=0.6),
    "top-k": Sampling(top_k=3),
    "top-p": Sampling(top_p=0.8),
    "min-p": Sampling(min_p=0.15),
    "repetition penalty": Sampling(repetition_penalty=1.7),
    "all at once": Sampling(temperature=1.4, top_k=5, top_p=0.9, min_p=0.05, repetition_penalty=1.3),
}


@pytest.fixture(scope="module")
def model():
    built = random_model("llama", seed=3, vocab_size=7).eval()
    install(built)
    return built


def generates_processors(model, sampling):
    """What ``generate`` itself applies for these settings."""
    config = GenerationConfig(
        do_sample=True,
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
    )
    return model._get_logits_processor(config, input_ids_seq_length=len(PROMPT))


def exact(model, sampling):
    """Probability of every completion of three tokens, from the plain path and generate's own processors."""
    process = generates_processors(model, sampling)
    completions = list(product(range(7), repeat=LENGTH))
    ids = torch.tensor([PROMPT + list(completion) for completion in completions])
    with torch.no_grad():
        logits = model(input_ids=ids, use_cache=False).logits
    chances = torch.ones(len(ids), dtype=torch.float64)
    for place in range(LENGTH):
        end = len(PROMPT) + place
        scores = process(ids[:, :end], logits[:, end - 1].clone())
        chances *= scores.double().softmax(-1).gather(1, ids[:, end : end + 1])[:, 0]
    return dict(zip(completions, chances.tolist(), strict=True))


def p_value(observed, chances, draws):
    """Chi-square, outcomes rarer than five expected draws taken together."""
    expected = {outcome: chance * draws for outcome, chance in chances.items()}
    common = [outcome for outcome, count in expected.items() if count >= 5]
    counts = [observed[outcome] for outcome in common]
    wanted = [expected[outcome] for outcome in common]
    rest = draws - sum(wanted)
    if rest > 1e-6:
        counts.append(draws - sum(counts))
        wanted.append(rest)
    return stats.chisquare(counts, [value * sum(counts) / sum(wanted) for value in wanted]).pvalue


@pytest.mark.parametrize("sampling", SETTINGS.values(), ids=SETTINGS.keys())
def test_completions_of_a_prompt_follow_the_joint_distribution_and_no_other(model, sampling):
    torch.manual_seed(11)
    sampled = roll_out(model, [PROMPT] * DRAWS, Limits(LENGTH, frozenset()), sampling)
    observed = Counter(map(tuple, sampled.completions))
    assert sampled.positions < 100, "thousands of completions should have stood on a few dozen rows"
    chances = exact(model, sampling)
    assert all(chances[outcome] > 0 for outcome in observed)
    assert p_value(observed, chances, DRAWS) > 1e-3
    other = exact(model, Sampling(temperature=0.8) if sampling == Sampling() else Sampling())
    assert p_value(observed, other, DRAWS) < 1e-6, "the test could not tell two distributions apart"


def test_completions_that_share_a_row_are_drawn_independently(model):
    torch.manual_seed(5)
    pairs = [
        tuple(map(tuple, roll_out(model, [PROMPT] * 2, Limits(1, frozenset()), Sampling()).completions))
        for _ in range(1500)
    ]
    single = exact_first(model)
    chances = {((a,), (b,)): single[a] * single[b] for a in range(7) for b in range(7)}
    assert p_value(Counter(pairs), chances, len(pairs)) > 1e-3


def exact_first(model):
    with torch.no_grad():
        return model(input_ids=torch.tensor([PROMPT])).logits[0, -1].double().softmax(-1).tolist()


def test_a_token_without_probability_is_never_drawn():
    logits = torch.full((2, 50), -torch.inf)
    logits[0, 49], logits[1, 7] = 0.0, 0.0
    torch.manual_seed(0)
    tokens = Sampler(Sampling()).draw(logits, [0, 1] * 500, None)
    assert tokens == [49, 7] * 500


def test_draws_repeat_with_the_seed_and_differ_without_it(model):
    def sample(seed):
        torch.manual_seed(seed)
        return roll_out(model, [PROMPT] * 16, Limits(12, frozenset({2})), Sampling()).completions

    assert sample(1) == sample(1)
    assert sample(1) != sample(2)


def test_a_completion_ends_with_its_end_token_or_at_the_limit(model):
    torch.manual_seed(0)
    for completion in roll_out(model, [PROMPT] * 64, Limits(9, frozenset({2, 6})), Sampling()).completions:
        inside, last = completion[:-1], completion[-1]
        assert not {2, 6} & set(inside)
        assert len(completion) == 9 or last in {2, 6}


def test_only_processors_in_use_run():
    assert len(Sampling().processors()) == 0
    assert len(Sampling(greedy=True, temperature=0.5, top_k=3).processors()) == 0
    assert len(SETTINGS["all at once"].processors()) == 5
