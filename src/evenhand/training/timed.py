"""One timed optimiser step, or one timed evaluation, in a process of its own: ``python -m evenhand.training.timed``.

Prompts and completions are given, so that TRL and Evenhand do the same work. Both still compute and draw every token of
a rollout; what was drawn is then replaced by what was given.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, PreTrainedModel, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from evenhand.models.loading import load_tokenizer
from evenhand.prefixtree import Rollout, generate_greedy, install, roll_out
from evenhand.training.generation import Decoding
from evenhand.training.trainer import PrefixTreeTrainer

KIBIBYTE = 1024


class Given:
    """Prompts and completions by number, and a clock for each phase. Mixed into both trainers."""

    given: dict[str, Any]  # "prompts": token ids, "completions": for each prompt its group's token ids

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        super().__init__(*arguments, **options)

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        self.asked = [int(prompt) for prompt in prompts]
        return [self.given["prompts"][number] for number in self.asked], None, {}

    def written(self) -> list[list[int]]:
        """Completion of each row; a prompt's rows follow each other."""
        seen: Counter[int] = Counter()
        chosen = []
        for number in self.asked:
            chosen.append(self.given["completions"][number][seen[number]])
            seen[number] += 1
        return chosen

    def _generate_single_turn(self, *arguments: Any, **options: Any) -> Any:
        with self._clocked("rollout"):
            return super()._generate_single_turn(*arguments, **options)  # type: ignore[misc]

    def _get_per_token_logps_and_entropies(self, *arguments: Any, **options: Any) -> Any:
        with self._clocked("update_forward" if torch.is_grad_enabled() else "score"):
            return super()._get_per_token_logps_and_entropies(*arguments, **options)  # type: ignore[misc]

    @contextmanager
    def _clocked(self, phase: str) -> Iterator[None]:
        start = now()
        yield
        self.seconds[phase] += now() - start


class GivenStock(Given, GRPOTrainer):  # type: ignore[misc]  # TRL's types are not followed
    """TRL's trainer; what ``generate`` draws is replaced by the given token."""

    def _generate_single_turn(self, *arguments: Any, **options: Any) -> Any:
        rows = self.written()
        pad = self.processing_class.pad_token_id
        longest = max(map(len, rows))
        columns = iter(torch.tensor([row + [pad] * (longest - len(row)) for row in rows]).t().unsqueeze(-1))
        draw = torch.multinomial

        def replaced(probabilities: torch.Tensor, **options: Any) -> torch.Tensor:
            draw(probabilities, **options)
            column: torch.Tensor = next(columns)
            return column.to(probabilities.device)

        with mock.patch("torch.multinomial", replaced):
            return super()._generate_single_turn(*arguments, **options)


class GivenTree(Given, PrefixTreeTrainer):
    """Evenhand's trainer; its rollout writes the given completions."""

    def _roll_out(self, model: Any, prompts: list[list[int]], decoding: Decoding) -> Rollout:
        return roll_out(model, prompts, decoding.limits, decoding.sampling, forced=self.written())


class StepClock(TrainerCallback):
    """Seconds from a step's beginning to its end, optimiser included."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Start."""
        self._start = now()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Stop."""
        self.seconds = now() - self._start


def now() -> float:
    """Seconds, when the accelerator has done what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def timed_step(spec: dict[str, Any]) -> dict[str, Any]:
    """Seconds of the phases, positions computed and peak memory of one optimiser step."""
    kind = GivenTree if spec["kind"] == "evenhand" else GivenStock
    kind.given = spec["given"]
    clock = StepClock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = kind(
            model=load(spec),
            reward_funcs=lambda completions, **_: [float(index % 3) for index, _ in enumerate(completions)],
            args=arguments(spec, folder),
            train_dataset=Dataset.from_list([{"prompt": str(n)} for n in range(len(spec["given"]["prompts"]))]),
            processing_class=load_tokenizer(Path(spec["model"])),
            callbacks=[clock],
        )
        warm_up(trainer, spec)
        positions = count_positions(trainer)
        trainer.train()
    seconds = {"rollout": trainer.seconds["rollout"], "score": trainer.seconds["score"], "step": clock.seconds}
    seconds["update"] = clock.seconds - seconds["rollout"] - seconds["score"]
    seconds["score_and_update"] = seconds["score"] + seconds["update"]
    result = {"seconds": seconds, "positions": dict(positions), "peak_memory": peak_memory()}
    if spec.get("check"):
        result |= compare_paths(trainer)
    return result


