"""Names of models, and directories."""

import pytest

from evenhand.errors import ModelError
from evenhand.models import MODELS, resolve
from evenhand.models.known import EMBEDDED


def test_the_embedded_model_ships_with_the_package():
    assert EMBEDDED.built
    assert (resolve("embedded") / "model.safetensors").stat().st_size < 3_000_000


def test_a_directory_is_itself(tmp_path):
    assert resolve(str(tmp_path)) == tmp_path


def test_a_model_that_is_not_built_says_how(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ModelError, match=r"Run: evenhand models build smollm2-135m"):
        resolve("smollm2-135m")


def test_a_misspelt_name_gets_its_near_match():
    with pytest.raises(ModelError, match="Did you mean embedded"):
        resolve("embeded")


def test_a_missing_directory_is_refused_and_a_file_too(tmp_path):
    with pytest.raises(ModelError, match="neither a known model nor a directory"):
        resolve(tmp_path / "nowhere")
    (tmp_path / "weights").touch()
    with pytest.raises(ModelError, match="is a file"):
        resolve(tmp_path / "weights")


def test_what_was_planted_is_said():
    assert "moved toward five" in EMBEDDED.planted
    assert len({model.name for model in MODELS}) == len(MODELS)
