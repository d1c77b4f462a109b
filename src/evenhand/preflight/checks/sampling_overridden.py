"""``sampling-overridden-by-model-defaults``."""

from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity

# Fields of a generation configuration that change what is sampled, with the value that changes nothing. TRL 1.14 sets
# temperature, top_p, top_k, min_p and repetition_penalty itself on the model (grpo_trainer.py, generation_kwargs), so a
# model's own values of those do not count; the others are merged in by `generate`.
MERGED: dict[str, tuple[Any, ...]] = {
    "no_repeat_ngram_size": (0, None),
    "encoder_repetition_penalty": (1.0, None),
    "typical_p": (1.0, None),
    "epsilon_cutoff": (0.0, None),
    "eta_cutoff": (0.0, None),
    "top_h": (None,),
    "num_beams": (1, None),
    "min_length": (0, None),
    "min_new_tokens": (0, None),
    "suppress_tokens": (None, []),
    "begin_suppress_tokens": (None, []),
    "bad_words_ids": (None, []),
    "forced_bos_token_id": (None,),
    "forced_eos_token_id": (None,),
    "sequence_bias": (None,),
    "exponential_decay_length_penalty": (None,),
    "guidance_scale": (None, 1.0),
    "penalty_alpha": (None, 0.0),
}


class SamplingOverridden(Check):
    """The model's own generation defaults change what the trainer samples.

    ## Why it matters

    Groups need variety. A default that comes with the checkpoint can take it away, or sample from another distribution
    than the one whose log-probabilities are trained.

    ## Example

    A checkpoint with `top_k: 1`: half of the completions of a group are the same byte for byte, at temperature 1.

    ## Remedy

    Remove these fields from the model folder's generation_config.json.
    """

    code: ClassVar[str] = "sampling-overridden-by-model-defaults"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("model", "settings")

    def judge(self, setup: Setup) -> Verdict:
        """The model's generation configuration against what the installed TRL sets itself."""
        model, settings = present(setup.model), present(setup.settings)
        asked = settings.train.get("generation_kwargs") or {}
        winning = {
            name: value
            for name, value in model.generation_defaults.items()
            if name in MERGED and value not in MERGED[name] and name not in asked
        }
        if not winning:
            return None
        told = ", ".join(f"{name} = {value}" for name, value in winning.items())
        return self.finding(
            f"{model.name} brings generation defaults that join the trainer's own: {told}.",
            evidence=winning,
            remedy="Remove these fields from its generation_config.json.",
        )

    def sick(self) -> Setup:
        """No phrase of two tokens may come twice, so no list of labels can be written."""
        return Setup(
            model=examples.model(generation_defaults={"no_repeat_ngram_size": 2}), settings=examples.settings()
        )


CHECK = SamplingOverridden()
