"""Loading keeps every tensor as it was saved, and says plainly what is wrong with a directory."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from evenhand.config import Precision
from evenhand.errors import ModelError
from evenhand.models import resolve
from evenhand.models.loading import load
from evenhand.models.precision import parameter_group

REFERENCE = Precision(body="bfloat16", norms="float32")


@pytest.fixture
def copy(tmp_path):
    """The embedded model's directory, free to be damaged."""
    return shutil.copytree(resolve("embedded"), tmp_path / "model")


@pytest.fixture
def trained(tmp_path):
    """A BF16 model whose FP32 norms moved by less than BF16 can hold, saved; and its weights in memory."""
    loaded = load(resolve("embedded"), REFERENCE)
    generator = torch.Generator().manual_seed(0)
    for name, weights in loaded.model.named_parameters():
        if parameter_group(name) == "norms":
            weights.data += 1e-4 * torch.randn(weights.shape, generator=generator)
    loaded.model.save_pretrained(tmp_path)
    loaded.tokenizer.save_pretrained(tmp_path)
    return tmp_path, {name: weights.detach().clone() for name, weights in loaded.model.named_parameters()}


@pytest.mark.parametrize("precision", [None, REFERENCE], ids=["as saved", "as configured"])
def test_save_and_reload_keep_every_tensor_bit_for_bit(trained, precision):
    directory, weights = trained
    reloaded = dict(load(directory, precision).model.named_parameters())
    assert reloaded.keys() == weights.keys()
    for name, tensor in weights.items():
        assert reloaded[name].dtype == tensor.dtype
        assert torch.equal(reloaded[name], tensor), name


def test_a_naive_bf16_reload_would_have_lost_the_norms(trained):
    directory, weights = trained
    naive = dict(AutoModelForCausalLM.from_pretrained(directory, dtype=torch.bfloat16).named_parameters())
    norms = [name for name in weights if parameter_group(name) == "norms"]
    lost = [not torch.equal(naive[name].float(), weights[name]) for name in norms]
    assert all(lost)


def test_a_reloaded_mixed_model_computes_what_the_saved_one_did(trained):
    directory, _ = trained
    first, second = load(directory), load(directory, REFERENCE)
    batch = first.tokenizer("Numbers: [1, 2]", return_tensors="pt")
    assert torch.equal(first.model(**batch).logits, second.model(**batch).logits)


def test_shards_are_read_through_their_index(tmp_path, copy):
    whole = load(copy).model
    whole.save_pretrained(tmp_path / "shards", max_shard_size="300KB")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(copy / name, tmp_path / "shards" / name)
    for (name, left), (_, right) in zip(
        whole.named_parameters(), load(tmp_path / "shards").model.named_parameters(), strict=True
    ):
        assert torch.equal(left, right), name
    shard = sorted((tmp_path / "shards").glob("*.safetensors"))[1]
    shard.unlink()
    with pytest.raises(ModelError, match=f"lacks {shard.name}"):
        load(tmp_path / "shards")


def test_missing_files_are_named_one_by_one(copy):
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (copy / name).unlink()
    with pytest.raises(ModelError, match=r"lacks config\.json, tokenizer\.json, model\.safetensors\."):
        load(copy)


def test_pickled_weights_are_not_read(copy):
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"lacks model\.safetensors") as error:
        load(copy)
    assert "a .bin file can hold code" in error.value.remedy


def test_a_tokenizer_without_chat_template_is_refused(copy):
    (copy / "chat_template.jinja").unlink()
    with pytest.raises(ModelError, match="no chat template"):
        load(copy)


def test_a_tokenizer_without_end_token_is_refused(copy):
    settings = json.loads((copy / "tokenizer_config.json").read_text())
    del settings["eos_token"]
    (copy / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="no end token"):
        load(copy)


def test_an_end_token_stands_in_for_a_missing_padding_token(copy):
    settings = json.loads((copy / "tokenizer_config.json").read_text())
    del settings["pad_token"]
    (copy / "tokenizer_config.json").write_text(json.dumps(settings))
    assert load(copy).tokenizer.pad_token == "<|im_end|>"


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("content", [b"", b"{}", b"\x00\xff no such file", b"[1]"])
def test_a_damaged_file_is_one_clear_error(copy, name, content):
    (copy / name).write_bytes(content)
    with pytest.raises(ModelError) as error:
        load(copy)
    assert str(copy) in error.value.message
    assert error.value.remedy
    assert "\n" not in error.value.message


def test_a_cut_off_weight_file_is_damaged(copy):
    path = copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged"):
        load(copy)


def test_weights_that_lack_a_tensor_are_refused(copy):
    path = copy / "model.safetensors"
    tensors = load_file(path)
    tensors.pop("model.layers.1.mlp.up_proj.weight")
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lack model\.layers\.1\.mlp\.up_proj\.weight"):
        load(copy)


def test_weights_of_another_shape_are_refused(copy):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "intermediate_size": 64}))
    with pytest.raises(ModelError, match="cannot be loaded"):
        load(copy)


def test_quantised_weights_are_refused(copy):
    path = copy / "model.safetensors"
    tensors = load_file(path)
    tensors["model.layers.1.mlp.up_proj.weight"] = torch.zeros(192, 96, dtype=torch.int8)
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="holds I8 weights"):
        load(copy)
