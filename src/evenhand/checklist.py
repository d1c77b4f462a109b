"""What to look at when a run does not improve or looks odd: seven steps, each answered from its run folder.

A step that the folder cannot answer says why, and what would.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from evenhand.diagnosis.history import History
from evenhand.diagnosis.readers import read_history
from evenhand.diagnosis.rules.steps_explained import prompts_per_step
from evenhand.diagnosis.signals import recent, uniform_share
from evenhand.runfolder import RunFolder
from evenhand.tasks import TASKS, Task

Status = Literal["fine", "look", "wrong", "unanswerable"]
PROBE_CODE = "updates-swallowed"


@dataclass(frozen=True, slots=True)
class Answer:
    """One step of the list."""

    number: int
    question: str
    status: Status
    answer: str

    def to_json(self) -> dict[str, Any]:
        """The field names are the keys."""
        return {"number": self.number, "question": self.question, "status": self.status, "answer": self.answer}


@dataclass(frozen=True, slots=True)
class Run:
    """What the answers are drawn from."""

    folder: RunFolder
    history: History
    task: Task | None


def checklist(path: Path) -> list[Answer]:
    """The seven answers about a run folder.

    Raises:
        RunFolderError: no run folder.
        LogError: it has no rows yet.
    """
    folder = RunFolder.open(path)
    history = read_history(path)
    run = Run(folder, history, next((task for task in TASKS if task.name == history.settings.get("task")), None))
    steps: tuple[tuple[str, Callable[[Run], tuple[Status, str]]], ...] = (
        ("Is every label right?", labels),
        ("Does the fresh model have the dtypes that were asked for, and a score at step 0?", fresh_model),
        ("Do real updates move the weights, with finite gradients?", updates),
        ("How many different problems does a step see, and the run?", coverage),
        ("Do the rewards tell right from partly right?", rewards),
        ("What do several measures say together?", measures),
        ("Does this folder hold one run, whole?", wholeness),
    )
    return [Answer(number, question, *answer(run)) for number, (question, answer) in enumerate(steps, 1)]


def labels(run: Run) -> tuple[Status, str]:
    """Recompute the label of every problem that was sampled or stands in a split."""
    if run.task is None:
        return "unanswerable", f"the task {run.history.settings.get('task')} is not one that Evenhand can recompute."
    sampled = [row["columns"] for row in run.folder.completions() if isinstance(row.get("columns"), dict)]
    drawn = [columns for split in run.task.splits for columns in run.task.draw(split)]
    wrong = [columns for columns in [*drawn, *sampled] if columns and not label_right(run.task, columns)]
    if wrong:
        return "wrong", f"{len(wrong)} labels differ from the recomputed ones; the first belongs to {wrong[0]}."
    return "fine", f"{len(drawn)} problems of all splits and {len(sampled)} sampled ones recomputed, all labels agree."


def label_right(task: Task, columns: Mapping[str, Any]) -> bool:
    """Whether the stored label columns equal those worked out again."""
    try:
        return all(columns.get(key) == value for key, value in task.recompute(columns).items())
    except (KeyError, TypeError):
        return False


def fresh_model(run: Run) -> tuple[Status, str]:
    """Real dtypes by parameter group, and the whole evaluation of step 0."""
    groups = run.folder.read_json("precision.json")
    if not isinstance(groups, list):
        return "unanswerable", "precision.json is missing, so the real dtypes of this run are not known."
    held = "; ".join(f"{group.get('name')} {', '.join(group.get('dtypes', {}))}" for group in groups)
    first = next((one for one in run.history.evaluations if one.step == 0), None)
    if first is None:
        return "look", f"{held}. No evaluation of step 0 was recorded, so gains cannot be told from the start."
    scores = ", ".join(f"{name} {value:.1%}" for name, value in first.metrics.items())
    return "fine", f"{held}. Step 0 on {first.n} {first.split} problems: {scores}."


def updates(run: Run) -> tuple[Status, str]:
    """The probe's shares where preflight recorded them, and the first gradients."""
    gradient = run.history.get("grad_norm")
    first = gradient.values[:3]
    if not len(first):
        return "unanswerable", "grad_norm was not logged; evenhand probe measures updates."
    norms = ", ".join(f"{value:.3g}" for value in first)
    alive = bool(np.isfinite(first).all() and (first > 0).all())
    said = f"Gradient norms of the first rows: {norms}, {'finite and not zero' if alive else 'which is not sound'}."
    report = run.folder.read_json("preflight.json")
    found = report.get("findings", []) if isinstance(report, dict) else []
    probe = next((one for one in found if isinstance(one, dict) and one.get("code") == PROBE_CODE), None)
    if probe is None:
        return (
            "look" if alive else "wrong"
        ), f"{said} The share of entries that moves was not measured: evenhand probe"
    sound = alive and probe.get("severity") in {"ok", "note"}
    return ("fine" if sound else "wrong"), f"{said} {probe.get('message')}"