def arguments(spec: dict[str, Any], folder: str) -> GRPOConfig:
    """The reference's training arguments in the shape that is measured."""
    group, prompts = spec["group"], len(spec["given"]["prompts"])
    longest = max(len(row) for rows in spec["given"]["completions"] for row in rows)
    return GRPOConfig(
        output_dir=folder,
        max_steps=1,
        num_generations=group,
        per_device_train_batch_size=spec["micro_batch"],
        gradient_accumulation_steps=group * prompts // spec["micro_batch"],
        max_completion_length=max(192, longest),
        learning_rate=3e-6,
        beta=0.02,
        entropy_coef=0.01,
        bf16=False,
        gradient_checkpointing=spec["checkpointing"],
        use_cpu=spec["device"] == "cpu",
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        shuffle_dataset=False,
        dataloader_pin_memory=False,
        seed=42,
    )


def load(spec: dict[str, Any]) -> PreTrainedModel:
    """The policy in the dtype that is measured."""
    model: Any = AutoModelForCausalLM.from_pretrained(spec["model"], dtype=getattr(torch, spec["dtype"]))
    placed: PreTrainedModel = model.to(spec["device"])
    return placed


def warm_up(trainer: Any, spec: dict[str, Any]) -> None:
    """What a run does once and a step does not: thread pools, the optimiser's state, the trial of the tree, and memory
    that the process is given for the first time (a second or more for each GiB on a virtual machine)."""
    model = trainer.model
    rows = first_micro_batch(trainer, spec)
    ids, mask = (torch.cat([rows[f"prompt_{kind}"], rows[f"completion_{kind}"]], dim=1) for kind in ("ids", "mask"))
    width = rows["completion_ids"].shape[1]
    logs, *_ = trainer._get_per_token_logps_and_entropies(model, ids, mask, width, compute_entropy=True)
    logs.sum().backward()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser = trainer.create_optimizer()
    optimiser.step()  # without a gradient and without decay nothing moves
    model.zero_grad(set_to_none=True)
    if isinstance(trainer, PrefixTreeTrainer):
        trainer.tokens_computed.clear()
        if trainer.ref_model is not None:
            trainer._refusal(trainer.ref_model)
    trainer.seconds.clear()


