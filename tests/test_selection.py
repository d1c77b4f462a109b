"""Choosing a checkpoint: only what is saved and whole, by the rule written down before training."""

import json
from pathlib import Path

import pytest

from evenhand.config import RunConfig, SelectionRule
from evenhand.errors import RunFolderError
from evenhand.runfolder import RunFolder
from evenhand.selection import choose, save
from tests.made_runs import Plan, add_checkpoint, made_evaluation, make_run

RIGHT = {0: 15, 10: 24, 20: 30, 30: 33, 40: 36, 50: 33, 60: 32, 70: 36, 80: 34, 90: 33, 100: 33}  # of 50, the reference


def run_with(path: Path, right: dict[int, int], saved: list[int], rule: SelectionRule | None = None) -> RunFolder:
    """A run whose evaluations have ``right`` problems right, always the first ones."""
    folder = RunFolder.create(path, "stepwise-parity", path / "run")
    folder.write_text("config.toml", RunConfig(selection=rule or SelectionRule()).to_toml())
    for step, count in right.items():
        outcomes = {"fully_correct": tuple([1.0] * count + [0.0] * (50 - count))}
        folder.append("evaluations.jsonl", made_evaluation(step, outcomes).to_json())
    for step in saved:
        add_checkpoint(folder, step)
    return folder


def test_the_best_saved_checkpoint_is_chosen_and_of_equals_the_earliest(tmp_path: Path) -> None:
    chosen = choose(run_with(tmp_path, RIGHT, [20, 40, 60, 80, 100]))
    assert (chosen.step, chosen.value) == (40, 0.72)
    assert chosen.checkpoint == "checkpoints/checkpoint-40"
    assert chosen.unsaved_peak is None  # step 70 was no better


def test_latest_of_equals_where_the_rule_says_so(tmp_path: Path) -> None:
    chosen = choose(run_with(tmp_path, RIGHT, [40, 70], SelectionRule(tie="latest")))
    assert chosen.step == 70


def test_a_peak_that_was_not_saved_is_named(tmp_path: Path) -> None:
    chosen = choose(run_with(tmp_path, RIGHT, [20, 60, 80, 100]))
    assert chosen.step == 80
    assert chosen.unsaved_peak == (40, 0.72)
    assert any("The peak was step 40" in sentence for sentence in chosen.sentences())


def test_checkpoints_within_noise_are_listed(tmp_path: Path) -> None:
    chosen = choose(run_with(tmp_path, RIGHT, [10, 20, 40, 60, 80, 100]))
    # 36 against 30 the other way on 6 problems: exact McNemar p = 0.03; against 32 on 4 problems: 0.125.
    assert chosen.tied_with == (60, 80, 100)
    assert [c.step for c in chosen.comparisons] == [10, 20, 60, 80, 100]


def test_the_earliest_within_noise_where_the_rule_says_so(tmp_path: Path) -> None:
    right = {0: 10, 10: 20, 20: 33, 30: 36}
    chosen = choose(run_with(tmp_path, right, [10, 20, 30], SelectionRule(within_noise=True)))
    assert chosen.step == 20
    assert chosen.tied_with == (30,)
    assert "earliest" in chosen.rule


def test_a_gain_that_noise_explains_is_called_so(tmp_path: Path) -> None:
    chosen = choose(run_with(tmp_path, {0: 30, 10: 32}, [10]))
    assert chosen.gain is not None
    assert not chosen.gain.beyond_noise
    assert any("not beyond noise" in sentence for sentence in chosen.sentences())


def test_a_model_that_was_better_before_training_is_named(tmp_path: Path) -> None:
    chosen = choose(run_with(tmp_path, {0: 40, 10: 20}, [10]))
    assert chosen.unsaved_peak == (0, 0.8)
    assert any("before training scored higher" in sentence for sentence in chosen.sentences())


def test_a_damaged_checkpoint_is_passed_over_and_named(tmp_path: Path) -> None:
    folder = run_with(tmp_path, RIGHT, [20, 40, 80])
    (folder.checkpoints_path / "checkpoint-40" / "model.safetensors").write_bytes(b"other")
    chosen = choose(folder)
    assert (chosen.step, chosen.damaged) == (80, (40,))


def test_a_half_saved_checkpoint_is_no_candidate(tmp_path: Path) -> None:
    folder = run_with(tmp_path, RIGHT, [20, 40])
    (folder.checkpoints_path / "checkpoint-40" / "complete.json").unlink()
    assert choose(folder).step == 20


def test_test_scores_are_never_looked_at(tmp_path: Path) -> None:
    folder = run_with(tmp_path, {0: 10, 10: 30, 20: 20}, [10, 20])
    best = made_evaluation(20, {"fully_correct": tuple([1.0] * 50)}, split="test")
    folder.append("evaluations.jsonl", best.to_json())
    assert choose(folder).step == 10


def test_a_resumed_runs_later_row_counts_and_a_broken_last_line_does_not(tmp_path: Path) -> None:
    folder = run_with(tmp_path, {0: 10, 10: 30, 20: 20}, [10, 20])
    folder.append("evaluations.jsonl", made_evaluation(20, {"fully_correct": tuple([1.0] * 45 + [0.0] * 5)}).to_json())
    with (folder.path / "evaluations.jsonl").open("a") as stream:
        stream.write('{"step": 30, "split": "dev", "n"')
    assert choose(folder).step == 20


def test_another_metric_of_the_run(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", Plan(rule=SelectionRule(metric="item_accuracy")))
    assert choose(folder).metric == "item_accuracy"


def test_an_unknown_metric_names_those_measured(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="Measured: fully_correct"):
        choose(run_with(tmp_path, RIGHT, [40], SelectionRule(metric="accuracy")))


def test_without_evaluations_or_checkpoints_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no evaluation on dev"):
        choose(run_with(tmp_path / "a", {}, [10]))
    with pytest.raises(RunFolderError, match="No whole checkpoint"):
        choose(run_with(tmp_path / "b", RIGHT, [15]))


def test_a_folder_without_or_with_a_broken_configuration(tmp_path: Path) -> None:
    folder = run_with(tmp_path, RIGHT, [40])
    folder.write_text("config.toml", "task = ")
    with pytest.raises(RunFolderError, match="does not read"):
        choose(folder)
    (folder.path / "config.toml").unlink()
    with pytest.raises(RunFolderError, match=r"no config\.toml"):
        choose(folder)


def test_the_recorded_shape(tmp_path: Path) -> None:
    folder = run_with(tmp_path, RIGHT, [20, 40])
    save(folder, choose(folder))
    recorded = json.loads((folder.path / "selection.json").read_text())
    head = {key: recorded[key] for key in ("checkpoint", "step", "metric", "value", "tied_with", "rule")}
    assert head == {
        "checkpoint": "checkpoints/checkpoint-40",
        "step": 40,
        "metric": "fully_correct",
        "value": 0.72,
        "tied_with": [],
        "rule": "the highest fully_correct; of equals the earliest",
    }
    assert len(recorded["interval"]) == 2
