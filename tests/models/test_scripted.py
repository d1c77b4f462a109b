"""The scripted model stands in for a real one in an evaluation."""

import pytest

from evenhand.evaluation import Decoding, evaluate
from evenhand.models import resolve
from evenhand.models.loading import load_tokenizer
from evenhand.models.scripted import ScriptedModel
from evenhand.tasks.stepwise_parity import TASK

TOKENIZER = load_tokenizer(resolve("embedded"))
PROBLEMS = [TASK.problem(index, columns) for index, columns in enumerate(TASK.draw("dev"))]


def scores(reply, limit=TASK.max_completion_length):
    model = ScriptedModel(TOKENIZER, reply)
    answers, _ = evaluate(model, TOKENIZER, TASK, PROBLEMS, Decoding(limit, batch_size=7))
    assert len(model.prompts) == len(PROBLEMS)
    return [answer.score.metrics["fully_correct"] for answer in answers]


def gold(prompt):
    numbers = [int(number) for number in prompt.rpartition("Numbers: [")[2].partition("]")[0].split(", ")]
    return TASK.gold({"numbers": numbers, "answer": sum(number % 2 == 0 for number in numbers)})


@pytest.mark.parametrize(
    ("reply", "limit", "share"),
    [(gold, 192, 1.0), (lambda prompt: "Answer: 5", 192, 0.0), (lambda prompt: "", 192, 0.0), (gold, 20, 0.0)],
    ids=["gold", "one answer for all", "nothing", "gold, cut off"],
)
def test_what_it_says_is_what_is_scored(reply, limit, share):
    found = scores(reply, limit)
    assert sum(found) / len(found) == share
