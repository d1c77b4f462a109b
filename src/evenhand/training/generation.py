"""Read Transformers' generation settings as a rollout on the tree, or say which of them the tree does not know."""

import copy
from dataclasses import dataclass
from typing import Any

from transformers import GenerationConfig, PreTrainedModel

from evenhand.prefixtree import Limits, Sampling

# Settings that ``Limits`` and ``Sampling`` carry, and settings that do not touch which tokens are drawn.
CARRIED = {
    "do_sample",
    "eos_token_id",
    "max_new_tokens",
    "min_p",
    "repetition_penalty",
    "temperature",
    "top_k",
    "top_p",
}
HARMLESS = {
    "_from_model_config",
    "bos_token_id",
    "disable_compile",
    "max_length",  # max_new_tokens wins over it
    "pad_token_id",
    "transformers_version",
    "use_cache",
}
# What an unset field means to ``generate``.
EFFECTIVE_DEFAULTS: dict[str, Any] = {
    "encoder_repetition_penalty": 1.0,
    "guidance_scale": 1.0,
    "length_penalty": 1.0,
    "num_beam_groups": 1,
    "num_beams": 1,
    "num_return_sequences": 1,
    "typical_p": 1.0,
}


@dataclass(frozen=True, slots=True)
class Decoding:
    """What a generation configuration asks of a rollout."""

    limits: Limits
    sampling: Sampling


def read_generation(config: GenerationConfig, model: PreTrainedModel) -> Decoding | str:
    """The rollout that ``model.generate(generation_config=config)`` would sample from.

    Fields that are unset in ``config`` are taken from the model's own configuration, as ``generate`` does. Returns the
    reason, as the end of "because …", where a setting has an effect that the tree does not know.
    """
    merged = copy.deepcopy(config)
    merged.update(**model.generation_config.to_dict(), defaults_only=True, allow_custom_entries=True)
    settings = merged.to_dict()
    foreign = sorted(name for name, value in settings.items() if _matters(name, value))
    if foreign:
        return f"the generation setting {foreign[0]} is not known on the tree"
    if settings.get("max_new_tokens") is None:
        return "no max_new_tokens is set"
    return Decoding(
        Limits(int(settings["max_new_tokens"]), _end_ids(settings.get("eos_token_id"))), _sampling(settings)
    )


def _matters(name: str, value: Any) -> bool:
    if name in CARRIED or name in HARMLESS or value is None:
        return False
    default = EFFECTIVE_DEFAULTS.get(name, getattr(GenerationConfig(), name, None))
    return bool(value) if default is None else value != default


def _end_ids(value: int | list[int] | None) -> frozenset[int]:
    if value is None:
        return frozenset()
    return frozenset([value] if isinstance(value, int) else value)


def _sampling(settings: dict[str, Any]) -> Sampling:
    """Unset fields have no effect: that is what they mean to ``generate``, but for top_k, whose default is 50."""
    top_k = settings.get("top_k")
    return Sampling(
        greedy=not settings.get("do_sample"),
        temperature=_or(settings.get("temperature"), 1.0),
        top_k=50 if top_k is None else int(top_k),
        top_p=_or(settings.get("top_p"), 1.0),
        min_p=settings.get("min_p"),
        repetition_penalty=_or(settings.get("repetition_penalty"), 1.0),
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else float(value)
