"""Seven questions, each answered from the folder or said to be unanswerable."""

import json

import pytest

from evenhand.checklist import checklist
from evenhand.errors import RunFolderError
from tests.made_runs import Plan, make_run


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run", Plan(steps=10))


def test_seven_answers_in_order(run):
    answers = checklist(run.path)
    assert [one.number for one in answers] == [1, 2, 3, 4, 5, 6, 7]
    assert all(one.answer for one in answers)


def test_labels_are_recomputed(run):
    assert checklist(run.path)[0].status == "fine"


def test_a_wrong_label_among_the_completions_is_found(run):
    path = next((run.path / "completions").glob("*.jsonl"))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["columns"]["answer"] += 1
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    first = checklist(run.path)[0]
    assert first.status == "wrong"
    assert "1 labels differ" in first.answer


def test_coverage_counts_prompts_not_steps(run):
    assert "A step sees 2 prompts; 10 steps have seen 20" in checklist(run.path)[3].answer


def test_rewards_of_near_misses_are_below_gold(run):
    rewards = checklist(run.path)[4]
    assert rewards.status == "fine"
    assert "Gold earns 2.50" in rewards.answer


def test_a_weight_that_makes_a_near_miss_as_good_as_gold_is_found(run):
    config = run.read_text("config.toml")
    run.write_text("config.toml", config + "reward_weights = [1.0, 0.0, 0.0]\n")
    assert checklist(run.path)[4].status == "wrong"


def test_what_was_not_recorded_is_said_to_be_unanswerable(run):
    (run.path / "precision.json").unlink()
    second = checklist(run.path)[1]
    assert second.status == "unanswerable"
    assert "precision.json" in second.answer


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunFolderError):
        checklist(tmp_path)


def test_a_probe_in_the_folder_answers_the_third(run):
    finding = {"code": "updates-swallowed", "severity": "note", "stage": "preflight", "step": None, "evidence": {}}
    report = {"findings": [{**finding, "message": "12 % of the norms moved.", "remedy": ""}], "unknown": []}
    run.write_json("preflight.json", report)
    third = checklist(run.path)[2]
    assert third.status == "fine"
    assert "12 % of the norms moved." in third.answer
