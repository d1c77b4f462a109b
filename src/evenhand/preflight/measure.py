"""Look at what only PyTorch can tell: the machine, the loaded model, and what the fresh model writes."""

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import torch
from safetensors import safe_open
from transformers import GenerationConfig

from evenhand import environment
from evenhand.config import RunConfig
from evenhand.evaluation import evaluating
from evenhand.models.device import device_state, usable_device
from evenhand.models.loading import Loaded, load, weight_files
from evenhand.models.precision import census, parameter_group
from evenhand.prefixtree import differs, refusal, roll_out
from evenhand.preflight.device_trial import try_device
from evenhand.preflight.question import Question
from evenhand.preflight.reward_study import RewardStudy, mean_of, spread
from evenhand.preflight.setup import Machine, Model, Sample, Samples, Unusable
from evenhand.tasks import Task
from evenhand.training.generation import Decoding, read_generation

LONGEST_TRIED = 64  # the longest texts by characters, of which the longest in tokens is one
SMALL_MODEL = 20_000_000  # parameters up to which sampling is cheap even on a processor
GROUPS_OF_SMALL, GROUPS_OF_LARGE = 16, 8


def measure_machine(config: RunConfig) -> Machine:
    """Device, memory, disk and versions; on MPS also whether it survives a small model."""
    states = {name: device_state(name) for name in ("cuda", "mps")}
    unusable = {s.device: Unusable(s.cause, s.reason, s.remedy) for s in states.values() if not s.usable}
    device = config.device if config.device != "auto" else usable_device("auto").type
    if device in unusable:
        device = "cpu"
    return Machine(
        device=device,
        asked=config.device,
        unusable=unusable,
        bf16=trains_in_bf16(device),
        memory=free_memory(device),
        disk=free_disk(config.runs),
        versions=environment.versions(),
        crash=try_device(device) if device == "mps" else None,
    )


def trains_in_bf16(device: str) -> bool:
    """Whether BF16 autocast works there: PyTorch's own word for CUDA, a small real step for the others."""
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    try:
        layer = torch.nn.Linear(4, 4, device=device)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = layer(torch.ones(2, 4, device=device)).sum()
        loss.backward()
    except RuntimeError:
        return False
    gradient = layer.weight.grad
    return gradient is not None and bool(torch.isfinite(gradient).all())


def free_memory(device: str) -> int:
    """Bytes that a run may take; on MPS memory is the machine's."""
    if device == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    return int(psutil.virtual_memory().available)


def free_disk(folder: Path) -> int:
    """Free bytes where the run folder will lie."""
    there = next((path for path in (folder, *folder.absolute().parents) if path.exists()), Path())
    return shutil.disk_usage(there).free


# -- the model -------------------------------------------------------------------------------------------------------


def load_fresh(config: RunConfig, directory: Path, machine: Machine) -> Loaded:
    """The model as the run will load it. Raises ModelError or DeviceError."""
    return load(directory, config.precision, torch.device(machine.device))


def measure_model(loaded: Loaded, config: RunConfig, questions: Sequence[Question]) -> Model:
    """Dtypes, sizes, token roles and lengths of the loaded model."""
    model: Any = loaded.model
    tokenizer: Any = loaded.tokenizer
    text_config = model.config.get_text_config()
    heads = getattr(text_config, "num_key_value_heads", None) or text_config.num_attention_heads
    head_width = getattr(text_config, "head_dim", None) or text_config.hidden_size // text_config.num_attention_heads
    return Model(
        name=config.model,
        dtypes={group.name: dict(group.dtypes) for group in census(model)},
        planned={
            group.name: config.precision.norms if group.name == "norms" else config.precision.body
            for group in census(model)
        },
        layers=text_config.num_hidden_layers,
        width=text_config.hidden_size,
        heads_width=2 * heads * head_width,
        vocabulary=text_config.vocab_size,
        context=getattr(text_config, "max_position_embeddings", None),
        prompt_tokens=longest_prompt(tokenizer, questions, template_arguments(config)),
        gold_tokens=longest_gold(tokenizer, questions),
        pad=tokenizer.pad_token_id,
        end=tokenizer.eos_token_id,
        template=tokenizer.chat_template or "",
        generation_defaults=model.generation_config.to_diff_dict() if model.generation_config else {},
        adapter=(loaded.directory / "adapter_config.json").is_file(),
        unequal=unequal_tensors(loaded),
        trained=marks_of_training(model),
    )


def template_arguments(config: RunConfig) -> dict[str, Any]:
    """What the chat template is given: thinking off unless the configuration says otherwise."""
    return {"enable_thinking": False, **(config.train.get("chat_template_kwargs") or {})}


def longest_prompt(tokenizer: Any, questions: Sequence[Question], arguments: Mapping[str, Any]) -> int:
    """Tokens of the longest prompt after the chat template."""
    longest = sorted(questions, key=lambda question: -len(question.whole))[:LONGEST_TRIED]
    return max((len(prompt_ids(tokenizer, question, arguments)) for question in longest), default=0)


def longest_gold(tokenizer: Any, questions: Sequence[Question]) -> int | None:
    """Tokens of the longest gold text and its end, or None where no gold is known."""
    golds = sorted((question.gold for question in questions if question.gold is not None), key=lambda text: -len(text))
    # a text with fewer characters may have more tokens, so many of the longest are looked at
    encoded = tokenizer(golds[: 16 * LONGEST_TRIED], add_special_tokens=False)["input_ids"] if golds else []
    return max(map(len, encoded)) + 1 if encoded else None


