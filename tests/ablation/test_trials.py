"""Trials are processes: side by side, resumable, their failures kept. On this machine and on a real Ray cluster."""

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from typer.testing import CliRunner

from evenhand.ablation import trials
from evenhand.ablation.engines import ENGINES, LocalEngine, RayEngine
from evenhand.ablation.engines.engine import Engine, Job
from evenhand.ablation.study import Study, Trial
from evenhand.cli import application
from evenhand.config import RunConfig
from evenhand.errors import ConfigurationError, ModelError, RunFolderError
from evenhand.runfolder import RunFolder

STUDY = Study.model_validate(
    {
        "name": "s",
        "question": "?",
        "varies": ["train.beta"],
        "seeds": [1, 2],
        "reference": "a",
        "arms": {"a": {}, "b": {"train.beta": 0.1}},
    }
)
TRIALS = [Trial(arm, seed, RunConfig()) for seed in STUDY.seeds for arm in STUDY.arms]
# What a process leaves in place of a training: a finished run, or none and a word on stderr.
PRETEND = """
import sys
from pathlib import Path
from evenhand.config import RunConfig
from evenhand.runfolder import RunFolder
path = Path(sys.argv[1])
if sys.argv[2] == "fail":
    sys.exit("error: preflight says stop")
folder = RunFolder(path) if path.exists() else RunFolder.create(path.parent, "t", path)
folder.write_text("config.toml", RunConfig().to_toml())
folder.append("calls.jsonl", {"call": 1})
folder.write_status(sys.argv[2])
"""


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """How each trial ends, by name; ``finished`` where nothing is said."""
    endings: dict[str, str] = {}
    genuine = trials.job_of

    def job_of(study: Study, trial: Trial, state: trials.State) -> Job:
        job = genuine(study, trial, state)
        ending = endings.get(trial.name, "finished")
        command = [sys.executable, "-c", PRETEND, str(state.folder.resolve()), ending]
        return Job(job.name, command, job.folder, job.log)

    monkeypatch.setattr(trials, "job_of", job_of)
    return endings


def run(out: Path, engine: Engine | None = None, retry: bool = False) -> tuple[list[trials.State], list[str]]:
    told: list[str] = []
    folder = trials.open_study(STUDY, out)
    states = trials.run_trials(STUDY, TRIALS, folder, engine or LocalEngine(2), lambda t, _: told.append(t.name), retry)
    return states, told


def test_every_trial_runs_once_and_a_second_call_has_nothing_to_do(tmp_path: Path, pretended: dict[str, str]) -> None:
    states, told = run(tmp_path / "out")
    assert {state.name for state in states} == {"finished"}
    assert len(told) == 4
    assert run(tmp_path / "out")[1] == []


def test_a_failed_trial_stops_no_other_and_is_kept_and_named(tmp_path: Path, pretended: dict[str, str]) -> None:
    pretended["b/seed-1"] = "fail"
    states, _ = run(tmp_path / "out")
    assert [state.name for state in states] == ["finished", "failed", "finished", "finished"]
    assert states[1].reason == "error: preflight says stop"
    assert run(tmp_path / "out")[1] == []  # not again by itself
    pretended.clear()
    states, told = run(tmp_path / "out", retry=True)
    assert told == ["b/seed-1"]
    assert {state.name for state in states} == {"finished"}
    assert (tmp_path / "out" / "b" / "seed-1-failed-1.log").is_file()


def test_an_interrupted_or_killed_trial_goes_on(tmp_path: Path, pretended: dict[str, str]) -> None:
    pretended["a/seed-2"] = "interrupted"
    pretended["b/seed-2"] = "running"  # and its process is gone: killed
    states, _ = run(tmp_path / "out")
    assert [state.name for state in states] == ["finished", "finished", "interrupted", "interrupted"]
    job = trials.job_of(STUDY, TRIALS[2], states[2])
    assert job.name == "a/seed-2"
    pretended.clear()
    states, told = run(tmp_path / "out")
    assert sorted(told) == ["a/seed-2", "b/seed-2"]
    assert {state.name for state in states} == {"finished"}
    assert len((tmp_path / "out" / "a" / "seed-2" / "calls.jsonl").read_text().splitlines()) == 2


def test_the_command_is_train_with_the_same_preflight_then_resume(tmp_path: Path) -> None:
    out = trials.open_study(STUDY, tmp_path / "out")
    job = trials.job_of(STUDY, TRIALS[0], trials.state_of(TRIALS[0], out))
    assert list(job.command[1:4]) == ["-m", "evenhand", "train"]
    assert "--no-preflight" not in job.command
    accepting = STUDY.model_copy(update={"accepts": {"a": ("near-miss-scores-full",)}})
    job = trials.job_of(accepting, TRIALS[0], trials.state_of(TRIALS[0], out))
    assert list(job.command[-2:]) == ["--accept", "near-miss-scores-full"]
    folder = RunFolder.create(out, "t", out / "a" / "seed-1")
    folder.write_text("config.toml", RunConfig().to_toml())
    job = trials.job_of(STUDY, TRIALS[0], trials.state_of(TRIALS[0], out))
    assert list(job.command[4:]) == ["--resume", str(folder.path)]