def first_micro_batch(trainer: Any, spec: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The first of the given sequences that the trainer takes through an update at once, padded as TRL pads them."""
    given, pad = spec["given"], trainer.processing_class.pad_token_id
    pairs = [(p, row) for p, rows in zip(given["prompts"], given["completions"], strict=True) for row in rows]
    inputs = {}
    for name, side, sequences in (
        ("prompt", "left", [p for p, _ in pairs]),
        ("completion", "right", [c for _, c in pairs]),
    ):
        for kind, filling in (("ids", pad), ("mask", 0)):
            held = [
                torch.tensor(row if kind == "ids" else [1] * len(row), device=trainer.model.device) for row in sequences
            ]
            inputs[f"{name}_{kind}"] = pad_sequence(held, batch_first=True, padding_value=filling, padding_side=side)
    if isinstance(trainer, PrefixTreeTrainer):
        return trainer._parts(inputs)[0]
    return {name: value[: spec["micro_batch"]] for name, value in inputs.items()}


def count_positions(trainer: Any) -> Counter[str]:
    """Counts every token position, padding included, that goes through the policy or the reference policy."""
    positions: Counter[str] = Counter()

    def count(_: Any, __: Any, options: dict[str, Any]) -> None:
        phase = "update" if torch.is_grad_enabled() else ("rollout" if "rollout" not in trainer.seconds else "score")
        positions[phase] += options["input_ids"].numel()

    for model in (trainer.model, trainer.ref_model):
        if model is not None:
            model.base_model.register_forward_pre_hook(count, with_kwargs=True)
    return positions


def compare_paths(trainer: Any) -> dict[str, float]:
    """Largest difference of log-probabilities, and relative error of a gradient, between the tree and TRL's path.

    Over one group of the step's completions: a random combination of log-probabilities and entropies.
    """
    inputs = {name: value for name, value in trainer._prepared.items() if isinstance(value, torch.Tensor)}
    rows = slice(0, trainer.num_generations)
    ids = torch.cat([inputs["prompt_ids"][rows], inputs["completion_ids"][rows]], dim=1)
    mask = torch.cat([inputs["prompt_mask"][rows], inputs["completion_mask"][rows]], dim=1)
    width = inputs["completion_ids"].shape[1]
    weights = torch.randn(2, *inputs["completion_ids"][rows].shape, device=ids.device)
    kept = mask[:, -width:]
    values: list[torch.Tensor] = []
    gradients: list[dict[str, torch.Tensor]] = []
    for method in (GRPOTrainer, PrefixTreeTrainer):
        trainer.model.zero_grad(set_to_none=True)
        scored: Any = method._get_per_token_logps_and_entropies(
            trainer, trainer.model, ids, mask, width, compute_entropy=True
        )
        logs, entropies, _ = scored
        ((logs * weights[0] + entropies * weights[1]) * kept).sum().backward()
        values.append(logs.detach().float() * kept)
        gradients.append({name: p.grad.float() for name, p in trainer.model.named_parameters() if p.grad is not None})
    stock, tree = gradients
    difference = sum(float((stock[name] - tree[name]).square().sum()) for name in stock)
    return {
        "logprob_max_error": float((values[0] - values[1]).abs().max()),
        "gradient_relative_error": (difference / sum(float(g.square().sum()) for g in stock.values())) ** 0.5,
    }


def peak_memory() -> int:
    """Bytes: of the accelerator where there is one, else the most that this process ever held."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * KIBIBYTE  # bytes on macOS, kibibytes elsewhere


def timed_evaluation(spec: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a greedy answer to every prompt: in batches of 4 through ``generate``, or on the tree at once."""
    model = load(spec).eval()
    tokenizer = load_tokenizer(Path(spec["model"]))
    prompts, longest = spec["given"]["prompts"], spec["max_new_tokens"]
    if spec["kind"] == "evenhand":
        install(model)
    start = now()
    if spec["kind"] == "evenhand":
        texts = generate_greedy(model, prompts, longest, [tokenizer.eos_token_id])
    else:
        texts = []
        for first in range(0, len(prompts), 4):
            texts += generate(model, tokenizer, prompts[first : first + 4], longest)
    return {"seconds": {"evaluation": now() - start}, "completions": texts, "peak_memory": peak_memory()}


def generate(model: Any, tokenizer: Any, prompts: list[list[int]], longest: int) -> list[list[int]]:
    """Greedy completions of one padded batch, cut after the end token."""
    batch = tokenizer.pad({"input_ids": prompts}, padding_side="left", return_tensors="pt").to(model.device)
    end = tokenizer.eos_token_id
    with torch.no_grad():
        output = model.generate(
            **batch, do_sample=False, max_new_tokens=longest, eos_token_id=end, pad_token_id=tokenizer.pad_token_id
        )
    rows = output[:, batch["input_ids"].shape[1] :].tolist()
    return [row[: row.index(end) + 1] if end in row else row for row in rows]


def main(spec_path: str, result_path: str) -> None:
    """Read a specification, measure, write the result."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    spec = json.loads(Path(spec_path).read_text(encoding="utf-8"))
    torch.manual_seed(spec.get("seed", 0))
    result = timed_evaluation(spec) if spec["phase"] == "evaluation" else timed_step(spec)
    Path(result_path).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
