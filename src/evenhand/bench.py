"""Stock TRL and Evenhand side by side on the same prompts and completions, in turn, each in a process of its own."""

import dataclasses
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerBase

from evenhand.errors import ConfigurationError, RunStopped
from evenhand.evaluation import prompt_token_ids
from evenhand.models import resolve
from evenhand.models.device import usable_device
from evenhand.models.loading import load_tokenizer
from evenhand.prefixtree import Limits, PrefixTree, Sampling, install, roll_out
from evenhand.records import Problem
from evenhand.tasks import task_named

PHASES = ("rollout", "score", "update", "score_and_update", "step")
KINDS = ("stock", "evenhand")
TASK = "stepwise-parity"
EVALUATED = 50
# Of a made-up prompt, the share that all prompts have in common, as the system prompt of the task is.
COMMON_SHARE = 0.65


@dataclass(frozen=True, slots=True)
class Shape:
    """What is measured. The defaults are the reference's step.

    Attributes:
        model: A known model or a directory.
        dtype: ``float32`` or ``bfloat16``.
        device: ``auto``, ``cpu`` or ``cuda``.
        completions: ``recorded`` (sampled by the embedded model and written in this model's tokens) or ``made``.
        overlap: Of made completions, the share that a group has in common; 0: distinct from the first token.
        prompts: Prompts of a step.
        group: Completions of a prompt.
        micro_batch: Completions of a micro-batch, as the user writes it.
        prompt_length: Tokens of a made-up prompt; None: the task's prompts.
        completion_length: Tokens of a made completion; None: as long as recorded ones.
        checkpointing: Gradient checkpointing in both, as the reference has it.
        checkpointing_stock_only: Gradient checkpointing in TRL's step alone.
    """

    model: str = "smollm2-135m"
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: str = "auto"
    completions: Literal["recorded", "made"] = "recorded"
    overlap: float = 0.0
    prompts: int = 4
    group: int = 8
    micro_batch: int = 8
    prompt_length: int | None = None
    completion_length: int | None = None
    checkpointing: bool = False
    checkpointing_stock_only: bool = False

    @classmethod
    def of(cls, changes: Mapping[str, Any]) -> "Shape":
        """The reference's shape with changes.

        Raises:
            ConfigurationError: an unknown field, a value that cannot be, or micro-batches that do not divide the step.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        if unknown := sorted(set(changes) - set(known)):
            raise ConfigurationError(f"bench has no setting '{unknown[0]}'.", f"Settings: {', '.join(known)}.")
        shape = cls(**changes)
        if shape.dtype not in ("float32", "bfloat16") or shape.completions not in ("recorded", "made"):
            raise ConfigurationError(
                f"dtype {shape.dtype} or completions {shape.completions} is not known.",
                "dtype is float32 or bfloat16; completions are recorded or made.",
            )
        counts = (
            shape.prompts,
            shape.group - 1,
            shape.micro_batch,
            shape.completion_length or 1,
            shape.prompt_length or 1,
        )
        if not all(isinstance(count, int) and count > 0 for count in counts) or not 0 <= shape.overlap <= 1:
            raise ConfigurationError("A count of the shape is too small.", "Groups need 2 completions, all else 1.")
        if shape.prompts * shape.group % shape.micro_batch:
            raise ConfigurationError(
                f"{shape.prompts * shape.group} completions do not divide into micro-batches of {shape.micro_batch}.",
                "Choose a micro_batch that divides prompts × group.",
            )
        return shape


def bench(shape: Shape, pairs: int, evaluation: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Medians over ``pairs`` of runs (stock, Evenhand, stock, Evenhand …), their ratios, and how far results agree.

    Raises:
        EvenhandError: the model is not there, the device is not usable, or a measured process failed.
    """
    given = prepare(shape)
    spec = {
        "phase": "step",
        "model": str(resolve(shape.model)),
        "dtype": shape.dtype,
        "device": usable_device(shape.device).type,
        "group": shape.group,
        "micro_batch": shape.micro_batch,
        "given": given,
    }
    runs = in_turn(spec, shape, pairs, say)
    stock, tree = ({**medians(runs[kind]), "positions": runs[kind][0]["positions"]} for kind in KINDS)
    result = {
        "model": shape.model,
        "dtype": shape.dtype,
        "shape": {**asdict(shape), "pairs": pairs, "device": spec["device"], **sizes(given)},
        "stock": stock,
        "evenhand": tree,
        "ratio": ratios(runs),
        "ratios_of_pairs": [
            round(one["seconds"]["step"] / other["seconds"]["step"], 3)
            for one, other in zip(runs["stock"], runs["evenhand"], strict=True)
        ],
        "gradient_relative_error": runs["evenhand"][0]["gradient_relative_error"],
        "logprob_max_error": runs["evenhand"][0]["logprob_max_error"],
    }
    if evaluation:
        result["evaluation"] = bench_evaluation(spec, pairs, say)
    return result


