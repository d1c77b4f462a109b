"""The one look at test: recorded with what was scored, never repeated by accident, never used to choose."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenhand import testing
from evenhand.cli import application
from evenhand.errors import EvenhandError, ModelError, RunFolderError
from evenhand.models import resolve
from evenhand.records import Problem
from evenhand.report import build
from evenhand.runfolder import RunFolder, mark_complete
from evenhand.selection import choose
from evenhand.tasks.store import load_split
from evenhand.testing import look, prepare, recorded_tests, weight_hashes
from tests.made_runs import Plan, make_run

PROBLEMS = 12  # of the 1000, so that the test is quick


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A finished run whose only checkpoint is the embedded model itself."""
    folder = make_run(tmp_path / "run", Plan(steps=2, every=1, save=2, start=0.0, skill=1.0))
    folder.write_json("hashes.json", {"model": weight_hashes(resolve("embedded"))})
    checkpoint = folder.checkpoint(2).path
    shutil.copytree(resolve("embedded"), checkpoint, dirs_exist_ok=True)
    mark_complete(checkpoint)
    whole = load_split

    def few(*arguments: Any) -> list[Problem]:
        return whole(*arguments)[:PROBLEMS]

    monkeypatch.setattr(testing, "load_split", few)
    return folder


def test_it_is_recorded_once_with_hashes_and_the_base_beside_it(run: RunFolder, tmp_path: Path) -> None:
    told: list[int] = []
    examined = prepare(run, tmp_path / "data")
    record = look(examined, None, "cpu", told.append)
    assert sum(told) == 2 * PROBLEMS == examined.questions
    assert [one["sha256"] for one in recorded_tests(run)] == [record["sha256"]]
    assert (record["step"], record["n"], record["metric"], record["again"]) == (2, PROBLEMS, "fully_correct", None)
    assert record["sha256"]["base"] == record["sha256"]["selected"] == weight_hashes(resolve("embedded"))
    assert len(record["sha256"]["data"]) == 64
    assert record["difference"]["fully_correct"]["value"] == 0.0  # the same model twice
    assert len(list(run.answers("test", 2))) == len(list(run.answers("test", 0))) == PROBLEMS
    with pytest.raises(RunFolderError, match="scored already"):
        look(examined, None, "cpu", told.append)
    with pytest.raises(RunFolderError, match="Give a reason"):
        look(examined, "  ", "cpu", told.append)


def test_the_command_shows_the_record_and_marks_a_second_look(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = CliRunner()
    first = command.invoke(application, ["test", str(run.path), "--device", "cpu"])
    assert first.exit_code == 0, first.output
    monkeypatch.setattr(testing, "look", None)  # a second call must not score
    shown = command.invoke(application, ["test", str(run.path)])
    assert shown.stdout == first.stdout
    assert f"{PROBLEMS} test problems, step 2" in shown.stdout
    monkeypatch.setattr(testing, "look", look)
    again = command.invoke(application, ["test", str(run.path), "--again", "the parser was mended", "--device", "cpu"])
    assert "looked at again" in again.stdout
    assert "the parser was mended" in again.stdout
    assert [record["again"] for record in recorded_tests(run)] == [None, "the parser was mended"]
    assert "scored 2 times" in build([run])
    assert "the parser was mended" in build([run])


def test_selecting_on_test_is_impossible(run: RunFolder, tmp_path: Path) -> None:
    before = choose(run)
    look(prepare(run, tmp_path / "data"), None, "cpu", lambda _: None)
    assert choose(run) == before
    assert all(evaluation.split != "test" for evaluation in run.evaluations())


def test_an_unfinished_run_another_base_or_a_damaged_checkpoint_is_refused(run: RunFolder, tmp_path: Path) -> None:
    run.write_status("running")
    with pytest.raises(RunFolderError, match="not finished"):
        prepare(run, tmp_path / "data")
    run.write_status("finished")
    run.write_json("hashes.json", {"model": {"model.safetensors": "0" * 64}})
    with pytest.raises(ModelError, match="not the model that this run began with"):
        prepare(run, tmp_path / "data")
    (run.checkpoint(2).path / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(EvenhandError, match="No whole checkpoint"):
        prepare(run, tmp_path / "data")


@pytest.mark.parametrize("content", ["", "[]", '{"records": 3}', '{"records": [{"ste'])
def test_a_damaged_record_is_no_licence_for_another_first_look(tmp_path, content):
    folder = RunFolder.create(tmp_path, "t", out=tmp_path / "run")
    (folder.path / "test.json").write_text(content)
    with pytest.raises(RunFolderError, match="does not read"):
        recorded_tests(folder)
