"""Folders: a run folder of Evenhand, a trainer's output folder, a single checkpoint."""

import json
import struct
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.diagnosis.history import HELD_OUT, History, Series, Weights
from evenhand.diagnosis.readers.document import history_from_document
from evenhand.diagnosis.readers.rows import by_step, history_from_rows
from evenhand.errors import LogError
from evenhand.records import Evaluation
from evenhand.runfolder import CHECKPOINT_PREFIX, RunFolder
from evenhand.tasks import TASKS

LONGEST_HEADER = 100_000_000  # safetensors' own limit
COLD_START = "cold start"
COLD_START_KEYS = ("loss", "grad_norm", "learning_rate", "examples", "step_time", "epoch")


def history_from_folder(folder: Path) -> History:
    """The richest log that a folder holds.

    Raises:
        LogError: it holds none.
    """
    if (folder / "metrics.jsonl").is_file():
        return from_run(folder)
    checkpoints = numbered(folder)
    state = folder / "trainer_state.json"
    if not state.is_file() and checkpoints:
        state = checkpoints[max(checkpoints)] / "trainer_state.json"
    if not state.is_file():
        state = next(iter(sorted(folder.glob("*.jsonl"))), state)
    if not state.is_file():
        raise LogError(
            f"{folder} holds no log: no metrics.jsonl, trainer_state.json or checkpoint.",
            "Name the folder of a run or a checkpoint, or a log file.",
        )
    try:
        text = state.read_text(encoding="utf-8")
        if state.suffix == ".jsonl":
            rows = [json.loads(line) for line in text.splitlines() if line.strip()]
            return history_from_rows(rows, str(state), "JSON lines")
        document = json.loads(text)
    except (ValueError, OSError) as error:
        raise LogError(
            f"{state} cannot be read: {error}.", "Was the run killed while it saved? Take an earlier one."
        ) from error
    weights = [census(path, path.name) for _, path in sorted(checkpoints.items())] or [census(folder, folder.name)]
    declared = declared_dtype(folder if not checkpoints else checkpoints[max(checkpoints)])
    kept = tuple(sorted(checkpoints)) or tuple(sorted(numbered(folder.parent)))
    known = [one for one in [declared, *weights] if one is not None]
    return history_from_document(document, str(state), checkpoints=kept, weights=tuple(known))


def from_run(folder: Path) -> History:
    """A run folder; whatever is missing or cut short in it is unknown."""
    run = RunFolder(folder)
    if run.kind == "coldstart":
        raise LogError(
            f"{folder} is a cold start: it was supervised, so there are no rewards to judge.",
            "See it with evenhand watch or evenhand report; diagnose the run that goes on from its model.",
        )
    rows = list(run.rows("metrics.jsonl"))
    evaluations = tuple({one.step: one for one in run.evaluations() if one.split != "control"}.values())
    if not rows:
        raise LogError(
            f"{folder} has no rows yet: metrics.jsonl is empty.",
            "Wait for the first step, or look with evenhand watch.",
        )
    return history_from_rows(
        rows,
        str(folder),
        "run folder",
        settings=run_settings(run, folder),
        checkpoints=tuple(checkpoint.step for checkpoint in run.checkpoints()),
        evaluations=tuple(sorted(evaluations, key=lambda one: one.step)),
        series=evaluation_series(evaluations),
        weights=run_weights(run),
    )


def from_cold_start(folder: Path) -> History:
    """What a cold start logged, to be shown; no rule of GRPO reads it."""
    run = RunFolder(folder)
    rows = [row for row in run.metrics() if "loss" in row.values]
    steps = np.array([row.step for row in rows], dtype=float)
    columns = {
        name: [value if isinstance(value := row.values.get(name), int | float) else np.nan for row in rows]
        for name in COLD_START_KEYS
    }
    environment = run.read_json("environment.json")
    device = environment.get("device") if isinstance(environment, dict) else None
    task = run_settings(run, folder).get("task")
    return History(
        source=str(folder),
        kind=COLD_START,
        series={name: by_step(steps, np.array(values, dtype=float)) for name, values in columns.items() if len(rows)},
        steps=steps,
        evaluations=tuple({one.step: one for one in run.evaluations() if one.split != "control"}.values()),
        settings={"task": task, "device": device},
    )


