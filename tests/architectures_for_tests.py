"""Small random models of every architecture that may take the tree."""

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from evenhand.prefixtree.support import ARCHITECTURES

SHARED = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
OWN = {
    "gemma2": {"sliding_window": 7, "query_pre_attn_scalar": 8},
    "gemma3_text": {"sliding_window": 7},
    "granite": {"logits_scaling": 3.0, "residual_multiplier": 0.7, "attention_multiplier": 0.3},
    "mistral": {"sliding_window": 7},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "smollm3": {"no_rope_layers": [1, 0]},
}


def random_model(architecture="llama", seed=0, attention=None, **changes):
    """Weights large enough that attention is far from even. Gemma 2's plain path is eager: SDPA ignores its cap."""
    config = AutoConfig.for_model(architecture, **{**SHARED, **OWN.get(architecture, {}), **changes})
    attention = attention or ("eager" if architecture == "gemma2" else "sdpa")
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).float()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return model


__all__ = ["ARCHITECTURES", "random_model"]
