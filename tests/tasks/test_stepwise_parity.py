"""The reference's golden facts, its table of completions, and what no text may do to the parser."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.rewards import weighted_reward
from evenhand.tasks.stepwise_parity import SYSTEM_PROMPT, TASK, lines_of, read

COLUMNS = {"numbers": [2, 3, 2, 5], "answer": 2}
GOLD = "2: even\n3: odd\n2: even\n5: odd\nAnswer: 2"
WEIGHTS = {reward.name: reward.weight for reward in TASK.rewards}


def total(columns, text):
    return weighted_reward(TASK.score(columns, text).rewards, WEIGHTS)


# -- golden facts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "numbers"),
    [
        ("dev", [3, 29, 50, 16, 90, 24, 37, 29, 68, 70]),
        ("train", [36, 96, 32, 88, 30, 96, 16, 18, 4, 14]),
        ("test", [13, 89, 47, 97, 85, 19, 59, 37, 89, 59]),
    ],
)
def test_first_problem_of_each_split_is_the_reference_s(split, numbers):
    assert TASK.draw(split)[0]["numbers"] == numbers


def test_splits_have_the_reference_s_sizes():
    assert {split: len(TASK.draw(split)) for split in TASK.splits} == {"train": 2000, "test": 1000, "dev": 50}


def test_train_answers_occur_as_often_as_in_the_reference():
    counts = Counter(row["answer"] for row in TASK.draw("train"))
    assert (counts[5], counts[1], counts[7], counts[9]) == (164, 194, 194, 201)
    assert set(counts) == set(range(11))


def test_always_five_scores_what_the_reference_says():
    answers = [row["answer"] for row in TASK.draw("train")]
    assert sum(answer == 5 for answer in answers) / len(answers) == pytest.approx(0.082)
    assert sum(abs(answer - 5) for answer in answers) / len(answers) == pytest.approx(2.773, abs=5e-4)


def test_dev_holds_the_answer_one_six_times():
    assert sum(row["answer"] == 1 for row in TASK.draw("dev")) == 6


def test_train_and_test_share_no_problem():
    train = {tuple(row["numbers"]) for row in TASK.draw("train")}
    assert train.isdisjoint(tuple(row["numbers"]) for row in TASK.draw("test"))


def test_prompt_strings_are_the_reference_s():
    system, user = TASK.prompt({"numbers": [3, 29], "answer": 0})
    assert system == {"role": "system", "content": SYSTEM_PROMPT}
    assert SYSTEM_PROMPT.startswith(
        "Classify every number in the input list as even or odd, then count the even numbers. Copy every input number "
        "once, in the same order. Keep repeated numbers. Write one line per number using exactly 'number: even' or "
        "'number: odd'. Finish with exactly 'Answer: count'. Do not add any other text.\nExample for [3, 8, 8]:\n"
    )
    assert SYSTEM_PROMPT.endswith("3: odd\n8: even\n8: even\nAnswer: 2")
    assert user["content"] == "Numbers: [3, 29]\nClassify each number, then give the even count."


# -- the table of completions ----------------------------------------------------------------------------------------

TABLE = [
    (GOLD, 1.0, True, True),
    ("2: even\n3: even\n2: even\n5: odd\nAnswer: 2", 0.75, True, False),
    ("2: even\n3: odd\n2: even\n5: odd\nAnswer: 3", 1.0, False, False),
    ("2: even\n3: odd\n5: odd\nAnswer: 2", 0.5, True, False),
    ("3: odd\n2: even\n2: even\n5: odd\nAnswer: 2", 0.5, True, False),
    ("2: even\n3: odd\n2: even\n5: odd\n2: even\nAnswer: 2", 1.0, True, False),
    ("Answer: 2", 0.0, True, False),
    ("2: even\n3: odd", 0.5, False, False),
    ("4: even\n3: odd\n2: even\n5: odd\nAnswer: 2", 0.75, True, False),
    (f"{GOLD}\nAnswer: 2", 1.0, False, False),
    ("2: even\n3: even\n2: even\n5: odd\nAnswer: 3", 0.75, False, True),
]


@pytest.mark.parametrize(("text", "item", "answer", "consistent"), TABLE)
def test_completions_score_as_the_reference_s_table_says(text, item, answer, consistent):
    score = TASK.score(COLUMNS, text)
    assert score.rewards == {"item": item, "answer": float(answer), "consistency": float(consistent)}


@pytest.mark.parametrize(
    "text", ["**Answer: 2**", "Answer: 2.", "Answer: +2", "Answer: 02", "Answer: -0", "Answer: ２"]
)
def test_decorated_answers_are_not_read(text):
    assert TASK.score(COLUMNS, GOLD.replace("Answer: 2", text)).prediction == "none"


def test_a_negative_answer_is_read_and_makes_the_format_invalid():
    score = TASK.score(COLUMNS, GOLD.replace("Answer: 2", "Answer: -2"))
    assert score.prediction == "-2"
    assert score.metrics["format_valid"] == 0.0


def test_text_before_gold_shifts_every_item():
    assert TASK.score(COLUMNS, f"Sure:\n{GOLD}").rewards["item"] == 0.0


def test_letter_case_blank_lines_and_spaces_do_not_matter():
    assert total(COLUMNS, "\n  2 : EVEN \n\n3:odd\n2:\teven\n5: Odd\nANSWER : 2\n\n") == 2.5


def test_a_number_of_five_thousand_digits_is_read_as_nothing():
    assert TASK.score(COLUMNS, f"{'9' * 5000}: even\nAnswer: {'9' * 5000}").prediction == "none"


# -- what no text may do ---------------------------------------------------------------------------------------------

fragments = st.sampled_from(
    [
        "2: even",
        "3: odd",
        "5: odd",
        "Answer: 2",
        "answer : 2",
        "Sure:",
        "",
        "２: even",
        "-0: odd",
        "02: even",
        "\x00",
        "\u202e",
    ]
)
texts = st.one_of(st.text(), st.lists(fragments, max_size=12).map("\n".join), st.just(GOLD))


@given(texts)
def test_no_text_raises_or_is_paid_more_than_gold(text):
    score = TASK.score(COLUMNS, text)
    assert 0.0 <= weighted_reward(score.rewards, WEIGHTS) <= 2.5
    assert all(0.0 <= value <= 1.0 for value in score.metrics.values())


@given(texts)
def test_only_gold_up_to_case_and_white_space_earns_everything(text):
    if total(COLUMNS, text) == 2.5:
        assert "".join(text.split()).lower() == "".join(GOLD.split()).lower()


@given(st.lists(st.sampled_from(["2: even", "3: odd", "2 : Even", "Answer: 2", "x"]), max_size=8))
def test_full_reward_means_fully_correct(lines):
    score = TASK.score(COLUMNS, "\n".join(lines))
    assert (weighted_reward(score.rewards, WEIGHTS) == 2.5) == (score.metrics["fully_correct"] == 1.0)


@given(st.text())
def test_lines_stand_where_they_are_said_to_stand(text):
    assert all(text[line.start : line.end] == line.text for line in lines_of(text))


def test_control_problems_have_every_count_from_zero_to_ten():
    assert [problem.columns["answer"] for problem in TASK.control_problems()] == list(range(11))


def test_an_answer_line_that_is_not_last_takes_a_position():
    reading = read("Answer: 2\n2: even")
    assert reading.entries == (None, (2, "even"))
    assert reading.answer is None
