"""The only file that subclasses TRL. Every override is a small seam; ``tests/training/test_trainer.py`` watches their
signatures, so that a new TRL that moves one of them is noticed before a run is.
"""

import copy
import logging
import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Sampler
from trl import GRPOConfig, GRPOTrainer
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.utils import RepeatSampler, split_tensor_dict

from evenhand.prefixtree import Batch, Rollout, Scores, roll_out
from evenhand.prefixtree.memory import Frugality, out_of_memory
from evenhand.prefixtree.support import base_model, differs, dropout_refusal, refusal
from evenhand.prefixtree.tree import distinct_prefixes
from evenhand.rewards import text_of
from evenhand.training.generation import Decoding, read_generation
from evenhand.training.line_credit import LineCredit
from evenhand.training.resampling import Resampler
from evenhand.training.skipping import Taught, taught_rows

logger = logging.getLogger(__name__)

GENERATION_CYCLE = "generation_cycle"

# Log-probabilities and entropies of completions' tokens, [B, C], and the auxiliary loss.
Scored = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]


class EpochSampler(RepeatSampler):  # type: ignore[misc]  # TRL's types are not followed
    """TRL's sampler, whose order in epoch e is the same whether the run reached e or was resumed in it.

    TRL's own draws one permutation per iteration from a generator that a resumed run starts anew, so that it would
    see epoch 0's order again.
    """

    def __init__(self, sampler: RepeatSampler, trainer: GRPOTrainer) -> None:
        self.__dict__.update(sampler.__dict__)
        self._trainer = trainer

    def __iter__(self) -> Any:
        """Indices of the epoch in which the trainer stands."""
        if self.shuffle and self.seed is not None:
            self.generator.manual_seed(self.seed)
            # 1e-6: the state holds epochs as a sum of fractions
            for _ in range(int((self._trainer.state.epoch or 0.0) + 1e-6)):
                torch.randperm(self.num_samples, generator=self.generator)
        return super().__iter__()


class ResumableTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL's types are not followed
    """``GRPOTrainer`` whose resumed run equals the run that was never stopped (CPU, same seed).

    Departures from TRL: the data's order after an epoch's end, and the place in the generation cycle with its buffered
    completions, both survive a checkpoint; an update leaves out completions whose gradient is zero
    (:mod:`evenhand.training.skipping`); log rows tell the time of a rollout and how many completions were drawn since
    the run began, by all processes. Nothing else changes.

    Args:
        line_credit: Gives the parts of a completion their own advantages; None: all tokens carry the completion's.
        resample: How many further rounds at most replace groups without spread (:mod:`evenhand.training.resampling`).

    All other arguments are ``GRPOTrainer``'s.

    Raises:
        ConfigurationError: line credit under a loss that knows whole completions only, with tools or with foreign
            rewards; resampling in several processes, or of completions that are more than their own tokens.
    """

    def __init__(
        self, *arguments: Any, line_credit: LineCredit | None = None, resample: int = 0, **options: Any
    ) -> None:
        self.completions_sampled = 0
        self.rewarded_texts: list[str] = []
        self._taught: Taught | None = None
        super().__init__(*arguments, **options)
        self._line_credit = line_credit
        if line_credit is not None:
            line_credit.check(self)
        self._resampler = Resampler(self, resample, self._sample) if resample else None

    def _get_train_sampler(self, dataset: Any = None) -> Sampler[int]:
        sampler = super()._get_train_sampler(dataset)
        return EpochSampler(sampler, self) if isinstance(sampler, RepeatSampler) else sampler

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        """TRL's, and further rounds where asked for; ``rollout_time`` tells their part of a step's time."""
        start = time.perf_counter()
        made = self._sample(inputs)
        mode = "train" if self.model.training else "eval"
        if self._resampler is not None and mode == "train":
            made = self._resampler.fill(inputs, made)
        self._metrics[mode]["rollout_time"].append(time.perf_counter() - start)
        return made

    def _sample(self, inputs: Any) -> Any:
        """A round: TRL's completions of the rows, counted, with the advantages asked for."""
        made = super()._generate_and_score_completions(inputs)
        if self.model.training:
            self.completions_sampled += len(inputs) * self.accelerator.num_processes
            if self._line_credit is not None:
                made["advantages"] = self._line_credit.token_advantages(self, inputs, made)
        return made

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
        """TRL's; the texts that rewards see are remembered, since a chat template's parser may have changed them."""
        self.rewarded_texts = [text_of(completion) for completion in completions]
        return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        """TRL's, from passes without the completions that have no gradient."""
        self._taught = taught_rows(self, inputs) if torch.is_grad_enabled() else None
        try:
            return super()._compute_loss(model, inputs)
        finally:
            self._taught = None

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        **options: Any,
    ) -> Scored:
        taught = self._taught
        if taught is None:
            return self._log_probabilities(model, input_ids, attention_mask, logits_to_keep, **options)
        ids, mask = input_ids[taught.rows], attention_mask[taught.rows]
        computed, entropies, auxiliary = self._log_probabilities(model, ids, mask, logits_to_keep, **options)
        known = None if entropies is None else taught.entropies(entropies)
        return taught.log_probabilities(computed), known, auxiliary

    def _log_probabilities(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        **options: Any,
    ) -> Scored:
        """What TRL's method of the longer name returns, of the given rows."""
        scored: Scored = super()._get_per_token_logps_and_entropies(
            model, input_ids, attention_mask, logits_to_keep, **options
        )
        return scored

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's row. A step without a rollout has the count too, which ``num_tokens`` has not."""
        if "loss" in logs and self.model.training:
            logs["completions_sampled"] = self.completions_sampled
        super().log(logs, start_time)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        folder = Path(self._get_output_dir(trial)) / f"checkpoint-{self.state.global_step}"
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(self._generation_cycle(), folder / self._generation_cycle_name())

    def _generation_cycle(self) -> dict[str, Any]:
        """The micro-step, completions drawn so far, and those still to be used where a cycle is not at its end."""
        cycle = self.args.steps_per_generation * self.num_iterations
        return {
            "step": self._step,
            "completions_sampled": self.completions_sampled,
            "inputs": self._buffered_inputs if self._step % cycle else None,
        }

    def _generation_cycle_name(self) -> str:
        return f"{GENERATION_CYCLE}-{self.accelerator.process_index}.pt"

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        path = Path(checkpoint or "") / self._generation_cycle_name()
        if checkpoint is not None and path.is_file():
            saved = torch.load(path, map_location=self.accelerator.device, weights_only=True)
            self._step, self._buffered_inputs = saved["step"], saved["inputs"]
            self.completions_sampled = saved.get("completions_sampled", 0)  # checkpoints of before do not know


