"""Load a model from a local directory, every tensor at a chosen dtype or at the one in which it was saved."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from evenhand.config import Precision
from evenhand.errors import DeviceError, ModelError
from evenhand.models.precision import apply_precision, keep_output_dtype


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model on its device, and its tokenizer with padding on the left."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def load(directory: Path, precision: Precision | None = None, device: str = "cpu") -> Loaded:
    """Load from local files only.

    Args:
        directory: A model directory or a checkpoint.
        precision: Dtypes of body and norms; None keeps every tensor at the dtype in which it was saved.
        device: As :func:`usable_device` returns it.

    Raises:
        ModelError: files are missing (each is named), or there is no chat template.
    """
    check_files(directory)
    tokenizer = load_tokenizer(directory)
    # FP32 holds every BF16 and FP16 value exactly, so nothing is lost before the dtypes are set.
    model = AutoModelForCausalLM.from_pretrained(directory, local_files_only=True, dtype=torch.float32)
    if precision is not None:
        apply_precision(model, precision)
    else:
        restore_saved_dtypes(model, directory)
    return Loaded(model.to(device), tokenizer)


def check_files(directory: Path) -> None:
    """Raise ModelError naming every file that a model needs and that is not there."""
    missing = [name for name in ("config.json",) if not (directory / name).is_file()]
    if not any((directory / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        missing.append("tokenizer.json")
    if not list(directory.glob("*.safetensors")):
        missing.append("model.safetensors")
    if missing:
        raise ModelError(
            f"The model directory {directory} lacks {', '.join(missing)}.",
            "Put the files there; nothing is fetched, and only safetensors weights are read.",
        )


def load_tokenizer(directory: Path) -> PreTrainedTokenizerBase:
    """The tokenizer, padding on the left. Raises ModelError where it has no chat template."""
    tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True, padding_side="left")
    if tokenizer.chat_template is None:
        raise ModelError(
            f"The tokenizer in {directory} has no chat template.",
            "Use an instruction-tuned model, or put a chat_template.jinja there.",
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def restore_saved_dtypes(model: PreTrainedModel, directory: Path) -> None:
    """Cast every parameter to the dtype in which its file holds it."""
    saved: dict[str, torch.dtype] = {}
    for path in directory.glob("*.safetensors"):
        with safe_open(path, framework="pt") as tensors:
            saved |= {name: tensors.get_tensor(name).dtype for name in tensors.keys()}  # noqa: SIM118 - no mapping
    for name, parameter in model.named_parameters():
        if name in saved:
            parameter.data = parameter.data.to(saved[name])
    if len({parameter.dtype for parameter in model.parameters()}) > 1:
        keep_output_dtype(model)


def usable_device(wanted: str) -> str:
    """The device to use: ``wanted``, or for ``auto`` the best that is there.

    Raises:
        DeviceError: the device asked for cannot be used here, and why.
    """
    if wanted == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    reason = why_unusable(wanted)
    if reason is not None:
        raise DeviceError(f"The device '{wanted}' cannot be used: {reason}.", "Use device = 'cpu' or 'auto'.")
    return wanted


def why_unusable(device: str) -> str | None:
    """Why a device cannot be used, or None."""
    if device == "cuda" and not torch.cuda.is_available():
        return "no CUDA device is present" if torch.backends.cuda.is_built() else "this PyTorch is built without CUDA"
    if device == "mps" and not torch.backends.mps.is_available():
        built = torch.backends.mps.is_built()
        return (
            "PyTorch has MPS built in but sees no usable Metal device" if built else "this PyTorch has no MPS built in"
        )
    return None
