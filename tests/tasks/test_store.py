"""Splits on disk: drawn once, checked at every load, refused when they differ."""

import json

import pytest

from evenhand.errors import DataError
from evenhand.tasks.stepwise_parity import TASK
from evenhand.tasks.store import load_split, split_hashes


@pytest.fixture
def data(tmp_path):
    load_split(TASK, "dev", tmp_path)
    return tmp_path


def folder_of(data):
    return data / TASK.version


def test_a_split_is_drawn_where_there_is_none(data):
    assert sorted(path.name for path in folder_of(data).iterdir()) == [
        "dev.jsonl",
        "manifest.json",
        "test.jsonl",
        "train.jsonl",
    ]
    assert len(load_split(TASK, "test", data)) == 1000


def test_no_half_folder_is_left_where_drawing_failed(tmp_path, monkeypatch):
    monkeypatch.setattr("evenhand.tasks.store.fill", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(DataError, match="No space left"):
        load_split(TASK, "dev", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_another_version_is_refused(data):
    manifest = folder_of(data) / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": "stepwise-parity-v0"}))
    with pytest.raises(DataError, match="stepwise-parity-v0"):
        load_split(TASK, "dev", data)


def test_a_changed_label_is_found_by_line(data):
    path = folder_of(data) / "train.jsonl"
    lines = path.read_text().splitlines()
    row = json.loads(lines[6])
    lines[6] = json.dumps({**row, "answer": row["answer"] + 1})
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match="line 7"):
        load_split(TASK, "dev", data)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"{not json\n", b""])
def test_a_damaged_file_is_one_clear_error(data, content):
    (folder_of(data) / "dev.jsonl").write_bytes(content)
    with pytest.raises(DataError):
        load_split(TASK, "dev", data)


def test_a_missing_file_is_named(data):
    (folder_of(data) / "test.jsonl").unlink()
    with pytest.raises(DataError, match="test.jsonl"):
        load_split(TASK, "dev", data)


def test_an_unreadable_manifest_is_one_clear_error(data):
    (folder_of(data) / "manifest.json").write_text("[]")
    with pytest.raises(DataError, match="manifest"):
        load_split(TASK, "dev", data)


def test_hashes_are_the_same_on_every_drawing(data, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    load_split(TASK, "dev", other)
    assert split_hashes(TASK, data) == split_hashes(TASK, other)
