"""The live view reads the folder alone, whatever became of the run."""

import io
import json
import os
import subprocess
import sys

import pytest
from rich.console import Console

from evenhand.errors import RunFolderError
from evenhand.runfolder import RunFolder
from evenhand.watch import changes, draw, look, spark, spoken
from tests.made_runs import Plan, make_run


def drawn(path, width=120):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(draw(look(path), width))
    return console.export_text()


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run", Plan(steps=10))


@pytest.mark.parametrize("width", [60, 120, 200])
def test_a_run_shows_what_a_person_looks_for(run, width):
    text = drawn(run.path, width)
    for word in (
        "step 10 of 10",
        "prompts",
        "reward",
        "answer",
        "uniform groups",
        "gradient norm",
        "problems",
        "given",
    ):
        assert word in text


def test_a_run_that_has_just_begun_shows_that(tmp_path):
    folder = RunFolder.create(tmp_path, "t", tmp_path / "run")
    assert "No step has been logged yet" in drawn(folder.path)


def test_a_run_whose_process_is_gone_was_killed(run):
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    run.write_json("status.json", {"state": "running", "process": gone.pid})
    assert "killed" in drawn(run.path)


def test_a_run_in_another_living_process_is_running(run):
    run.write_json("status.json", {"state": "running", "process": os.getpid()})
    assert look(run.path).state == "running"


def test_the_time_left_is_told_for_rollout_and_update_apart(run):
    run.write_json("status.json", {"state": "running", "process": os.getpid(), "max_steps": 20})
    for step in (11, 12):
        run.append("metrics.jsonl", {"step": step, "reward": 1.0, "step_time": 3.0, "rollout_time": 2.0})
    config = run.read_text("config.toml").replace("max_steps = 10", "max_steps = 22")
    run.write_text("config.toml", config)
    assert "30 s: 20 s rollout, 10 s update" in drawn(run.path)


def test_findings_are_shown(run):
    finding = {"code": "collapsing", "severity": "warn", "stage": "training", "step": 7, "message": "Entropy falls."}
    run.append("findings.jsonl", {**finding, "evidence": {}, "remedy": ""})
    assert "WARN collapsing (step 7) Entropy falls." in drawn(run.path)


def test_a_row_cut_short_does_no_harm(run):
    with (run.path / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 11, "rew')
    assert "step 10 of 10" in drawn(run.path)


def test_watching_ends_with_the_run(run):
    assert len(list(changes(run.path, every=0.01))) == 1


def test_completions_are_text_and_never_markup(run):
    row = json.loads((run.path / "evaluations.jsonl").read_text().splitlines()[-1])
    row |= {"step": 99, "predictions": {"[bold]\x1b[31m": 50}}
    run.append("evaluations.jsonl", row)
    assert "[bold]" in drawn(run.path)
    assert "\x1b" not in drawn(run.path)


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunFolderError):
        look(tmp_path / "nothing")


def test_times_are_spoken_with_two_units():
    assert [spoken(seconds) for seconds in (0, 59, 61, 3725, 90061)] == ["0 s", "59 s", "1 m 1 s", "1 h 2 m", "1 d 1 h"]


def test_a_curve_goes_from_low_to_high():
    assert spark([0, 1, 2, 3]) == "▁▃▆█"
    assert spark([5, 5]) == "▁▁"
