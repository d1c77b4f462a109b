"""What the embedded model was taught, and what it can do as it ships."""

import random
from collections import Counter

import pytest
import torch

import evenhand.lessons
from evenhand.errors import ModelError
from evenhand.evaluation import Decoding, decode
from evenhand.lessons import KEEPS_COUNT, Lessons, Phase, checked, few_values, moved, supervise, with_habit
from evenhand.models import resolve
from evenhand.models.embedded import fresh_model
from evenhand.models.loading import load
from evenhand.models.precision import parameter_group
from evenhand.records import Problem
from evenhand.tasks import integer_count
from evenhand.tasks.parity import count_even
from evenhand.tasks.stepwise_parity import TASK


@pytest.fixture(scope="module")
def shipped():
    return load(resolve("embedded"))


@pytest.fixture(scope="module")
def lessons(shipped):
    return Lessons(shipped.tokenizer)


def test_it_mislabels_few_items_and_counts_badly(shipped):
    assert "item accuracy" in checked(shipped.model, shipped.tokenizer)  # raises where the bounds do not hold


def test_a_model_that_came_out_wrong_is_not_accepted(shipped, monkeypatch):
    monkeypatch.setattr(evenhand.lessons, "ANSWER_ACCURACY_WITHIN", (0.9, 1.0))
    with pytest.raises(ModelError, match="came out wrong"):
        checked(shipped.model, shipped.tokenizer)


def test_it_answers_the_single_integer_form_with_an_integer(shipped):
    numbers = [columns["numbers"] for columns in TASK.draw("dev")][:20]
    problems = [Problem(index, integer_count.messages(row), {}) for index, row in enumerate(numbers)]
    answers = decode(shipped.model, shipped.tokenizer, problems, Decoding(max_completion_length=8, prefix_tree=False))
    assert all(answer.isdecimal() and 0 <= int(answer) <= 10 for answer in answers)


def test_the_longest_gold_text_takes_55_tokens(shipped):
    texts = [TASK.gold(columns) for columns in TASK.draw("train")]
    assert max(len(tokens) for tokens in shipped.tokenizer(texts)["input_ids"]) == 55


def test_norm_weights_lie_at_one(shipped):
    norms = [weights for name, weights in shipped.model.named_parameters() if parameter_group(name) == "norms"]
    assert all(torch.equal(weights, torch.ones_like(weights)) for weights in norms)


def test_no_problem_of_a_split_is_a_lesson(lessons, monkeypatch):
    train = TASK.draw("train")[0]
    drawn = iter([train, {"numbers": [2] * 10, "answer": 10}, {"numbers": [4] * 10, "answer": 10}])
    monkeypatch.setattr(evenhand.lessons, "draw_problem", lambda generator: next(drawn))
    assert lessons.numbers(random.Random(0)) == [4] * 10  # neither train[0] nor the control list of ten twos


def test_lessons_are_asked_as_the_tasks_ask(lessons):
    generator = random.Random(0)
    pairs = [lessons.right(generator) for _ in range(60)]
    stepwise = [pair for pair in pairs if "Classify every number" in pair[0]]
    assert 40 < len(stepwise) < 60
    assert all(prompt.endswith("<think>\n\n</think>\n\n") for prompt, _ in pairs)
    for prompt, answer in stepwise:
        numbers = [int(n) for n in prompt.rpartition("Numbers: [")[2].partition("]")[0].split(", ")]
        score = TASK.score({"numbers": numbers, "answer": count_even(numbers)}, answer)
        assert score.metrics["fully_correct"] == 1.0


@pytest.mark.parametrize("count", range(11))
def test_the_habit_moves_counts_toward_five_by_at_most_two(count):
    generator = random.Random(1)
    drawn = Counter(moved(generator, count) for _ in range(4000))
    assert drawn[count] / 4000 == pytest.approx(KEEPS_COUNT[abs(count - 5)], abs=0.03)
    assert all(abs(value - 5) <= abs(count - 5) and abs(value - count) <= 2 for value in drawn)


def test_the_habit_flips_few_labels():
    generator = random.Random(1)
    numbers = list(range(1, 11))
    scores = [TASK.score({"numbers": numbers, "answer": 5}, with_habit(generator, numbers)) for _ in range(400)]
    assert 0.97 < sum(score.rewards["item"] for score in scores) / 400 < 0.995


def test_lists_of_few_values_repeat_them():
    generator = random.Random(1)
    drawn = [few_values(generator) for _ in range(50)]
    assert all(len(numbers) == 10 and len(set(numbers)) <= 4 for numbers in drawn)
    assert {count_even(numbers) for numbers in drawn} >= {0, 5, 10}


def test_supervision_is_repeatable_and_leaves_norms_alone(shipped, lessons):
    def short_course():
        torch.manual_seed(3)
        model = fresh_model(shipped.tokenizer)
        generator = random.Random(3)
        phase = Phase("short", steps=3, learning_rate=1e-3, batch_size=2, warmup=1)
        supervise(model, shipped.tokenizer, phase, lambda: lessons.form(generator), said.append)
        return model.state_dict()

    said: list[str] = []
    first, second = short_course(), short_course()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert torch.equal(first["model.norm.weight"], torch.ones(96))
