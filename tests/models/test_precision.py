"""Real dtypes: set by parameter group, kept through the forward pass, and what they do to an update."""

from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from evenhand.config import Precision
from evenhand.errors import ModelError
from evenhand.models import resolve
from evenhand.models.loading import load
from evenhand.models.precision import apply_precision, as_input, census, norm_modules, parameter_group

REFERENCE = Precision(body="bfloat16", norms="float32")
PURE_BF16 = Precision(body="bfloat16", norms="bfloat16")
QWEN3 = Path(__file__).parents[1] / "fixtures" / "qwen3-0.6b"


def norms_of(model):
    return {name: weights for name, weights in model.named_parameters() if parameter_group(name) == "norms"}


def test_the_reference_model_has_596049920_parameters_65536_of_them_in_norms():
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(QWEN3))
    groups = {group.name: group for group in census(model)}
    assert sum(group.parameters for group in groups.values()) == 596_049_920
    assert groups["norms"].parameters == 65_536
    apply_precision(model, REFERENCE)
    dtypes = {group.name: dict(group.dtypes) for group in census(model)}
    assert dtypes.pop("norms") == {"float32": 65_536}
    assert {kind for counts in dtypes.values() for kind in counts} == {"bfloat16"}


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("model.embed_tokens.weight", "embeddings"),
        ("model.layers.0.self_attn.q_proj.weight", "attention"),
        ("model.layers.0.self_attn.q_norm.weight", "norms"),
        ("model.layers.0.mlp.down_proj.weight", "MLP"),
        ("model.layers.0.post_attention_layernorm.weight", "norms"),
        ("model.norm.weight", "norms"),
        ("transformer.h.0.ln_1.bias", "norms"),
        ("transformer.wte.weight", "embeddings"),
        ("transformer.h.0.attn.c_attn.weight", "attention"),
        ("lm_head.weight", "head"),
        ("score.weight", "other"),
    ],
)
def test_parameters_are_grouped_by_what_they_do(name, group):
    assert parameter_group(name) == group


def test_a_norm_gives_back_the_dtype_of_its_input():
    loaded = load(resolve("embedded"), REFERENCE)
    seen = set()
    for _, module in norm_modules(loaded.model):
        module.register_forward_hook(lambda module, inputs, output: seen.add((inputs[0].dtype, output.dtype)))
    logits = loaded.model(**loaded.tokenizer("Numbers: [1, 2]", return_tensors="pt")).logits
    assert seen == {(torch.bfloat16, torch.bfloat16)}
    assert logits.dtype == torch.bfloat16


def test_without_that_cast_the_next_layer_is_fed_the_wrong_dtype():
    loaded = load(resolve("embedded"), REFERENCE)
    for _, module in norm_modules(loaded.model):
        module._forward_hooks.clear()
    with pytest.raises(RuntimeError, match="dtype"):
        loaded.model(**loaded.tokenizer("1", return_tensors="pt"))


def test_precision_may_be_set_twice():
    model = load(resolve("embedded"), REFERENCE).model
    apply_precision(model, REFERENCE)
    for _, module in norm_modules(model):
        assert list(module._forward_hooks.values()) == [as_input]


@pytest.mark.parametrize("rate", [1e-5, 3e-5])
@pytest.mark.parametrize(("precision", "share"), [(PURE_BF16, 0.0), (REFERENCE, 1.0)])
def test_norms_move_only_in_fp32(rate, precision, share):
    loaded = load(resolve("embedded"), precision)
    before = {name: weights.detach().clone() for name, weights in norms_of(loaded.model).items()}
    optimiser = torch.optim.AdamW(loaded.model.parameters(), lr=rate)
    tokens = loaded.tokenizer("36: even\n7: odd\nAnswer: 10", return_tensors="pt").input_ids
    for _ in range(3):
        loaded.model(input_ids=tokens, labels=tokens).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    moved = [(weights != before[name]).float().mean().item() for name, weights in norms_of(loaded.model).items()]
    assert sum(moved) / len(moved) == pytest.approx(share, abs=1e-6)


def test_a_layer_norm_takes_one_dtype_only():
    model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_head=2, n_layer=1, vocab_size=10))
    with pytest.raises(ModelError, match=r"transformer.h.0.ln_1 is a LayerNorm") as error:
        apply_precision(model, REFERENCE)
    assert "precision.norms=bfloat16" in error.value.remedy
    apply_precision(model, PURE_BF16)
    assert model.dtype == torch.bfloat16
