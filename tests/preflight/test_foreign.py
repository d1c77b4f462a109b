"""Anybody's reward functions and data: what can be read is checked, what cannot is one sentence."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import ConfigurationError, DataError, EvenhandError
from evenhand.preflight.foreign import foreign_data, foreign_setup, load_functions, read_rows
from evenhand.preflight.report import examine

REWARDS = """
import re

def reward_exact(completions, answer, **kwargs):
    return [float(c == str(a)) for c, a in zip(completions, answer)]

def reward_near(prompts, completions, answer, **kwargs):
    numbers = [re.fullmatch(r"-?[0-9]{1,6}", c) for c in completions]
    return [max(0.0, 1 - abs(int(m[0]) - a) / 2) if m else 0.0 for m, a in zip(numbers, answer)]

def reward_in_tags(completions, answer, **kwargs):
    return [float(c == f"<answer>{a}</answer>") for c, a in zip(completions, answer)]

def reward_for_messages(completions, answer, **kwargs):
    return [float(c[0]["content"] == str(a)) for c, a in zip(completions, answer)]
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "my_rewards.py").write_text(REWARDS)
    rows = [{"prompt": f"What is {i} + {i % 17}?", "answer": i + i % 17} for i in range(120)]
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return tmp_path


def codes(setup, *severities):
    return {finding.code for finding in examine(setup).findings if finding.severity in severities}


def test_healthy_functions_get_no_warning(files):
    setup = foreign_setup(f"{files}/my_rewards.py:reward_exact,reward_near", files / "rows.jsonl")
    assert [term.name for term in setup.rewards.terms] == ["reward_exact", "reward_near"]
    assert setup.data.train[3].gold == "6"
    assert codes(setup, "warn", "stop") == set()


def test_the_form_that_a_reward_wants_is_found(files):
    setup = foreign_setup(f"{files}/my_rewards.py:reward_in_tags", files / "rows.jsonl")
    assert setup.data.train[0].gold == "<answer>0</answer>"


def test_a_reward_for_messages_fails_on_texts_with_the_completion_named(files):
    setup = foreign_setup(f"{files}/my_rewards.py:reward_for_messages", files / "rows.jsonl")
    found = next(f for f in examine(setup).findings if f.code == "reward-signature")
    assert "TypeError" in found.message
    assert "for the completion" in found.message
    assert "line 15" in found.message


def test_another_name_for_the_prompt_is_a_finding_with_the_likeliest_column(files):
    rows = [{"problem": f"What is {i}?", "answer": i} for i in range(30)]
    (files / "other.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    report = examine(foreign_setup(f"{files}/my_rewards.py:reward_exact", files / "other.jsonl"))
    found = next(f for f in report.findings if f.code == "prompt-column-missing")
    assert "'problem' looks like the question" in found.message


def test_everything_that_needs_a_model_is_unknown_with_the_reason(files):
    unknown = {u.code: u.reason for u in examine(foreign_setup(f"{files}/my_rewards.py", files / "rows.jsonl")).unknown}
    assert "no model" in unknown["updates-swallowed"]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("nowhere.py:f", "no file nowhere.py"),
        ("{0}/my_rewards.py:reward_exakt", "Did you mean 'reward_exact'"),
        ("{0}/broken.py:f", "line 2: ZeroDivisionError"),
        ("{0}/none.py", "no function with 'reward'"),
    ],
)
def test_what_is_no_function_is_one_sentence(files, argument, words):
    (files / "broken.py").write_text("x = 1\ny = x / 0\n")
    (files / "none.py").write_text("def other(): ...\n")
    with pytest.raises(ConfigurationError) as raised:
        load_functions(argument.format(files))
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "holds no row"), ("{", "no JSON"), ('[1, {"prompt": ""}]', "Row 1"), ("[]", "holds no row")],
)
def test_what_is_no_data_is_one_sentence(tmp_path, text, words):
    (tmp_path / "rows").write_text(text)
    with pytest.raises(DataError) as raised:
        read_rows(tmp_path / "rows")
    assert words in str(raised.value)
    with pytest.raises(DataError):
        read_rows(tmp_path / "missing")


def test_a_gold_column_that_is_not_there_and_a_wrong_number_of_weights_are_refused(files):
    with pytest.raises(EvenhandError, match="no column 'gold'"):
        foreign_setup(f"{files}/my_rewards.py:reward_exact", files / "rows.jsonl", gold="gold")
    with pytest.raises(EvenhandError, match="2 weights for 1"):
        foreign_setup(f"{files}/my_rewards.py:reward_exact", files / "rows.jsonl", weights=[1.0, 2.0])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ROWS = st.lists(st.dictionaries(st.sampled_from(["prompt", "answer", "x"]), VALUES, min_size=1), min_size=1, max_size=6)


@given(ROWS)
def test_any_rows_become_questions_or_findings(rows):
    data = foreign_data(rows, "rows")
    assert len(data.train) == len(rows)
    examine_data = [question.whole for question in data.train]
    assert all(isinstance(text, str) for text in examine_data)


def test_the_command_loads_no_torch(files):
    code = (
        "import sys; sys.argv = ['evenhand', 'preflight', '--rewards', sys.argv[1], '--data', sys.argv[2], '--json']\n"
        "from evenhand.cli import application\n"
        "try: application()\n"
        "except SystemExit: pass\n"
        "sys.exit('torch' in sys.modules)"
    )
    arguments = [f"{files}/my_rewards.py:reward_exact", str(files / "rows.jsonl")]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["findings"] is not None