class PrefixTreeTrainer(ResumableTrainer):
    """``GRPOTrainer`` that computes every distinct token of a step once: in the rollout, in scoring and in the update.

    Departures from TRL: the micro-batches of an accumulation window are one (the global batch stays what it was), so
    that completions find what they share. Where the window has more distinct tokens than one of the micro-batches that
    ``args`` asks for has tokens, it is cut again, into as few equal parts as stay within that, whole groups together:
    memory stays what the user planned for. It changes the entropy bonus alone, whose mean is then over a part; the
    loss type ``bnpo`` and ``top_entropy_quantile``, which look at a micro-batch as a whole, keep theirs. Rewards,
    advantages, losses and metrics are TRL's own. Whatever the tree does not know takes TRL's path, and a line says
    why, once.

    Args:
        merge_micro_batches: False keeps the micro-batches that ``args`` asks for.

    All other arguments are ``GRPOTrainer``'s. ``tokens_computed`` counts the positions that went through a model on
    the tree (``rollout``, ``scoring``), and what stood in the same batches (``scoring_without_sharing``).
    """

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: GRPOConfig | None = None,
        *others: Any,
        merge_micro_batches: bool = True,
        **options: Any,
    ) -> None:
        self.tokens_computed: Counter[str] = Counter()
        self._said: set[str] = set()
        self._judged: dict[int, str | None] = {}
        self._frugality = Frugality()
        self._prepared: Any = None
        self._repeating = False
        planned = None if args is None else args.per_device_train_batch_size
        if merge_micro_batches and args is not None:
            args = with_merged_micro_batches(args)
        super().__init__(model, reward_funcs, args, *others, **options)
        self._merged = self.args.per_device_train_batch_size // (planned or self.args.per_device_train_batch_size)

    def _generate_single_turn(
        self, prompt_ids: Any, images: Any, multimodal_fields: Any, *rest: Any, **options: Any
    ) -> tuple[list[list[int]], Any]:
        decoding = self._decoding(prompt_ids, images, multimodal_fields)
        if isinstance(decoding, str):
            self._say("rollout", decoding)
            completions: tuple[list[list[int]], Any] = super()._generate_single_turn(
                prompt_ids, images, multimodal_fields, *rest, **options
            )
            return completions
        model = self.accelerator.unwrap_model(self.model_wrapped)
        with disable_gradient_checkpointing(self.model, self.args.gradient_checkpointing_kwargs):
            rollout = self._roll_out(model, prompt_ids, decoding)
        self.tokens_computed["rollout"] += rollout.positions
        return rollout.completions, None

    def _roll_out(self, model: Any, prompts: list[list[int]], decoding: Decoding) -> Rollout:
        return roll_out(model, prompts, decoding.limits, decoding.sampling)

    def _log_probabilities(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **multimodal: Any,
    ) -> Scored:
        batch = Batch.of(input_ids, attention_mask, logits_to_keep)
        reason = "the auxiliary loss of experts is over all tokens" if compute_aux_loss else None
        reason = reason or self._scoring_refusal(model, batch, multimodal)
        if reason is not None:
            self._say("scoring and update", reason)
            return super()._log_probabilities(
                model,
                input_ids,
                attention_mask,
                logits_to_keep,
                batch_size=batch_size,
                compute_entropy=compute_entropy,
                compute_aux_loss=compute_aux_loss,
                **multimodal,
            )
        scores = self._score(model, batch)
        entropies = scores.entropies if self._entropy_bonus_enabled else scores.entropies.detach()
        return scores.log_probabilities, entropies if compute_entropy else None, None

    def _score(self, model: Any, batch: Batch) -> Scores:
        one_pass = isinstance(model, DistributedDataParallel)  # processes must call it equally often
        with self.accelerator.autocast():
            scores = self._frugality.score(model, batch, self.temperature, self.accelerator.device, one_pass=one_pass)
        self.tokens_computed["scoring"] += scores.nodes
        self.tokens_computed["scoring_without_sharing"] += batch.positions()
        return scores

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """TRL's step; once more with less at a time where memory runs out before anything was accumulated."""
        try:
            loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch)
            return loss
        except (torch.OutOfMemoryError, RuntimeError) as error:
            accumulated = self._step % self.current_gradient_accumulation_steps != 0
            alone = self.accelerator.num_processes == 1  # others would wait for a step of their own
            if not out_of_memory(error) or accumulated or not alone or not self._frugality.tighten():
                raise
        model.zero_grad(set_to_none=True)
        self._repeating = True
        try:
            return self.training_step(model, inputs, num_items_in_batch)
        finally:
            self._repeating = False

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """TRL's loss. Of a micro-batch in parts, all but the last are backpropagated here, so that one is in memory."""
        parts = self._parts(inputs) if self.model.training else [inputs]
        earlier = 0.0
        with self._accumulating(len(parts)):
            for part in parts[:-1]:
                loss = super().compute_loss(model, part, return_outputs, num_items_in_batch)
                with torch.autocast(self.accelerator.device.type, enabled=False):
                    self.accelerator.backward(loss)
                earlier += float(loss.detach())
            last: torch.Tensor = super().compute_loss(model, parts[-1], return_outputs, num_items_in_batch)
        return last + earlier

    def _parts(self, inputs: dict[str, Any]) -> list[dict[str, Any]]:
        """A merged micro-batch, in parts where it would need more memory than one that was planned."""
        # Other processes would wait for as many backward passes as this one makes, and TRL's adaptive entropy steps
        # once for each part.
        if self._merged == 1 or self.accelerator.num_processes > 1 or self.use_adaptive_entropy:
            return [inputs]
        if not rows_only(inputs):
            return [inputs]
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1).bool()
        sequences = [row[seen].tolist() for row, seen in zip(ids, mask, strict=True)]
        order = sorted(range(len(sequences)), key=sequences.__getitem__)
        count = self._merged  # TRL's path shares nothing
        if not (self._refusal(self.model) or dropout_refusal(self.model)):
            count = fewest_parts([sequences[row] for row in order], self._merged)
        if count == 1:
            return [inputs]
        parts: list[dict[str, Any]] = split_tensor_dict(
            {key: value if value is None or value.ndim == 0 else value[order] for key, value in inputs.items()}, count
        )
        return parts

    @contextmanager
    def _accumulating(self, parts: int) -> Iterator[None]:
        """Inside, TRL's losses are scaled as those of ``parts`` times as many micro-batches."""
        self.current_gradient_accumulation_steps *= parts
        self.args.steps_per_generation *= parts
        try:
            yield
        finally:
            self.current_gradient_accumulation_steps //= parts
            self.args.steps_per_generation //= parts

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        """TRL's micro-batch; the same once more, without sampling anew, where a step is repeated."""
        if not self._repeating:
            self._prepared = super()._prepare_inputs(generation_batch)
        return self._prepared

    def _decoding(self, prompt_ids: Any, images: Any, multimodal_fields: Any) -> Decoding | str:
        """How to roll out on the tree, or why not."""
        if self.use_vllm or self.use_transformers_continuous_batching:
            return "another engine samples"
        if images or multimodal_fields:
            return "the prompts hold more than text"
        reason = self._refusal(self.model) or dropout_refusal(self.model)
        if reason is not None:
            return reason
        base: Any = base_model(self.model)
        decoding = read_generation(self.generation_config, base)
        if isinstance(decoding, str):
            return decoding
        longest = max(map(len, prompt_ids)) + decoding.limits.max_new_tokens
        return too_long(base, longest) or ("a prompt is empty" if not all(prompt_ids) else decoding)

    def _scoring_refusal(self, model: Any, batch: Batch, multimodal: dict[str, Any]) -> str | None:
        if any(value is not None for value in multimodal.values()):
            return "the prompts hold more than text"
        if self.args.cast_lm_head_to_fp32:
            return "cast_lm_head_to_fp32 belongs to TRL's own path"
        if not all(batch.prompts) or not any(batch.completions):
            return "a prompt is empty, or all completions are masked"
        reason = self._refusal(model) or dropout_refusal(model)
        lengths = [len(prompt) + batch.width for prompt in batch.prompts]
        return reason or too_long(base_model(model), max(lengths))

    def _refusal(self, model: Any) -> str | None:
        """Why this model keeps TRL's path; found out once for each model, also by computing a small tree."""
        base = base_model(model)
        if id(base) not in self._judged:
            if self.is_fsdp_enabled or self.is_deepspeed_enabled:
                reason: str | None = "its weights are spread over processes"
            elif self.args.use_liger_kernel:
                reason = "Liger kernels compute it"
            else:
                reason = refusal(model) or differs(model)
            self._judged[id(base)] = reason
        return self._judged[id(base)]

    def _say(self, what: str, reason: str) -> None:
        if (sentence := f"{what} takes TRL's own path, because {reason}.") not in self._said:
            self._said.add(sentence)
            logger.warning("Prefix tree: %s", sentence)


