"""Whatever is not known to give the plain path's result is refused, with the reason."""

import pytest
import torch
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

from architectures_for_tests import random_model
from evenhand.prefixtree import differs, dropout_refusal, refusal, support


def test_an_untested_architecture_is_refused_by_name():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_positions=32, n_embd=16, n_layer=1, n_head=2))
    assert "gpt2" in refusal(model)


def test_what_is_no_transformers_model_is_refused():
    assert "Linear" in refusal(torch.nn.Linear(2, 2))


def test_positions_that_depend_on_the_length_are_refused():
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    assert "dynamic" in refusal(random_model("llama", rope_parameters=rope))


def test_attention_without_masks_is_refused():
    model = random_model("llama")
    model.config._attn_implementation_internal = "flash_attention_2"
    assert "flash_attention_2" in refusal(model)


def test_gemma_2_with_an_attention_that_ignores_its_cap_is_refused():
    model = random_model("gemma2")
    model.config._attn_implementation_internal = "sdpa"
    assert "soft cap" in refusal(model)


def test_virtual_tokens_are_refused_and_low_rank_adapters_taken():
    virtual = get_peft_model(random_model(), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2))
    assert "virtual" in refusal(virtual)
    adapted = get_peft_model(random_model(), LoraConfig(target_modules=["q_proj"], init_lora_weights=False))
    assert refusal(adapted) is None
    assert differs(adapted) is None


@pytest.mark.parametrize("training", [True, False])
def test_dropout_counts_in_training_only(training):
    model = get_peft_model(random_model(), LoraConfig(target_modules=["q_proj"], lora_dropout=0.1)).train(training)
    assert (dropout_refusal(model) is not None) == training
    assert dropout_refusal(random_model(attention_dropout=0.1).train(training)) is None or training


def test_a_model_that_looks_alike_and_computes_something_else_is_found_out(monkeypatch):
    model = random_model("llama")
    forward = type(model).forward

    def uneven(self, *arguments, **options):
        output = forward(self, *arguments, **options)
        if "prefix_tree" in options:
            output.logits = output.logits * 1.01
        return output

    monkeypatch.setattr(type(model), "forward", uneven)
    assert "trial tree" in differs(model)


def test_the_list_names_what_the_documentation_names():
    assert sorted(support.ARCHITECTURES) == list(support.ARCHITECTURES)