def test_another_study_or_a_foreign_folder_is_not_written_over(tmp_path: Path) -> None:
    trials.open_study(STUDY, tmp_path / "out")
    more_seeds = STUDY.model_copy(update={"seeds": (1, 2, 3)})
    trials.open_study(more_seeds, tmp_path / "out")  # seeds may be added
    with pytest.raises(RunFolderError, match="another study"):
        trials.open_study(STUDY.model_copy(update={"configuration": "smollm2-135m"}), tmp_path / "out")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "letter.txt").write_text("dear")
    with pytest.raises(RunFolderError, match="holds no study"):
        trials.open_study(STUDY, tmp_path / "foreign")


def sleepers(folder: Path, count: int) -> list[Job]:
    """Jobs that say when they began and ended."""
    code = "import time; start = time.time(); time.sleep(1.5); print(start, time.time())"
    return [Job(str(i), [sys.executable, "-c", code], str(folder), str(folder / f"{i}.log")) for i in range(count)]


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_two_workers_work_at_once(name: str, tmp_path: Path) -> None:
    jobs = [
        *sleepers(tmp_path, 2),
        Job("bad", [sys.executable, "-c", "raise SystemExit(3)"], str(tmp_path), str(tmp_path / "x.log")),
    ]
    ended = {job.name: code for job, code in ENGINES[name](2).run(jobs)}
    assert ended == {"0": 0, "1": 0, "bad": 3}
    (first, first_end), (second, second_end) = (
        map(float, (tmp_path / f"{i}.log").read_text().split()) for i in range(2)
    )
    assert max(first, second) < min(first_end, second_end)


def test_a_study_on_a_ray_cluster_of_two_workers(tmp_path: Path, pretended: dict[str, str]) -> None:
    pretended["b/seed-2"] = "fail"
    states, told = run(tmp_path / "out", RayEngine(2))
    assert [state.name for state in states] == ["finished", "finished", "finished", "failed"]
    assert len(told) == 4


def test_a_missing_ray_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="Ray is not installed"):
        RayEngine(2)


def test_a_real_study_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small: dict[str, Any] = {"max_steps": 2, "per_device_train_batch_size": 2, "num_generations": 2}
    small |= {"gradient_accumulation_steps": 1, "max_completion_length": 64}
    study = {
        "name": "tiny",
        "question": "Does anything happen in two steps?",
        "varies": ["train.learning_rate"],
        "seeds": [1, 2],
        "reference": "low",
        "until": {"metric": "item_accuracy", "at_least": 0.1},
        "preflight": False,
        "set": {"train": small, "evaluation": {"every": 2}},
        "arms": {"low": {"train.learning_rate": 1e-6}, "high": {"train.learning_rate": 1e-5}},
    }
    (tmp_path / "tiny.toml").write_text(tomli_w.dumps(study))
    start = time.monotonic()
    done = CliRunner().invoke(application, ["ablate", "tiny.toml", "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert [trial["state"] for trial in result["trials"]] == ["finished"] * 4
    assert len(result["measured"]) == 4
    assert result["contrasts"][0]["verdict"] in {"cannot tell", "better", "worse"}
    assert [run["said"] for run in result["until"]["runs"]] == ["0"] * 4  # the model labels items before training
    assert result["budgets"][0] | {"source": ""} == {"arm": "low", "fewest": 4, "most": 4, "source": ""}
    assert json.loads((tmp_path / "studies" / "tiny" / "result.json").read_text()) == result
    curves = [json.loads(line) for line in (tmp_path / "studies" / "tiny" / "curves.jsonl").read_text().splitlines()]
    assert [(curve["arm"], curve["seed"]) for curve in curves] == [("low", 1), ("high", 1), ("low", 2), ("high", 2)]
    assert [point[:2] for point in curves[0]["points"]] == [[0, 0], [2, 4]]
    took, start = time.monotonic() - start, time.monotonic()
    again = CliRunner().invoke(application, ["ablate", "tiny.toml"])
    assert again.exit_code == 0
    assert "Does anything happen" in again.stdout
    assert "completions until item_accuracy stays at 10%" in again.stdout
    assert time.monotonic() - start < took


def test_a_missing_model_is_said_before_a_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(application, ["ablate", "credit-smollm2", "--set", "model=nowhere/model"])
    assert isinstance(done.exception, ModelError)
    assert not (tmp_path / "studies").exists()
