"""A model that says what a function tells it to: to test a task, its rewards and its evaluation without weights."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


class ScriptedModel(PreTrainedModel):
    """Answers each prompt with ``reply(prompt)``.

    It stands wherever a model is only asked to generate, such as in ``evenhand.evaluation.evaluate``; it has no
    forward pass and cannot be trained. A reply that is longer than the limit is cut there, as a model's would be.

    Args:
        tokenizer: Reads prompts and writes replies; the embedded model's does for any text.
        reply: The prompt as the chat template wrote it, in; the completion's text, out. It may draw at random.
    """

    config_class = PretrainedConfig

    def __init__(self, tokenizer: PreTrainedTokenizerBase, reply: Callable[[str], str]) -> None:
        super().__init__(PretrainedConfig())
        self.tokenizer = tokenizer
        self.reply = reply
        self.prompts: list[str] = []  # all that it was asked, in order
        self.anchor = nn.Parameter(torch.zeros(1))  # a model has a device and a dtype

    def generate(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        max_new_tokens: int = 512,
        **ignored: Any,
    ) -> torch.Tensor:
        """Prompts followed by their replies, padded on the right. (rows, prompt length + longest reply)"""
        del ignored  # sampling settings: a script has one answer
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        replies = []
        for row, kept in zip(input_ids, mask.bool(), strict=True):
            self.prompts.append(str(self.tokenizer.decode(row[kept].tolist())))
            said: Any = self.tokenizer(self.reply(self.prompts[-1]), add_special_tokens=False)["input_ids"]
            replies.append(torch.tensor([*said, self.tokenizer.eos_token_id][:max_new_tokens]))
        padding = float(self.tokenizer.pad_token_id or 0)
        padded = nn.utils.rnn.pad_sequence(replies, batch_first=True, padding_value=padding)
        return torch.cat([input_ids, padded.to(input_ids.device)], dim=1)