def in_turn(
    spec: dict[str, Any], shape: Shape, pairs: int, say: Callable[[str], None]
) -> dict[str, list[dict[str, Any]]]:
    """The runs of both kinds; the first of Evenhand's also compares its values with TRL's path."""
    runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for pair in range(pairs):
        for kind in KINDS:
            checkpointing = shape.checkpointing or (shape.checkpointing_stock_only and kind == "stock")
            check = kind == "evenhand" and pair == 0
            runs[kind].append(measure({**spec, "kind": kind, "checkpointing": checkpointing, "check": check}))
            seconds = runs[kind][-1]["seconds"]["step"]
            say(f"pair {pair + 1}/{pairs}, {kind}: a step of {seconds:.2f} s")
    return runs


def measure(spec: Mapping[str, Any]) -> dict[str, Any]:
    """One run in a process of its own.

    Raises:
        RunStopped: it failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "spec.json", Path(folder) / "result.json"
        asked.write_text(json.dumps(spec), encoding="utf-8")
        command = [sys.executable, "-m", "evenhand.training.timed", str(asked), str(answered)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not answered.exists():
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise RunStopped(f"The measured step of {spec['kind']} failed: {lines[-1]}", "Try a smaller shape: --set")
        result: dict[str, Any] = json.loads(answered.read_text(encoding="utf-8"))
        return result


def medians(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds of each phase and peak bytes, the median of the runs."""
    seconds = {phase: statistics.median(run["seconds"][phase] for run in runs) for phase in runs[0]["seconds"]}
    return {**seconds, "peak_memory": statistics.median(run["peak_memory"] for run in runs)}


def ratios(runs: Mapping[str, list[dict[str, Any]]]) -> dict[str, float]:
    """Stock divided by Evenhand, the median of the pairs: what disturbs the machine for a while disturbs few."""
    pairs = [tuple(medians([run]) for run in pair) for pair in zip(runs["stock"], runs["evenhand"], strict=True)]
    return {
        name: round(statistics.median(stock[name] / tree[name] for stock, tree in pairs), 3)
        for name in (*PHASES, "peak_memory")
    }


