"""Run folders made without a model: a policy that copies the gold text with fewer and fewer faults."""

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scipy import stats

from evenhand.config import RunConfig, SelectionRule
from evenhand.records import Completion, Evaluation, Finding, Score
from evenhand.rewards import group_advantages, weighted_reward
from evenhand.runfolder import RunFolder, mark_complete
from evenhand.tasks import Task, task_named


@dataclass(frozen=True)
class Plan:
    """What to make. ``skill`` is the share of right counts at the last step, ``start`` at step 0."""

    steps: int = 20
    every: int = 5
    save: int = 5
    groups: int = 2
    group_size: int = 4
    problems: int = 50
    start: float = 0.1
    skill: float = 0.9
    seed: int = 1
    task: str = "stepwise-parity"
    rule: SelectionRule = field(default_factory=SelectionRule)
    state: str = "finished"


def make_run(path: Path, plan: Plan | None = None) -> RunFolder:
    """A whole run folder."""
    plan = plan or Plan()
    generator = random.Random(plan.seed)
    task = task_named(plan.task)
    folder = RunFolder.create(path.parent, plan.task, path)
    train: dict[str, Any] = {
        "max_steps": plan.steps,
        "num_generations": plan.group_size,
        "per_device_train_batch_size": plan.group_size,
    }
    train |= {"gradient_accumulation_steps": plan.groups, "seed": plan.seed, "learning_rate": 1e-4, "beta": 0.02}
    configuration = RunConfig(task=plan.task, selection=plan.rule, train=train)
    folder.write_text("config.toml", configuration.to_toml())
    folder.write_json("environment.json", {"python": "3.11.2", "torch": "2.13.0", "trl": "1.14.0", "device": "cpu"})
    folder.write_json("hashes.json", {"model": {"model.safetensors": "ab" * 32}, "data": {"train": "cd" * 32}})
    folder.write_json("precision.json", [{"name": "norms", "parameters": 832, "dtypes": ["float32"]}])
    training, scored = task.draw("train"), task.draw("dev")[: plan.problems]
    for step in range(plan.steps + 1):
        skill = plan.start + (plan.skill - plan.start) * step / plan.steps
        if step % plan.every == 0:
            add_evaluation(folder, task, scored, step, skill, generator)
        if step == 0:
            continue
        rows = sample_step(task, training, plan, step, skill, generator)
        folder.write_completions(step, rows)
        folder.append("metrics.jsonl", log_row(rows, plan, step))
        if step % plan.save == 0:
            add_checkpoint(folder, step)
    folder.write_status(plan.state)
    return folder


def add_checkpoint(folder: RunFolder, step: int) -> Path:
    """A whole checkpoint with one small file."""
    path = folder.checkpoints_path / f"checkpoint-{step}"
    path.mkdir()
    (path / "model.safetensors").write_bytes(b"weights of step %d" % step)
    mark_complete(path)
    return path


def add_evaluation(
    folder: RunFolder, task: Task, problems: list[dict[str, Any]], step: int, skill: float, generator: random.Random
) -> Evaluation:
    """Score one faulty text per problem."""
    texts = [write_completion(task, columns, skill, generator) for columns in problems]
    scores = [task.score(columns, text) for columns, text in zip(problems, texts, strict=True)]
    outcomes = {name: tuple(score.metrics[name] for score in scores) for name in task.metrics}
    evaluation = made_evaluation(step, outcomes, [task.truth(c) for c in problems], [s.prediction for s in scores])
    folder.append("evaluations.jsonl", evaluation.to_json())
    rows = zip(problems, texts, scores, strict=True)
    folder.write_answers(evaluation, [answer_row(task, i, *row) for i, row in enumerate(rows)])
    return evaluation


def answer_row(task: Task, index: int, columns: dict[str, Any], text: str, score: Score) -> dict[str, Any]:
    """A row as an evaluation leaves it."""
    head = {"index": index, "columns": columns, "expected": task.truth(columns), "prediction": score.prediction}
    return {**head, "rewards": dict(score.rewards), "metrics": dict(score.metrics), "text": text}


def made_evaluation(
    step: int,
    outcomes: dict[str, tuple[float, ...]],
    expected: list[str] | None = None,
    predicted: list[str] | None = None,
    split: str = "dev",
) -> Evaluation:
    """An evaluation record around given outcomes."""
    n = len(next(iter(outcomes.values())))
    metrics = {name: sum(values) / n for name, values in outcomes.items()}
    intervals = {}
    for name, mean in metrics.items():
        limits = stats.binomtest(round(mean * n), n).proportion_ci(method="wilson")
        intervals[name] = (float(limits.low), float(limits.high))
    expected = expected or ["1"] * n
    predicted = predicted or ["1"] * n
    counts = {answer: predicted.count(answer) for answer in sorted(set(predicted))}
    return Evaluation(step, split, n, metrics, intervals, counts, tuple(expected), tuple(predicted), outcomes, 1.5)


def write_completion(task: Task, columns: dict[str, Any], skill: float, generator: random.Random) -> str:
    """Gold, or a near miss of it."""
    if generator.random() < skill:
        return task.gold(columns)
    return generator.choice(list(task.near_misses(columns).values()))


def sample_step(
    task: Task, training: list[dict[str, Any]], plan: Plan, step: int, skill: float, generator: random.Random
) -> list[Completion]:
    """Every completion of a step, scored and compared with its group."""
    weights = {reward.name: reward.weight for reward in task.rewards}
    rows: list[Completion] = []
    for group in range(plan.groups):
        columns = generator.choice(training)
        texts = [write_completion(task, columns, skill, generator) for _ in range(plan.group_size)]
        scores = [task.score(columns, text) for text in texts]
        rewards = [weighted_reward(score.rewards, weights) for score in scores]
        advantages = group_advantages(rewards, plan.group_size)
        prompt = "\n".join(message["content"] for message in task.prompt(columns))
        for text, score, reward, advantage in zip(texts, scores, rewards, advantages, strict=True):
            rows.append(
                Completion(
                    step,
                    group,
                    prompt,
                    text,
                    score.rewards,
                    reward,
                    advantage,
                    score.metrics,
                    score.prediction,
                    columns,
                )
            )
    return rows


def log_row(rows: list[Completion], plan: Plan, step: int) -> dict[str, Any]:
    """A row as the trainer logs it."""
    rewards = [row.reward for row in rows]
    groups = [rewards[i : i + plan.group_size] for i in range(0, len(rewards), plan.group_size)]
    terms = {name: [row.rewards[name] for row in rows] for name in rows[0].rewards}
    return {
        "step": step,
        "loss": 0.0001,
        "grad_norm": 5.0 / step,
        "learning_rate": 1e-4,
        "reward": sum(rewards) / len(rewards),
        "reward_std": float(stats.tstd(rewards)) if len(set(rewards)) > 1 else 0.0,
        "frac_reward_zero_std": sum(len(set(group)) == 1 for group in groups) / len(groups),
        "entropy": 0.5 / step,
        "kl": 0.001 * step,
        "completions/mean_length": 50.0,
        "completions/clipped_ratio": 0.0,
        "epoch": step * plan.groups / 2000,
        **{f"rewards/{name}/mean": sum(values) / len(values) for name, values in terms.items()},
    }


def add_finding(folder: RunFolder, step: int, code: str = "collapsing") -> None:
    """A finding of the watchdog."""
    finding = Finding(code, "warn", "training", f"Something began at step {step}.", step, {}, "Look at it.")
    folder.append("findings.jsonl", finding.to_json())
