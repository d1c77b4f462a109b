"""The shape of the embedded model: the smallest Qwen3 that labels and counts reliably."""

from transformers import PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

CONTEXT = 2048
VOCABULARY = 448  # 256 bytes, the words of both tasks' prompts, special tokens; a little room


def fresh_model(tokenizer: PreTrainedTokenizerBase) -> Qwen3ForCausalLM:
    """An untrained model in FP32; its weights come from torch's current random state.

    Three layers: one finds the place in the list, one copies, one counts. Heads share keys and values in pairs, and
    the head is tied to the embeddings, as in Qwen3-0.6B.
    """
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=24,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=True,
        initializer_range=0.05,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)
