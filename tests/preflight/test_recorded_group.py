"""``evenhand explain RUN``: a recorded group under both kinds of credit."""

import json

import pytest
from typer.testing import CliRunner

from evenhand.cli import application
from evenhand.errors import EvenhandError
from evenhand.preflight.recorded_group import explain_recorded, listed
from evenhand.records import Completion
from evenhand.rewards import group_advantages
from evenhand.runfolder import RunFolder
from evenhand.tasks.stepwise_parity import TASK

COLUMNS = TASK.draw("train")[0]
GOLD = TASK.gold(COLUMNS)
FLIPPED = GOLD.replace(": odd", ": even", 1) if ": odd" in GOLD else GOLD.replace(": even", ": odd", 1)
MISCOUNTED = GOLD.rsplit(" ", 1)[0] + f" {(COLUMNS['answer'] + 1) % 11}"


@pytest.fixture
def run(tmp_path):
    folder = RunFolder.create(tmp_path, "stepwise-parity", tmp_path / "run")
    folder.write_text("config.toml", 'task = "stepwise-parity"\n[train]\nreward_weights = [1.0, 1.0, 0.5]\n')
    for step in (1, 2):
        folder.write_completions(step, [c for group in (0, 1) for c in completions(step, group)])
    return folder.path


def completions(step, group):
    texts = [GOLD] * 4 if group == 0 else [GOLD, FLIPPED, MISCOUNTED, GOLD]
    scores = [TASK.score(COLUMNS, text).rewards for text in texts]
    rewards = [score["item"] + score["answer"] + 0.5 * score["consistency"] for score in scores]
    pairs = zip(texts, scores, rewards, group_advantages(rewards, 4), strict=True)
    return [Completion(step, group, "asked", t, s, r, a, columns=COLUMNS) for t, s, r, a in pairs]


def test_the_last_step_and_the_first_group_that_differs_are_shown(run):
    found = explain_recorded(run, None, None)
    assert (found.step, found.group) == (2, 1)
    assert found.parts == (*(f"line {i}" for i in range(1, 11)), "answer")


def test_a_wrong_line_is_pushed_down_alone_and_right_lines_beside_it_are_left(run):
    found = explain_recorded(run, 1, 1)
    flipped = found.completions[1]
    (wrong,) = [part for part in found.parts if flipped.values[part] == 0.0]
    assert flipped.advantages[wrong] < -1
    assert {push for part, push in flipped.advantages.items() if part not in (wrong, "answer")} == {0.0}
    assert flipped.advantage < 0, "completion credit pushes its right lines down too"
    assert any("completion credit pushes" in sentence for sentence in found.sentences())
    assert any("earn the same" in sentence for sentence in found.sentences())


def test_a_group_that_agrees_teaches_nothing_under_either(run):
    found = explain_recorded(run, 1, 0)
    assert {push for one in found.completions for push in one.advantages.values()} == {0.0}


def test_parts_of_all_completions_are_shown_in_the_order_of_the_answer(run):
    lines = GOLD.split("\n")
    texts = ["\n".join(lines[:7]), "\n".join([*lines[:3], lines[-1]]), lines[0], GOLD.replace("Answer", "The answer")]
    rows = [Completion(3, 0, "asked", text, {}, 0.0, 0.0, columns=COLUMNS) for text in texts]
    RunFolder.open(run).write_completions(3, rows)
    found = explain_recorded(run, 3, 0)
    assert found.parts == (*(f"line {i}" for i in range(1, 11)), "answer")


def test_completions_of_unknown_problems_are_named(run):
    RunFolder.open(run).write_completions(3, [Completion(3, 0, "asked", GOLD, {}, 0.0, 0.0)] * 2)
    with pytest.raises(EvenhandError, match="does not say which problem"):
        explain_recorded(run, 3, 0)


def test_the_command_prints_a_column_for_each_completion(run):
    result = CliRunner().invoke(application, ["explain", str(run), "--step", "1", "--group", "1"])
    assert result.exit_code == 0, result.output
    assert "completion credit" in result.stdout
    assert "line 10" in result.stdout
    document = json.loads(CliRunner().invoke(application, ["explain", str(run), "--json"]).stdout)
    assert len(document["completions"]) == 4


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ("abcde", "a to e"),
        ("abce", "a to c, e"),
        ("abde", "a, b, d, e"),
        ("c", "c"),
    ],
)
def test_only_parts_that_follow_one_another_are_told_by_their_ends(parts, told):
    assert listed(parts, "abcde") == told


@pytest.mark.parametrize(
    ("step", "group", "what"), [(9, None, "no completions of step 9"), (1, 7, "Step 1 has no group 7")]
)
def test_what_is_not_there_is_named(run, step, group, what):
    with pytest.raises(EvenhandError, match=what):
        explain_recorded(run, step, group)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [(("nowhere",), "neither a number nor a run folder"), (("1", "2", "--group", "1"), "belong to a run folder")],
)
def test_what_explain_cannot_take_is_named(arguments, what):
    with pytest.raises(EvenhandError, match=what):
        CliRunner().invoke(application, ["explain", *arguments], catch_exceptions=False)


def test_a_task_without_parts_and_a_folder_without_a_task_are_named(run):
    RunFolder.open(run).write_text("config.toml", 'task = "integer-count"\n')
    with pytest.raises(EvenhandError, match="integer-count has no spans"):
        explain_recorded(run, None, None)
    RunFolder.open(run).write_text("config.toml", 'task = "stepwise-parity"\n[train]\nreward_weights = [1.0]\n')
    with pytest.raises(EvenhandError, match="1 reward_weights"):
        explain_recorded(run, None, None)
    RunFolder.open(run).write_text("config.toml", "task = ")
    with pytest.raises(EvenhandError, match="does not read"):
        explain_recorded(run, None, None)
    (run / "config.toml").unlink()
    with pytest.raises(EvenhandError, match="its task is unknown"):
        explain_recorded(run, None, None)