def run_settings(run: RunFolder, folder: Path) -> dict[str, Any]:
    """TRL's settings, the device, and what the task's reward and goal are, from the resolved configuration."""
    try:
        config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = {}
    train, environment = config.get("train"), run.read_json("environment.json")
    arguments = run.read_json("trainer_arguments.json")  # of a script that brought its own trainer
    settings: dict[str, Any] = dict(arguments) if isinstance(arguments, dict) else {}
    settings |= train if isinstance(train, dict) else {}
    known = environment if isinstance(environment, dict) else {}
    settings["device"] = known.get("device") or config.get("device")
    settings["num_processes"] = known.get("processes", 1)
    return {**task_settings(config.get("task"), settings), **settings}


def task_settings(name: Any, train: Mapping[str, Any]) -> dict[str, Any]:
    """What the task says of itself: the highest reward, its goal, how many problems there are to train on."""
    task = next((one for one in TASKS if one.name == name), None)
    if task is None:
        return {}
    weights = train.get("reward_weights") or [reward.weight for reward in task.rewards]
    paired = zip(weights, task.rewards, strict=False)
    goal = next((reward.name for reward in task.rewards if reward.name in task.goal), None)
    return {
        "task": task.name,
        "reward_max": sum(float(weight) * reward.high for weight, reward in paired),
        "goal_reward": goal,
        "goal_metric": task.goal,
        "num_train_prompts": task.splits["train"].size,
    }


def evaluation_series(evaluations: tuple[Evaluation, ...]) -> dict[str, Series]:
    """One series per metric of the evaluations."""
    found: dict[str, Series] = {}
    for name in {name for one in evaluations for name in one.metrics}:
        pairs = [(one.step, one.metrics[name]) for one in evaluations if name in one.metrics]
        steps, values = np.array(pairs, dtype=float).T
        found[HELD_OUT + name] = by_step(steps, values)
    return found


def run_weights(run: RunFolder) -> tuple[Weights, ...]:
    """Dtypes of the model in memory, then of every kept checkpoint; nothing where the first is not known."""
    model = weights_in_memory(run.read_json("precision.json"))
    saved = [census(checkpoint.path, checkpoint.path.name) for checkpoint in run.checkpoints()]
    return tuple(one for one in [model, *saved] if one is not None) if model is not None else ()


def weights_in_memory(groups: Any) -> Weights | None:
    """The census that a run wrote of its own model: rows of a group's name and its elements by dtype."""
    body: Counter[str] = Counter()
    norms: Counter[str] = Counter()
    for group in groups if isinstance(groups, list) else []:
        held = group.get("dtypes") if isinstance(group, dict) else None
        if isinstance(held, dict):
            counts = {short_dtype(name): count for name, count in held.items() if isinstance(count, int)}
            (norms if group.get("name") == "norms" else body).update(counts)
    return Weights("the model in memory", dict(body), dict(norms)) if body else None


def short_dtype(name: str) -> str:
    """``torch.bfloat16`` and ``bfloat16`` as safetensors write it: BF16."""
    plain = str(name).removeprefix("torch.")
    return {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "float64": "F64"}.get(plain, plain.upper())


def census(folder: Path, label: str) -> Weights | None:
    """Elements by dtype in a checkpoint's safetensors files, from their headers alone; None where there are none."""
    body: Counter[str] = Counter()
    norms: Counter[str] = Counter()
    for path in sorted(folder.glob("*.safetensors")):
        for name, entry in header(path).items():
            if isinstance(entry, dict) and "dtype" in entry and str(entry["dtype"]).startswith(("F", "BF")):
                target = norms if "norm" in name else body
                target[entry["dtype"]] += int(np.prod(entry.get("shape", [0]), dtype=np.int64))
    return Weights(label, dict(body), dict(norms)) if body or norms else None


def header(path: Path) -> dict[str, Any]:
    """The JSON header of a safetensors file: eight bytes of length, then the text. Empty where it does not read."""
    try:
        with path.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            found = json.loads(stream.read(length)) if length < LONGEST_HEADER else {}
    except (OSError, ValueError, struct.error):
        return {}
    return found if isinstance(found, dict) else {}


def declared_dtype(folder: Path) -> Weights | None:
    """The dtype that ``config.json`` says the model has. Norms may differ by intent, so nothing is said of them."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    named = config.get("dtype", config.get("torch_dtype")) if isinstance(config, dict) else None
    return Weights("config.json", {short_dtype(named): 1}) if isinstance(named, str) else None


def numbered(folder: Path) -> dict[int, Path]:
    """Checkpoint folders by step."""
    found = {}
    for path in folder.glob(f"{CHECKPOINT_PREFIX}*"):
        number = path.name.removeprefix(CHECKPOINT_PREFIX)
        if number.isdigit() and path.is_dir():
            found[int(number)] = path
    return found
