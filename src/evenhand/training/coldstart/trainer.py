"""Supervised training on gold texts: Transformers' trainer with one loss of its own."""

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import Sampler, SequentialSampler
from transformers import Trainer, TrainingArguments

from evenhand.errors import RunStopped
from evenhand.models.loading import Loaded
from evenhand.prefixtree import Batch
from evenhand.prefixtree.memory import Frugality, out_of_memory
from evenhand.prefixtree.support import differs, dropout_refusal, refusal
from evenhand.training.coldstart.examples import Example

logger = logging.getLogger(__name__)


class SupervisedTrainer(Trainer):
    """``Trainer`` whose loss is the mean cross-entropy of the gold texts' tokens, their end tokens among them.

    On the prefix tree every distinct prefix of a batch is computed once, the system prompt above all. The order is that
    of ``examples``. Each log row also holds ``examples`` (shown so far), ``tokens_computed`` and
    ``tokens_without_sharing`` of the step.

    Args:
        loaded: The model and its tokenizer, which is saved beside every checkpoint.
        args: One batch is one optimiser step.
        examples: A multiple of the batch size.
        on_tree: False takes the plain path; so does a model that the tree refuses, which is said once.
    """

    def __init__(self, loaded: Loaded, args: TrainingArguments, examples: Sequence[Example], on_tree: bool) -> None:
        # Named as TRL names it: training/scoring.py puts its figures into the row of the step.
        self._metrics: dict[str, Any] = {"train": defaultdict(list)}
        self._frugality = Frugality()
        self._plain_because: str | None = None if on_tree else "engine = 'plain'"
        self._judged = not on_tree
        options: dict[str, Any] = {"train_dataset": list(examples), "processing_class": loaded.tokenizer}
        super().__init__(model=loaded.model, args=args, data_collator=collate, **options)

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int]:
        examples: Any = self.train_dataset if train_dataset is None else train_dataset
        return SequentialSampler(examples)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """The loss of a batch, a scalar.

        Raises:
            RunStopped: it is no finite number; nothing was updated with it.
        """
        del return_outputs, num_items_in_batch  # one batch is one step, so the batch's own mean is the step's
        batch: Batch = inputs["batch"]
        loss, computed = self._loss(model, batch)
        if not bool(torch.isfinite(loss)):
            raise RunStopped(
                f"The loss of step {self.state.global_step + 1} is {loss.item()}: the weights are spoilt.",
                "Begin another cold start with a lower coldstart.learning_rate, or with the weights in FP32.",
            )
        rows = self._metrics["train"]
        rows["examples"].append((self.state.global_step + 1) * len(batch.prompts))
        rows["tokens_computed"].append(computed)
        rows["tokens_without_sharing"].append(batch.positions())
        return loss

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Transformers'; once more with less at a time where memory runs out. Its time is logged as ``step_time``."""
        start = time.perf_counter()
        try:
            loss = super().training_step(model, inputs, num_items_in_batch)
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if self.reason_for_plain_path(model) or not out_of_memory(error) or not self._frugality.tighten():
                raise
        else:
            self._metrics["train"]["step_time"].append(time.perf_counter() - start)
            return loss
        model.zero_grad(set_to_none=True)
        return self.training_step(model, inputs, num_items_in_batch)

    def _loss(self, model: Any, batch: Batch) -> tuple[torch.Tensor, int]:
        """(loss, positions that went through the model)."""
        if self.reason_for_plain_path(model) is not None:
            return plain_loss(model, batch, self.accelerator.device), batch.positions()
        scores = self._frugality.score(model, batch, temperature=1.0, device=self.accelerator.device)
        return -scores.log_probabilities.sum() / sum(map(len, batch.completions)), scores.nodes

    def reason_for_plain_path(self, model: Any) -> str | None:
        """Why the batches of this model are not computed on the tree, or None; found out once."""
        if not self._judged:
            self._judged = True
            self._plain_because = refusal(model) or dropout_refusal(model) or differs(model)
            if self._plain_because is not None:
                logger.warning("Prefix tree: the cold start takes the plain path, because %s.", self._plain_because)
        return self._plain_because

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """The row with this step's own figures."""
        logs |= {name: values[-1] for name, values in self._metrics["train"].items()}
        self._metrics["train"].clear()
        super().log(logs, start_time)

    def floating_point_ops(self, inputs: Any) -> int:
        """0: what Transformers would estimate here knows nothing of the tree."""
        del inputs
        return 0


def collate(examples: Sequence[Example]) -> dict[str, Batch]:
    """Examples as one batch."""
    completions = [example.completion for example in examples]
    batch = Batch([example.prompt for example in examples], completions, max(map(len, completions)))
    return {"batch": batch}


def plain_loss(model: Any, batch: Batch, device: torch.device) -> torch.Tensor:
    """Mean cross-entropy of the completions' tokens from one padded forward pass."""
    rows = [prompt + completion for prompt, completion in zip(batch.prompts, batch.completions, strict=True)]
    length = max(map(len, rows))
    tokens = torch.zeros(len(rows), length, dtype=torch.long)  # padded on the right, where a causal model never looks
    seen = torch.zeros_like(tokens)
    predicting = torch.zeros_like(tokens, dtype=torch.bool)
    for place, (row, prompt) in enumerate(zip(rows, batch.prompts, strict=True)):
        tokens[place, : len(row)] = torch.tensor(row)
        seen[place, : len(row)] = 1
        predicting[place, len(prompt) - 1 : len(row) - 1] = True
    logits = model(input_ids=tokens.to(device), attention_mask=seen.to(device)).logits  # (B, length, vocabulary)
    targets = torch.tensor([token for completion in batch.completions for token in completion], device=device)
    return cross_entropy(logits[predicting.to(device)].float(), targets)