def prompt_ids(tokenizer: Any, question: Question, arguments: Mapping[str, Any]) -> list[int]:
    """A prompt's tokens as the trainer makes them."""
    if isinstance(question.prompt, str):
        ids: list[int] = tokenizer(question.prompt)["input_ids"]
        return ids
    messages = [dict(message) for message in question.prompt]
    written = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True, **arguments
    )
    return list(written["input_ids"])


def unequal_tensors(loaded: Loaded) -> tuple[str, ...]:
    """Names of parameters whose values are not those of the file on disk, at the parameter's dtype."""
    parameters = dict(loaded.model.named_parameters())
    unequal = []
    for path in weight_files(loaded.directory):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - no mapping
                if name in parameters:
                    here = parameters[name].detach()
                    if not torch.equal(file.get_tensor(name).to(here.dtype), here.cpu()):
                        unequal.append(name)
    return tuple(unequal)


def marks_of_training(model: torch.nn.Module) -> str:
    """Why this model object was trained before, or nothing."""
    held = [name for name, weights in model.named_parameters() if weights.grad is not None]
    return f"{len(held)} of its tensors hold gradients, first {held[0]}" if held else ""


# -- sampling --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sampler:
    """The fresh model, and how the trainer would sample from it."""

    loaded: Loaded
    generation: Mapping[str, Any]
    template: Mapping[str, Any]
    group_size: int
    on_tree: bool

    def complete(self, questions: Sequence[Question]) -> list[list[int]]:
        """Token ids of a group of completions for each question, up to and including the end token."""
        tokenizer: Any = self.loaded.tokenizer
        model: Any = self.loaded.model
        prompts = [prompt_ids(tokenizer, question, self.template) for question in questions]
        repeated = [prompt for prompt in prompts for _ in range(self.group_size)]
        asked = GenerationConfig(**self.generation)
        decoding = self.decoding_on_the_tree(asked)
        with evaluating(model):
            if decoding is not None:
                return roll_out(model, repeated, decoding.limits, decoding.sampling).completions
            batch = tokenizer.pad({"input_ids": repeated}, padding_side="left", return_tensors="pt").to(model.device)
            written = model.generate(**batch, generation_config=asked)
        completions = written[:, batch["input_ids"].shape[1] :].tolist()
        return [until_end(ids, tokenizer.eos_token_id) for ids in completions]

    def decoding_on_the_tree(self, asked: GenerationConfig) -> Decoding | None:
        """How the prefix tree would sample, or None where it must be the plain path."""
        model: Any = self.loaded.model
        if not self.on_tree or refusal(model) or differs(model):
            return None
        decoding = read_generation(asked, model)
        return None if isinstance(decoding, str) else decoding


def until_end(ids: list[int], end: int) -> list[int]:
    """The tokens up to and including the first end token."""
    return ids[: ids.index(end) + 1] if end in ids else ids


def sampler_of(loaded: Loaded, config: RunConfig, train: Mapping[str, Any]) -> Sampler:
    """TRL's generation settings: trl/trainer/grpo_trainer.py, ``generation_kwargs``."""
    tokenizer: Any = loaded.tokenizer
    names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
    generation = {
        "max_new_tokens": int(train["max_completion_length"]),
        "do_sample": True,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        **{name: train[name] for name in names if train.get(name) is not None},
        **(train.get("generation_kwargs") or {}),
    }
    group_size = max(int(train["num_generations"]), 2)
    return Sampler(loaded, generation, template_arguments(config), group_size, config.engine == "prefix-tree")


def measure_samples(sampler: Sampler, study: RewardStudy, task: Task, seed: int) -> Samples:
    """A few groups of the fresh model, scored. The caller keeps the random state."""
    parameters = sum(weights.numel() for weights in sampler.loaded.model.parameters())
    questions = spread(study.questions, GROUPS_OF_SMALL if parameters < SMALL_MODEL else GROUPS_OF_LARGE)
    torch.manual_seed(seed)
    start = time.perf_counter()
    completions = sampler.complete(questions)
    seconds = time.perf_counter() - start
    tokenizer: Any = sampler.loaded.tokenizer
    texts = tokenizer.batch_decode(completions, skip_special_tokens=True)
    asked = [question for question in questions for _ in range(sampler.group_size)]
    rewards = study.totals(asked, texts)
    samples = [
        Sample(
            group=place // sampler.group_size,
            text=text,
            tokens=len(ids),
            ended=ids[-1:] == [tokenizer.eos_token_id],
            reward=reward,
            metrics=task.score(question.columns, text).metrics,
        )
        for place, (question, text, ids, reward) in enumerate(zip(asked, texts, completions, rewards, strict=True))
    ]
    limit = int(sampler.generation["max_new_tokens"])
    return Samples(tuple(samples), limit, seconds, mean_of(study.gold), study.floor, success=task.goal)


def norm_sizes(loaded: Loaded) -> tuple[float, float, float]:
    """10 %, 50 % and 90 % of the sizes of the norm weights: near 1 they do not move in BF16."""
    named = loaded.model.named_parameters()
    norms = [weights.detach().abs().float().reshape(-1) for name, weights in named if parameter_group(name) == "norms"]
    if not norms:
        return (0.0, 0.0, 0.0)
    low, middle, high = torch.quantile(torch.cat(norms)[:1_000_000], torch.tensor([0.1, 0.5, 0.9])).tolist()
    return low, middle, high
