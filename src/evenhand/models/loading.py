"""Load a model from a local directory, each tensor at the dtype in which it was saved.

Nothing is fetched and no code from the directory is run; weights are read from safetensors alone.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from evenhand.config import Precision
from evenhand.errors import ModelError
from evenhand.models.device import usable_device
from evenhand.models.known import WEIGHTS_FILE
from evenhand.models.precision import apply_precision, cast_norm_outputs

__all__ = ["Loaded", "load", "saved_dtypes", "usable_device"]

INDEX_FILE = "model.safetensors.index.json"
REQUIRED = ("config.json", "tokenizer.json")

SAFETENSORS_DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "F64": torch.float64}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model and its tokenizer, which pads on the left."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    directory: Path


def load(directory: Path, precision: Precision | None = None, device: torch.device | None = None) -> Loaded:
    """Load a model and its tokenizer, in eval mode.

    Args:
        directory: Holds ``config.json``, ``tokenizer.json`` and ``model.safetensors`` (or its shards and their index).
        precision: Dtypes of body and norms; None keeps each tensor as it was saved.
        device: Where to; None is the CPU.

    Raises:
        ModelError: files are missing (all are named) or damaged, weights are incomplete, there is no chat template.
        DeviceError: the device does not compute at a dtype.
    """
    check_files(directory)
    tokenizer = load_tokenizer(directory)
    model = load_model(directory)
    model.to(device or torch.device("cpu"))  # type: ignore[arg-type]
    if precision is not None:
        apply_precision(model, precision)
    return Loaded(model.eval(), tokenizer, directory)


def check_files(directory: Path) -> None:
    """Raise ModelError naming every file that is missing."""
    missing = [name for name in REQUIRED if not (directory / name).is_file()]
    if (directory / INDEX_FILE).is_file():
        missing += [path.name for path in weight_files(directory) if not path.is_file()]
    elif not (directory / WEIGHTS_FILE).is_file():
        missing.append(WEIGHTS_FILE)
    if not missing:
        return
    pickled = any(directory.glob("pytorch_model*.bin")) and WEIGHTS_FILE in missing
    hint = "Convert pytorch_model.bin to safetensors: a .bin file can hold code." if pickled else ""
    raise ModelError(
        f"The model directory {directory} lacks {', '.join(missing)}.",
        hint or "Copy the missing files there, or name another directory.",
    )


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files of a model, whether or not they are there.

    Raises:
        ModelError: the index of shards cannot be read.
    """
    index = directory / INDEX_FILE
    if not index.is_file():
        return [directory / WEIGHTS_FILE]
    try:
        return sorted(
            {directory / name for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()}
        )
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ModelError(f"{index} cannot be read ({error}).", "Copy it again from where the model came.") from error


def load_tokenizer(directory: Path) -> PreTrainedTokenizerBase:
    """The tokenizer, padding on the left; an end token stands in where there is no padding token.

    Raises:
        ModelError: it cannot be read, or has no chat template or no end token.
    """
    path = directory / "tokenizer.json"
    try:
        # Looked into first: the tokenizers library raises a bare Exception for what it cannot read.
        if "model" not in json.loads(path.read_text(encoding="utf-8")):
            raise ValueError("tokenizer.json describes no model")
        tokenizer: Any = AutoTokenizer.from_pretrained(directory, local_files_only=True, padding_side="left")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"The tokenizer in {directory} cannot be read ({first_line(error)}).", "Copy its files again."
        ) from error
    if not tokenizer.chat_template:
        raise ModelError(
            f"The tokenizer in {directory} has no chat template.",
            "Take the instruct version of the model, or add chat_template.jinja.",
        )
    if tokenizer.eos_token is None:
        raise ModelError(f"The tokenizer in {directory} has no end token.", "Set eos_token in tokenizer_config.json.")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer  # type: ignore[no-any-return]


def load_model(directory: Path) -> PreTrainedModel:
    """The model on the CPU, every tensor at the dtype in which it was saved.

    Transformers gives all tensors one dtype. Where the files hold several, the widest is asked for, which changes no
    value, and each tensor then goes back to its own, which changes none either.

    Raises:
        ModelError: the files are damaged, incomplete or of no causal language model.
    """
    saved = saved_dtypes(directory)
    kinds = set(saved.values())
    widest = kinds.pop() if len(kinds) == 1 else torch.float32
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            directory, dtype=widest, local_files_only=True, trust_remote_code=False, output_loading_info=True
        )
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, SafetensorError) as error:
        raise ModelError(
            f"The model in {directory} cannot be loaded ({first_line(error)}).",
            "Name a directory with a causal language model, saved by Transformers.",
        ) from error
    model, notes = loaded
    absent = sorted(notes["missing_keys"])
    if absent:
        shown = ", ".join(absent[:3]) + (f" and {len(absent) - 3} more" if len(absent) > 3 else "")
        raise ModelError(f"The weights in {directory} lack {shown}.", "Copy the weights again.")
    if kinds:
        restore(model, saved)
        cast_norm_outputs(model)
    return model  # type: ignore[no-any-return]


def saved_dtypes(directory: Path) -> Mapping[str, torch.dtype]:
    """The dtype of every floating tensor in the weight files, by name; only the headers are read.

    Raises:
        ModelError: a file is no whole safetensors file, or is quantised to a dtype that cannot be trained.
    """
    found: dict[str, torch.dtype] = {}
    for path in weight_files(directory):
        try:
            with safe_open(path, framework="pt") as file:
                names = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118 - no mapping
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{path} is damaged ({first_line(error)}).", "Copy the weights again.") from error
        foreign = sorted({kind for kind in names.values() if kind not in SAFETENSORS_DTYPES})
        if foreign:
            raise ModelError(
                f"{path} holds {', '.join(foreign)} weights, which cannot be trained.", "Take BF16 weights."
            )
        found |= {name: SAFETENSORS_DTYPES[kind] for name, kind in names.items()}
    return found


def restore(model: PreTrainedModel, saved: Mapping[str, torch.dtype]) -> None:
    """Give every parameter its saved dtype; one that goes by another name in the file takes the most common."""
    usual = Counter(saved.values()).most_common(1)[0][0]
    for name, weights in model.named_parameters():
        weights.data = weights.data.to(saved.get(name, usual))


def first_line(error: Exception) -> str:
    """The first line of an error's message, without its full stop."""
    return str(error).strip().partition("\n")[0].rstrip(".")
