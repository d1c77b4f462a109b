"""Small random models of real architectures, with the embedded model's tokenizer."""

from pathlib import Path

import torch
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from evenhand.models import resolve


def save_random_qwen3(directory: Path, seed: int = 0) -> Path:
    """A Qwen3 of some ten thousand parameters, weights drawn with ``seed``; its texts are noise."""
    tokenizer = AutoTokenizer.from_pretrained(resolve("embedded"))
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    Qwen3ForCausalLM(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory
