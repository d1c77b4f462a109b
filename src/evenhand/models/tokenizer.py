"""A small byte-level BPE tokenizer that cuts text where Qwen's does: every digit is a token of its own."""

from collections.abc import Iterable
from importlib import resources

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

PADDING = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
THINKING = ("<think>", "</think>")

# Contractions; letters with at most one sign before them; ONE digit; signs; line breaks; white space.
# The third alternative is what makes numbers come out digit by digit, as in Qwen2 and Qwen3.
PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def chat_template() -> str:
    """ChatML as Qwen writes it; with ``enable_thinking=False`` the answer begins behind an empty think block."""
    return (resources.files("evenhand") / "models" / "chat_template.jinja").read_text(encoding="utf-8").strip()


def train_tokenizer(texts: Iterable[str], vocabulary_size: int, longest_text: int) -> PreTrainedTokenizerFast:
    """Learn merges from ``texts``. Every word in them becomes one token if ``vocabulary_size`` allows it.

    All 256 bytes are in the vocabulary, so any text can be encoded and comes back unchanged (but for Unicode
    composition, NFC). The end token is ``<|im_end|>``, the padding token ``<|endoftext|>``; padding is on the left.

    Args:
        texts: What to learn from; the order does not matter.
        vocabulary_size: Upper bound, without the two think tokens.
        longest_text: The model's context in tokens.
    """
    tokenizer = Tokenizer(BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=vocabulary_size,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[PADDING, TURN_START, TURN_END],
    )
    tokenizer.train_from_iterator(texts, trainer)
    # Think tokens are not special, as in Qwen3: decoding keeps them, so thinking shows in a completion.
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in THINKING])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=TURN_END,
        pad_token=PADDING,
        padding_side="left",
        model_max_length=longest_text,
        clean_up_tokenization_spaces=False,
        chat_template=chat_template(),
    )
