"""A run folder reads whatever was cut short, never reports what was not logged, and goes back to a checkpoint."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import CheckpointError, RunFolderError
from evenhand.intervals import rate_interval
from evenhand.records import Completion, Evaluation, Finding, StepMetrics
from evenhand.runfolder import RunFolder, append_line, damage, mark_complete, read_lines


@pytest.fixture
def folder(tmp_path):
    return RunFolder.create(tmp_path / "runs", "stepwise-parity")


def evaluation(step):
    return Evaluation(
        step,
        "dev",
        2,
        {"right": 0.5},
        {"right": (0.1, 0.9)},
        {"2": 2},
        ("2", "3"),
        ("2", "2"),
        {"right": (1.0, 0.0)},
        0.1,
    )


def completion(step):
    return Completion(step, 0, "prompt", "text", {"item": 1.0}, 1.0, 0.5)


def save_checkpoint(folder, step, whole=True):
    path = folder.checkpoints_path / f"checkpoint-{step}"
    path.mkdir()
    (path / "model.safetensors").write_bytes(b"weights")
    if whole:
        mark_complete(path)
    return path


def test_two_runs_never_share_a_folder(tmp_path):
    assert RunFolder.create(tmp_path, "t").path != RunFolder.create(tmp_path, "t").path


def test_a_folder_in_use_is_refused_and_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(RunFolderError, match="not empty"):
        RunFolder.create(tmp_path, "t", out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_file_in_the_way_is_one_clear_error(tmp_path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(RunFolderError, match="cannot be written"):
        RunFolder.create(tmp_path / "runs", "t")


def test_opening_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunFolderError, match="no run folder"):
        RunFolder.open(tmp_path)
    with pytest.raises(RunFolderError, match="There is no"):
        RunFolder.open(tmp_path / "nowhere")


def test_rows_come_back_as_they_were_written(folder):
    folder.append("metrics.jsonl", StepMetrics(1, {"loss": 0.0, "kl": None, "grad_norm": math.nan}).to_json())
    folder.append("evaluations.jsonl", evaluation(1).to_json())
    folder.append("findings.jsonl", Finding("solved", "ok", "training", "all right", step=1).to_json())
    folder.write_completions(1, [completion(1)])
    (row,) = folder.metrics()
    assert row.values["loss"] == 0.0
    assert row.values["kl"] is None
    assert math.isnan(row.values["grad_norm"])
    assert "entropy" not in row.values
    assert folder.evaluations() == [evaluation(1)]
    assert folder.findings()[0].code == "solved"
    assert next(folder.completions(1))["text"] == "text"


def test_a_last_line_cut_short_is_passed_over_and_ended_by_the_next(folder):
    folder.append("metrics.jsonl", {"step": 1, "loss": 1.0})
    with (folder.path / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 2, "lo')
    assert [row.step for row in folder.metrics()] == [1]
    folder.append("metrics.jsonl", {"step": 2, "loss": 2.0})
    assert [row.step for row in folder.metrics()] == [1, 2]


@given(st.binary(max_size=300))
def test_any_bytes_read_as_rows_or_nothing(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_bytes(content)
    assert all(isinstance(row, dict) for row in read_lines(path))


@given(st.text())
def test_any_text_survives_a_row(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    append_line(path, json.dumps({"text": text}, ensure_ascii=False))
    assert [row["text"] for row in read_lines(path)] == [text.encode(errors="surrogatepass").decode(errors="replace")]


def test_half_saved_checkpoints_are_no_checkpoints(folder):
    save_checkpoint(folder, 10)
    save_checkpoint(folder, 20, whole=False)
    assert [checkpoint.step for checkpoint in folder.checkpoints()] == [10]
    assert folder.resume_point().step == 10


def test_a_damaged_checkpoint_is_named_and_the_one_before_offered(folder):
    save_checkpoint(folder, 10)
    path = save_checkpoint(folder, 20)
    (path / "model.safetensors").write_bytes(b"other")
    with pytest.raises(CheckpointError, match="checkpoint-20 is damaged") as caught:
        folder.resume_point()
    assert "step 10" in caught.value.remedy


@pytest.mark.parametrize("mark", ["", "[]", "{}", '{"sha256": 3}'])
def test_a_mark_that_does_not_read_is_damage(folder, mark):
    path = save_checkpoint(folder, 10)
    (path / "complete.json").write_text(mark)
    assert damage(path) is not None


def test_a_missing_file_is_damage(folder):
    path = save_checkpoint(folder, 10)
    (path / "model.safetensors").unlink()
    assert damage(path) == "model.safetensors is missing"


def test_going_back_forgets_everything_later_and_half_checkpoints(folder):
    for step in (0, 10, 20):
        folder.append("evaluations.jsonl", evaluation(step).to_json())
    for step in (1, 10, 11, 20):
        folder.append("metrics.jsonl", {"step": step, "loss": 0.0})
        folder.write_completions(step, [completion(step)])
    save_checkpoint(folder, 10)
    save_checkpoint(folder, 20, whole=False)
    folder.rewind(10)
    assert [row.step for row in folder.metrics()] == [1, 10]
    assert [row.step for row in folder.evaluations()] == [0, 10]
    assert [row["step"] for row in folder.completions()] == [1, 10]
    assert [checkpoint.step for checkpoint in folder.all_checkpoints()] == [10]


def test_checkpoints_may_lie_where_somebody_s_own_trainer_saves_them(folder, tmp_path):
    folder.link_checkpoints(tmp_path / "output")
    (tmp_path / "output" / "checkpoint-5").mkdir(parents=True)
    mark_complete(tmp_path / "output" / "checkpoint-5")
    assert [checkpoint.step for checkpoint in folder.checkpoints()] == [5]


def test_a_checkpoint_that_was_not_saved_names_those_that_were(folder):
    save_checkpoint(folder, 10)
    with pytest.raises(CheckpointError) as caught:
        folder.checkpoint(70)
    assert "10" in caught.value.remedy


def test_intervals_hold_the_rate_and_stay_within_zero_and_one():
    assert rate_interval([1.0] * 50)[1] == 1.0
    assert rate_interval([1.0] * 50)[0] == pytest.approx(0.9287, abs=1e-3)
    low, high = rate_interval([1.0] * 15 + [0.0] * 35)
    assert (low, high) == (pytest.approx(0.191, abs=2e-3), pytest.approx(0.438, abs=2e-3))
    low, high = rate_interval([0.9, 1.0, 0.95])
    assert 0.0 <= low < 0.95 < high <= 1.0
    assert rate_interval([]) == (0.0, 1.0)
    assert rate_interval([0.5]) == (0.0, 1.0)
