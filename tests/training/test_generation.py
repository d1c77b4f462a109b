"""Which generation settings the tree carries, and which send a rollout to TRL."""

import pytest
from transformers import AutoModelForCausalLM, GenerationConfig

from evenhand.prefixtree import Limits, Sampling
from evenhand.training.generation import read_generation
from models_for_tests import save_random_qwen3


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return AutoModelForCausalLM.from_pretrained(save_random_qwen3(tmp_path_factory.mktemp("model")))


def read(model, **changes):
    settings = {"do_sample": True, "max_new_tokens": 5, "top_k": 0, "eos_token_id": 3, **changes}
    return read_generation(GenerationConfig(**settings), model)


def test_what_the_tree_knows_is_carried(model):
    decoding = read(model, temperature=0.7, top_k=4, top_p=0.9, min_p=0.1, repetition_penalty=1.2, eos_token_id=[3, 4])
    assert decoding.limits == Limits(5, frozenset({3, 4}))
    assert decoding.sampling == Sampling(temperature=0.7, top_k=4, top_p=0.9, min_p=0.1, repetition_penalty=1.2)
    assert read(model, do_sample=False).sampling.greedy


def test_unset_fields_mean_what_they_mean_to_generate(model):
    assert read(model).sampling == Sampling()
    assert read(model, top_k=None).sampling.top_k == 50


@pytest.mark.parametrize(
    "changes",
    [
        {"num_beams": 2},
        {"no_repeat_ngram_size": 3},
        {"typical_p": 0.5},
        {"suppress_tokens": [4]},
        {"stop_strings": ["x"]},
        {"min_new_tokens": 2},
        {"renormalize_logits": True},
        {"cache_implementation": "static"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_any_other_setting_is_refused_by_name(model, changes):
    assert next(iter(changes)) in read(model, **changes)


def test_a_setting_of_the_models_own_configuration_counts_too(model):
    model.generation_config.no_repeat_ngram_size = 2
    try:
        assert "no_repeat_ngram_size" in read(model)
    finally:
        model.generation_config.no_repeat_ngram_size = None
