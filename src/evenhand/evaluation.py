"""Sample and score a split, greedily."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from evenhand.intervals import rate_interval
from evenhand.prefixtree import differs, generate_greedy, refusal
from evenhand.records import Evaluation, Problem, Score
from evenhand.tasks import Task


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said to a problem, and how it was read."""

    problem: Problem
    text: str
    score: Score

    def to_json(self, task: Task) -> dict[str, Any]:
        """A row of the run folder's ``evaluations/``."""
        return {
            "index": self.problem.index,
            "columns": dict(self.problem.columns),
            "expected": task.truth(self.problem.columns),
            "prediction": self.score.prediction,
            "rewards": dict(self.score.rewards),
            "metrics": dict(self.score.metrics),
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Decoding:
    """How answers are decoded. Greedy always: nothing is drawn, so no random state moves."""

    max_completion_length: int
    batch_size: int = 50
    prefix_tree: bool = True


def answer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    task: Task,
    problems: Sequence[Problem],
    decoding: Decoding,
) -> list[Answer]:
    """The model's greedy answer to each problem, thinking switched off, in eval mode.

    The mode is restored whatever happens.
    """
    texts: list[str] = []
    with evaluating(model):
        for start in range(0, len(problems), decoding.batch_size):
            texts += decode(model, tokenizer, problems[start : start + decoding.batch_size], decoding)
    pairs = zip(problems, texts, strict=True)
    return [Answer(problem, text, task.score(problem.columns, text)) for problem, text in pairs]


@contextmanager
def evaluating(model: PreTrainedModel) -> Iterator[None]:
    """Eval mode without gradients; the earlier mode is restored even when something fails."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def prompt_token_ids(tokenizer: PreTrainedTokenizerBase, problem: Problem) -> list[int]:
    """A problem's prompt as the chat template writes it, thinking switched off."""
    messages = [dict(message) for message in problem.prompt]
    encoded: Any = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True, enable_thinking=False
    )
    return list(encoded["input_ids"])


def decode(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, problems: Sequence[Problem], decoding: Decoding
) -> list[str]:
    """Greedy texts of one batch: on the prefix tree where the model allows it, else through ``generate``."""
    prompts = [prompt_token_ids(tokenizer, problem) for problem in problems]
    if decoding.prefix_tree and takes_tree(model):
        completions = generate_greedy(model, prompts, decoding.max_completion_length, [tokenizer.eos_token_id])
    else:
        completions = generate_plainly(model, tokenizer, prompts, decoding.max_completion_length)
    return list(tokenizer.batch_decode(completions, skip_special_tokens=True))


def takes_tree(model: PreTrainedModel) -> bool:
    """Whether the prefix tree gives this model's logits; found out once for each model."""
    answer: bool | None = getattr(model, "_evenhand_takes_tree", None)
    if answer is None:
        answer = refusal(model) is None and differs(model) is None
        model._evenhand_takes_tree = answer  # type: ignore[assignment]
    return answer


def generate_plainly(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, prompts: list[list[int]], max_completion_length: int
) -> Any:
    """Token ids after each prompt from ``generate``, prompts padded on the left."""
    batch = tokenizer.pad({"input_ids": prompts}, padding_side="left", return_tensors="pt").to(model.device)
    generate: Any = model.generate
    output = generate(
        **batch,
        do_sample=False,
        temperature=None,
        top_p=None,
        top_k=None,
        max_new_tokens=max_completion_length,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return output[:, batch["input_ids"].shape[1] :]


def summarise(task: Task, answers: Sequence[Answer], split: str, step: int, seconds: float) -> Evaluation:
    """Means, 95 % intervals and the prediction distribution of a split's answers."""
    outcomes = {name: tuple(a.score.metrics[name] for a in answers) for name in task.metrics}
    predicted = tuple(a.score.prediction for a in answers)
    return Evaluation(
        step=step,
        split=split,
        n=len(answers),
        metrics={name: sum(values) / max(len(values), 1) for name, values in outcomes.items()},
        intervals={name: rate_interval(values) for name, values in outcomes.items()},
        predictions=dict(Counter(predicted).most_common()),
        expected=tuple(task.truth(a.problem.columns) for a in answers),
        predicted=predicted,
        outcomes=outcomes,
        seconds=seconds,
    )


def evaluate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    task: Task,
    problems: Sequence[Problem],
    decoding: Decoding,
) -> tuple[list[Answer], float]:
    """Answers to a whole split, and the seconds it took."""
    start = time.perf_counter()
    answers = answer(model, tokenizer, task, problems, decoding)
    return answers, time.perf_counter() - start