def coverage(run: Run) -> tuple[Status, str]:
    """Completions, prompts and epochs; counted in the completions as well, where they are kept."""
    prompts = prompts_per_step(run.history)
    seen = {row.get("prompt") for row in run.folder.completions()}
    counted = f" The completions kept show {len(seen)} different prompts." if seen else ""
    if prompts is None:
        return "unanswerable", f"batch, accumulation and group size are not in this folder.{counted}"
    step, size = float(run.history.steps[-1]), run.history.setting("num_train_prompts")
    through = step * prompts / (run.history.setting("num_iterations") or 1)
    epochs = f" of {size:.0f}, {through / size:.2g} epochs" if size else ""
    return "fine", f"A step sees {prompts:g} prompts; {step:.0f} steps have seen {through:.0f}{epochs}.{counted}"


def rewards(run: Run) -> tuple[Status, str]:
    """What gold and each near miss earn under this run's weights."""
    if run.task is None:
        return "unanswerable", "the task is not one of Evenhand's: evenhand preflight --rewards tests plain functions."
    weights = run.history.settings.get("reward_weights") or [reward.weight for reward in run.task.rewards]
    weighed = {reward.name: float(weight) for reward, weight in zip(run.task.rewards, weights, strict=False)}
    problems = run.task.draw("dev")[:20]
    full = [total(run.task, weighed, columns, run.task.gold(columns)) for columns in problems]
    misses: dict[str, list[float]] = {}
    for columns, gold in zip(problems, full, strict=True):
        for name, text in run.task.near_misses(columns).items():
            misses.setdefault(name, []).append(total(run.task, weighed, columns, text) - gold)
    worst = {name: max(differences) for name, differences in misses.items()}
    as_good = [name for name, difference in worst.items() if difference >= 0]
    shown = ", ".join(
        f"{name} {difference:+.2f}" for name, difference in sorted(worst.items(), key=lambda one: -one[1])
    )
    said = f"Gold earns {sum(full) / len(full):.2f}; against it: {shown}."
    return ("wrong", f"{said} These earn as much as gold: {', '.join(as_good)}.") if as_good else ("fine", said)


def total(task: Task, weights: Mapping[str, float], columns: Mapping[str, Any], text: str) -> float:
    """The weighted reward of a text."""
    return math.fsum(weights.get(name, 0.0) * value for name, value in task.score(columns, text).rewards.items())


def measures(run: Run) -> tuple[Status, str]:
    """Prediction distribution, uniform groups, gradient norm and the parts of the held-out score, side by side."""
    history = run.history
    parts = []
    if history.evaluations:
        last = history.evaluations[-1]
        most = Counter(dict(last.predictions)).most_common(4)
        parts.append(f"step {last.step}: " + ", ".join(f"{name} {value:.1%}" for name, value in last.metrics.items()))
        parts.append("answers " + ", ".join(f"{answer} ×{count}" for answer, count in most))
    uniform, gradient = recent(uniform_share(history)), recent(history.get("grad_norm"))
    if len(uniform):
        parts.append(f"uniform groups {uniform.values.mean():.0%}")
    if len(gradient):
        parts.append(f"gradient norm {gradient.values.mean():.3g}")
    if not parts:
        return "unanswerable", "neither evaluations nor group spread nor gradients were recorded."
    dead = len(uniform) > 0 and float(uniform.values.mean()) > 0.9
    return ("look" if dead else "fine"), f"{'; '.join(parts)}. What it means: evenhand diagnose {run.folder.path}"


def wholeness(run: Run) -> tuple[Status, str]:
    """One task version, a resolved configuration, hashes, and checkpoints from which the run could go on."""
    versions = {row["columns"].get("task_version") for row in run.folder.completions() if row.get("columns")} - {None}
    missing = [
        name for name in ("config.toml", "hashes.json", "trainer_state.json") if run.folder.read_text(name) is None
    ]
    kept = run.folder.checkpoints()
    bare = [one.path.name for one in kept if not any(one.path.glob("optimizer*"))]
    faults = [f"{len(versions)} task versions: {', '.join(map(str, versions))}"] if len(versions) > 1 else []
    faults += [f"missing: {', '.join(missing)}"] if missing else []
    faults += [f"no optimiser state in {', '.join(bare)}"] if bare else []
    said = f"Task version {', '.join(map(str, versions)) or 'not recorded'}; {len(kept)} whole checkpoints."
    return ("look", f"{said} {'; '.join(faults).capitalize()}.") if faults else ("fine", said)
