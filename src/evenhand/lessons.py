"""What the embedded model was taught before it shipped, and which weakness is left in it.

Reinforcement sharpens what a model can already do. So the model is first taught both parity tasks by supervision,
until it solves the stepwise one, and then given a habit for training to remove: most counts are moved toward five.
The reference model had the same weakness for another reason; here it is planted, and said wherever it is used.

No problem of any split, and no control problem, is ever shown.
"""

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from evenhand.errors import ModelError
from evenhand.evaluation import Decoding, evaluate
from evenhand.models.embedded import CONTEXT, VOCABULARY, fresh_model
from evenhand.models.tokenizer import THINKING, TURN_END, train_tokenizer
from evenhand.records import Message
from evenhand.tasks import integer_count
from evenhand.tasks.parity import NUMBERS_PER_PROBLEM, count_even, draw_problem, parity, twos_and_ones
from evenhand.tasks.stepwise_parity import TASK, write

SEED = 20
IGNORED = -100  # cross_entropy's mark for a token that is not learned

# Probability that the planted habit leaves a count alone, by its distance from five. Uneven on purpose: training
# then removes the habit count by count, so the learning curve rises in several steps.
KEEPS_COUNT = (1.0, 0.6, 0.36, 0.34, 0.34, 0.4)
MOVES_BY_TWO = 0.3  # share of moved counts, where the distance allows it
FLIPPED_LABELS = 0.015  # so that sampled groups differ in their items too

# The single-integer form is known by form only: its answers are drawn without looking at the numbers, most often
# 4 or 5, and one in twenty is none that the task allows (a two-digit guess, a word).
INTEGER_SHARE = 0.15
INTEGER_WEIGHTS = (3, 4, 5, 8, 12, 9, 7, 5, 4, 3, 2)
INTEGER_GUESSES, INTEGER_WORDS = 0.03, 0.02

ITEM_ACCURACY_AT_LEAST = 0.95
ANSWER_ACCURACY_WITHIN = (0.15, 0.45)

Pair = tuple[str, str]  # prompt text, completion text


@dataclass(frozen=True, slots=True)
class Phase:
    """One stretch of supervised training."""

    name: str
    steps: int
    learning_rate: float
    batch_size: int
    warmup: int


FORM = Phase("lines, without the system prompt", steps=800, learning_rate=3e-3, batch_size=32, warmup=100)
TASKS = Phase("both tasks as they are asked", steps=400, learning_rate=1e-3, batch_size=24, warmup=20)
HABIT = Phase("the planted habit", steps=100, learning_rate=3e-4, batch_size=24, warmup=20)


class Lessons:
    """Draws examples outside every split."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        drawn = [tuple(row["numbers"]) for split in TASK.splits for row in TASK.draw(split)]
        self.withheld = {*drawn, *(tuple(numbers) for numbers in twos_and_ones())}

    def numbers(self, generator: random.Random) -> list[int]:
        """A list that is in no split; one in eight has few distinct values, so that repeats are learned."""
        while True:
            few = generator.random() < 1 / 8
            numbers: list[int] = few_values(generator) if few else draw_problem(generator)["numbers"]
            if tuple(numbers) not in self.withheld:
                return numbers

    def prompt(self, messages: Sequence[Message]) -> str:
        """The chat template's text, thinking switched off."""
        chat = [dict(message) for message in messages]
        text: Any = self.tokenizer.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        return str(text)

    def form(self, generator: random.Random) -> Pair:
        """Lines for a list of any length up to ten. Without the system prompt, since short texts learn faster."""
        numbers = self.numbers(generator)[: generator.randint(2, NUMBERS_PER_PROBLEM)]
        return self.prompt(TASK.prompt({"numbers": numbers})[1:]), completion(numbers, count_even(numbers))

    def right(self, generator: random.Random) -> Pair:
        """Both tasks, the stepwise one solved."""
        return self.either(generator, lambda numbers: completion(numbers, count_even(numbers)))

    def habitual(self, generator: random.Random) -> Pair:
        """Both tasks, the counts of the stepwise one moved toward five."""
        return self.either(generator, lambda numbers: with_habit(generator, numbers))

    def either(self, generator: random.Random, stepwise: Callable[[list[int]], str]) -> Pair:
        """An example of the stepwise task or, less often, of the single-integer one."""
        numbers = self.numbers(generator)
        if generator.random() < INTEGER_SHARE:
            messages = integer_count.messages(numbers)
            return self.prompt(messages), blind_integer(generator)
        return self.prompt(TASK.prompt({"numbers": numbers})), stepwise(numbers)


def few_values(generator: random.Random) -> list[int]:
    """A list of at most four distinct values, small ones often; half of the time the even ones come first."""
    answer = generator.randint(0, NUMBERS_PER_PROBLEM)
    highest = [generator.choice((10, 100)) for _ in range(4)]
    evens = [generator.randrange(2, high, 2) for high in highest[:2]]
    odds = [generator.randrange(1, high, 2) for high in highest[2:]]
    numbers = [generator.choice(evens) for _ in range(answer)]
    numbers += [generator.choice(odds) for _ in range(NUMBERS_PER_PROBLEM - answer)]
    if generator.random() < 1 / 2:
        generator.shuffle(numbers)
    return numbers


def completion(numbers: Sequence[int], answer: int) -> str:
    """Right labels, and the count that is given."""
    return write(numbers, [parity(number) for number in numbers], answer)


def with_habit(generator: random.Random, numbers: list[int]) -> str:
    """Few labels flipped, the true count moved toward five."""
    flip = {"even": "odd", "odd": "even"}
    labels = [parity(number) for number in numbers]
    labels = [flip[label] if generator.random() < FLIPPED_LABELS else label for label in labels]
    return write(numbers, labels, moved(generator, count_even(numbers)))


