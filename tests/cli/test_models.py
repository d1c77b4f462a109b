"""``evenhand models`` and ``evenhand models build``."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenhand.cli import models
from evenhand.errors import ModelError

RUNNER = CliRunner()


def test_the_list_names_every_model_and_what_was_planted():
    result = RUNNER.invoke(models.app, [])
    assert result.exit_code == 0
    assert "embedded" in result.stdout
    assert "smollm2-135m" in result.stdout
    assert "moved toward five" in result.stdout


def test_the_list_as_json():
    rows = json.loads(RUNNER.invoke(models.app, ["--json"]).stdout)
    assert [row["name"] for row in rows] == ["embedded", "smollm2-135m"]
    assert rows[0]["built"] is True
    assert (Path(rows[0]["directory"]) / "config.json").is_file()


def test_building_writes_where_it_is_told(monkeypatch, tmp_path):
    built = []
    monkeypatch.setattr(models, "build_into", lambda name, directory: built.append((name, directory)))
    result = RUNNER.invoke(models.app, ["build", "embedded", "--out", str(tmp_path / "new")])
    assert result.exit_code == 0
    assert built == [("embedded", tmp_path / "new")]
    assert result.stdout.strip() == str(tmp_path / "new")


def test_an_unknown_model_and_an_unwritable_place_are_refused(tmp_path):
    with pytest.raises(ModelError, match="no model named 'gpt'"):
        RUNNER.invoke(models.app, ["build", "gpt"], catch_exceptions=False)
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match="cannot be written"):
        RUNNER.invoke(models.app, ["build", "embedded", "--out", str(tmp_path / "file" / "x")], catch_exceptions=False)
