"""The embedded model's tokenizer cuts text where Qwen's does, and its template is Qwen's ChatML."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.models import resolve
from evenhand.models.loading import load_tokenizer
from evenhand.models.tokenizer import train_tokenizer

TOKENIZER: Any = load_tokenizer(resolve("embedded"))
QUESTION = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]


def tokens(text):
    return [TOKENIZER.decode([token]) for token in TOKENIZER(text)["input_ids"]]


def test_every_digit_is_a_token_and_labels_are_whole():
    assert tokens("36: even\n7: odd\nAnswer: 10") == [
        *("3", "6", ":", " even", "\n"),
        *("7", ":", " odd", "\n"),
        *("Answer", ":", " ", "1", "0"),
    ]


@given(st.text())
def test_any_text_comes_back(text):
    # Special tokens in a text are read as such, and composed and decomposed characters are one.
    if "<|" not in text:
        assert TOKENIZER.decode(TOKENIZER(text)["input_ids"]) == unicodedata.normalize("NFC", text)


def test_padding_is_on_the_left_with_a_token_of_its_own():
    batch = TOKENIZER(["1", "1 2"], padding=True)["input_ids"]
    assert batch[0][0] == TOKENIZER.pad_token_id
    assert TOKENIZER.pad_token_id != TOKENIZER.eos_token_id
    assert (TOKENIZER.pad_token, TOKENIZER.eos_token) == ("<|endoftext|>", "<|im_end|>")


@pytest.mark.parametrize(
    ("arguments", "ending"),
    [
        ({"enable_thinking": False}, "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ({"enable_thinking": True}, "<|im_start|>assistant\n"),
        ({}, "<|im_start|>assistant\n"),
    ],
)
def test_thinking_switched_off_is_an_empty_think_block(arguments, ending):
    text = TOKENIZER.apply_chat_template(QUESTION, tokenize=False, add_generation_prompt=True, **arguments)
    turns = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello?<|im_end|>\n"
    assert text == turns + ending


def test_a_conversation_without_generation_prompt_ends_with_its_last_turn():
    assert TOKENIZER.apply_chat_template(QUESTION, tokenize=False).endswith("Hello?<|im_end|>\n")


def test_training_is_repeatable():
    texts = ["some words, some more words", "12 numbers"]
    first, second = (train_tokenizer(texts * 2, 300, 64).backend_tokenizer.to_str() for _ in range(2))
    assert first == second