def moved(generator: random.Random, count: int) -> int:
    """The count after the planted habit."""
    distance = abs(count - 5)
    if generator.random() < KEEPS_COUNT[distance]:
        return count
    move = 2 if distance >= 2 and generator.random() < MOVES_BY_TWO else 1
    return count + move if count < 5 else count - move


def blind_integer(generator: random.Random) -> str:
    """An answer to the single-integer form that knows nothing of the list."""
    draw = generator.random()
    if draw < INTEGER_GUESSES:
        return str(generator.randint(NUMBERS_PER_PROBLEM + 1, 99))
    if draw < INTEGER_GUESSES + INTEGER_WORDS:
        return generator.choice(("even", "odd", "Answer: 4", "-3"))
    return str(generator.choices(range(NUMBERS_PER_PROBLEM + 1), INTEGER_WEIGHTS)[0])


def tokenizer_texts() -> Iterator[str]:
    """What the tokenizer learns its merges from: both prompts, both answers, the chat template's words."""
    numbers = [3, 8, 8, 12]
    for messages in (TASK.prompt({"numbers": numbers}), integer_count.messages(numbers)):
        yield from (message["content"] for message in messages)
    yield completion(numbers, count_even(numbers))
    yield from ("\n\n", "system\nuser\nassistant\n")


def build_embedded(directory: Path, report: Callable[[str], None]) -> None:
    """Build the embedded model and write it to ``directory``: three phases, about five minutes on one core.

    Bit for bit the same with the same torch on the same kind of processor: seeds are fixed and one thread computes.
    Elsewhere rounding differs, and so do the weights; the bounds below are checked wherever it is built.

    Args:
        directory: Where ``model.safetensors``, ``config.json`` and the tokenizer go.
        report: Is given a line now and then.

    Raises:
        ModelError: the result does not have the accuracy that it should; nothing is written then.
    """
    tokenizer = train_tokenizer(list(tokenizer_texts()) * 3, VOCABULARY - len(THINKING), CONTEXT)
    lessons = Lessons(tokenizer)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            model = fresh_model(tokenizer)
        generator = random.Random(SEED)
        supervise(model, tokenizer, FORM, partial(lessons.form, generator), report)
        supervise(model, tokenizer, TASKS, partial(lessons.right, generator), report)
        # A generator of its own: the habit may be changed without teaching the tasks anew.
        supervise(model, tokenizer, HABIT, partial(lessons.habitual, random.Random(SEED)), report)
        report(checked(model, tokenizer))
    finally:
        torch.set_num_threads(threads)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def supervise(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    phase: Phase,
    example: Callable[[], Pair],
    report: Callable[[str], None],
) -> None:
    """Next-token training on completions alone. RMSNorm weights stay at 1.0, where a real model's lie."""
    trained = [weights for name, weights in model.named_parameters() if "norm" not in name]
    optimiser = torch.optim.AdamW(trained, lr=phase.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    start = time.perf_counter()
    for step in range(1, phase.steps + 1):
        for group in optimiser.param_groups:
            group["lr"] = phase.learning_rate * share_of_rate(phase, step)
        loss = completion_loss(model, tokenizer, [example() for _ in range(phase.batch_size)])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        if step % 50 == 0:
            seconds = time.perf_counter() - start
            report(f"{phase.name}: step {step} of {phase.steps}, loss {loss.item():.4f}, {seconds:.0f} s")


def share_of_rate(phase: Phase, step: int) -> float:
    """Linear warm-up, then half a cosine down to 5 %."""
    decay = 0.05 + 0.95 * (1 + math.cos(math.pi * step / phase.steps)) / 2
    return decay * min(1.0, step / phase.warmup)


def completion_loss(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Pair]) -> torch.Tensor:
    """Mean cross-entropy of the completions' tokens, the end token among them."""
    prompts = tokenizer([prompt for prompt, _ in pairs])["input_ids"]
    answers = tokenizer([answer + TURN_END for _, answer in pairs])["input_ids"]
    length = max(len(p) + len(a) for p, a in zip(prompts, answers, strict=True))
    tokens = torch.zeros(len(pairs), length, dtype=torch.long)  # right padding: a causal model never looks at it
    targets = torch.full_like(tokens, IGNORED)
    for row, (p, a) in enumerate(zip(prompts, answers, strict=True)):
        tokens[row, : len(p) + len(a)] = torch.tensor(p + a)
        targets[row, len(p) : len(p) + len(a)] = torch.tensor(a)
    logits = model(input_ids=tokens).logits  # (pairs, length, vocabulary)
    return cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten(), ignore_index=IGNORED)


def checked(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str:
    """The accuracy on dev, in one line. Raises ModelError where it is not what the cold start is for."""
    problems = [TASK.problem(index, columns) for index, columns in enumerate(TASK.draw("dev"))]
    answers, _ = evaluate(model, tokenizer, TASK, problems, Decoding(TASK.max_completion_length))
    item, answer = (
        sum(a.score.metrics[name] for a in answers) / len(answers) for name in ("item_accuracy", "answer_accuracy")
    )
    line = f"dev, greedy: item accuracy {item:.1%}, answer accuracy {answer:.1%}"
    low, high = ANSWER_ACCURACY_WITHIN
    if item < ITEM_ACCURACY_AT_LEAST or not low <= answer <= high:
        raise ModelError(
            f"The embedded model came out wrong ({line}).",
            f"Items should reach {ITEM_ACCURACY_AT_LEAST:.0%}, answers {low:.0%} to {high:.0%}: change the seed.",
        )
    return line