def with_merged_micro_batches(args: GRPOConfig) -> GRPOConfig:
    """A copy whose micro-batches are as large as the accumulation window and the generation batch allow.

    Completions per update, per process and per generation stay what they were.
    """
    merged = copy.copy(args)
    if merged.loss_type == "bnpo" or merged.top_entropy_quantile < 1.0:
        return merged
    factor = math.gcd(merged.gradient_accumulation_steps, merged.steps_per_generation)
    merged.per_device_train_batch_size *= factor
    merged.gradient_accumulation_steps //= factor
    merged.steps_per_generation //= factor
    return merged


def rows_only(inputs: dict[str, Any]) -> bool:
    """Whether a batch holds nothing but tensors with a row for each completion, and numbers."""
    rows = len(inputs["completion_ids"])
    held = [value for value in inputs.values() if value is not None]
    return all(isinstance(value, torch.Tensor) and (value.ndim == 0 or len(value) == rows) for value in held)


def fewest_parts(sequences: list[list[int]], planned: int) -> int:
    """How many equal parts of sorted sequences are needed, so that none has more distinct tokens than a planned part
    has tokens on average; at most the ``planned`` ones, which always divide the sequences."""
    most = sum(map(len, sequences)) / planned
    for count in range(1, planned):
        size, rest = divmod(len(sequences), count)
        starts = range(0, len(sequences), size)
        if not rest and all(distinct_prefixes(sequences[start : start + size]) <= most for start in starts):
            return count
    return planned


def too_long(base: Any, tokens: int) -> str | None:
    """Why sequences of that many tokens keep TRL's path, where the model was not made for them."""
    limit = getattr(base.config, "max_position_embeddings", None)
    if limit is not None and tokens > limit:
        return f"a prompt and its completion may take {tokens} tokens, and the model's context holds {limit}"
    return None