def bench_evaluation(spec: Mapping[str, Any], pairs: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Greedy answers to the dev problems: batches of 4 through ``generate`` against the tree."""
    tokenizer = load_tokenizer(Path(spec["model"]))
    prompts = [prompt_token_ids(tokenizer, problem) for problem in problems("dev", EVALUATED)]
    longest = task_named(TASK).max_completion_length
    asked = {**spec, "phase": "evaluation", "given": {"prompts": prompts}, "max_new_tokens": longest}
    runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for pair in range(pairs):
        for kind in KINDS:
            runs[kind].append(measure({**asked, "kind": kind}))
            say(f"pair {pair + 1}/{pairs}, {kind}: an evaluation of {runs[kind][-1]['seconds']['evaluation']:.2f} s")
    stock, tree = (medians(runs[kind]) for kind in KINDS)
    same = zip(runs["stock"][0]["completions"], runs["evenhand"][0]["completions"], strict=True)
    return {
        "problems": len(prompts),
        "stock": stock,
        "evenhand": tree,
        "ratio": round(stock["evaluation"] / tree["evaluation"], 3),
        "equal_completions": sum(one == other for one, other in same),
    }


def prepare(shape: Shape) -> dict[str, Any]:
    """Token ids of prompts and of each prompt's completions."""
    tokenizer = load_tokenizer(resolve(shape.model))
    generator = random.Random(0)
    asked = problems("train", shape.prompts)
    if shape.prompt_length is None:
        prompts = [prompt_token_ids(tokenizer, problem) for problem in asked]
    else:
        prompts = made_prompts(shape.prompts, shape.prompt_length, len(tokenizer), generator)
    if shape.completions == "recorded":
        completions = recorded_completions(asked, shape.group, tokenizer)
    else:
        length = shape.completion_length or len(recorded_completions(asked[:1], 1, tokenizer)[0][0])
        completions = [made_completions(shape, length, tokenizer, generator) for _ in prompts]
    return {"prompts": prompts, "completions": completions}


def problems(split: str, count: int) -> list[Problem]:
    """The first problems of a split of the task."""
    task = task_named(TASK)
    return [task.problem(index, columns) for index, columns in enumerate(task.draw(split)[:count])]


def recorded_completions(asked: list[Problem], group: int, tokenizer: PreTrainedTokenizerBase) -> list[list[list[int]]]:
    """What the embedded model answers at temperature 1, in another tokenizer's tokens, each with an end token."""
    directory = resolve("embedded")
    own = load_tokenizer(directory)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    install(model)
    prompts = [prompt_token_ids(own, problem) for problem in asked for _ in range(group)]
    limits = Limits(task_named(TASK).max_completion_length, frozenset([int(str(own.eos_token_id))]))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sampled = roll_out(model, prompts, limits, Sampling()).completions
    texts = own.batch_decode(sampled, skip_special_tokens=True)
    ids = [[*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id] for text in texts]
    return [ids[start : start + group] for start in range(0, len(ids), group)]


def made_prompts(count: int, length: int, vocabulary: int, generator: random.Random) -> list[list[int]]:
    """Random prompts with a common beginning."""
    common = [generator.randrange(vocabulary) for _ in range(int(length * COMMON_SHARE))]
    return [common + [generator.randrange(vocabulary) for _ in range(length - len(common))] for _ in range(count)]


def made_completions(
    shape: Shape, length: int, tokenizer: PreTrainedTokenizerBase, generator: random.Random
) -> list[list[int]]:
    """Random completions of a group that agree for ``overlap`` of their length and then part, an end token last."""
    ordinary = sorted(set(range(len(tokenizer))) - set(tokenizer.all_special_ids))
    common = [generator.choice(ordinary) for _ in range(round(shape.overlap * (length - 1)))]
    rest = length - 1 - len(common)
    first = generator.sample(ordinary, shape.group)  # so that they part at once
    own = [[token, *(generator.choice(ordinary) for _ in range(rest - 1))] if rest else [] for token in first]
    return [[*common, *tail, int(str(tokenizer.eos_token_id))] for tail in own]


def sizes(given: Mapping[str, Any]) -> dict[str, int]:
    """Positions of a step's sequences, and how many of them are distinct over the whole step and group by group."""
    groups = [[prompt + c for c in rows] for prompt, rows in zip(given["prompts"], given["completions"], strict=True)]
    everything = [sequence for group in groups for sequence in group]
    return {
        "positions": sum(map(len, everything)),
        "distinct_positions": len(PrefixTree.of(everything)),
        "distinct_positions_by_group": sum(len(PrefixTree.of(group)) for group in groups),
    }
