"""The commands that look at a run: data on stdout, the rest on stderr, exit code 2 for a wrong input."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.made_runs import Plan, make_run
from typer.testing import CliRunner

from evenhand.cli import application

COMMAND = CliRunner()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", Plan(steps=10)).path


def test_select_prints_the_choice_and_every_other_checkpoint(run: Path) -> None:
    done = COMMAND.invoke(application, ["select", str(run)])
    assert done.exit_code == 0
    assert "Step 10 is chosen" in done.stdout
    assert "Other saved checkpoints" in done.stdout
    assert json.loads((run / "selection.json").read_text())["step"] == 10


def test_select_as_json(run: Path) -> None:
    choice = json.loads(COMMAND.invoke(application, ["select", str(run), "--json"]).stdout)
    assert list(choice)[:7] == ["checkpoint", "step", "metric", "value", "interval", "tied_with", "rule"]


def test_the_choice_of_an_unfinished_run_is_not_recorded(tmp_path: Path) -> None:
    going = make_run(tmp_path / "going", Plan(steps=10, state="running")).path
    done = COMMAND.invoke(application, ["select", str(going)])
    assert "not finished" in done.stderr
    assert not (going / "selection.json").exists()


def test_a_second_look_at_test_is_marked_beside_the_choice(run: Path) -> None:
    (run / "test.json").write_text(json.dumps({"records": [{}, {"again": "curiosity"}]}))
    assert "Test was looked at 2 times" in COMMAND.invoke(application, ["select", str(run)]).stdout


def test_report_goes_into_the_run_or_beside_several(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(run / "report.html") in COMMAND.invoke(application, ["report", str(run)]).stdout
    other = make_run(tmp_path / "other", Plan(steps=10)).path
    done = json.loads(COMMAND.invoke(application, ["report", str(run), str(other), "--json"]).stdout)
    assert done["page"] == "report.html"
    assert (tmp_path / "report.html").stat().st_size == done["bytes"]
    COMMAND.invoke(application, ["report", str(run), "--out", "pages/mine.html"])
    assert (tmp_path / "pages" / "mine.html").is_file()


@pytest.mark.parametrize("command", ["select", "report", "test"])
def test_a_wrong_folder_is_one_sentence(command: str, tmp_path: Path) -> None:
    call = [sys.executable, "-m", "evenhand", command, str(tmp_path / "absent")]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: There is no run folder")
    assert "Traceback" not in done.stderr
