"""Completions in the page: nothing is lost, nothing grows beyond the page's size."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

from evenhand.report.completions import LONGEST_TEXT, Chunk, line_marks, pack
from evenhand.report.reading import read_runs
from evenhand.runfolder import RunFolder
from evenhand.tasks import TASKS
from tests.made_runs import Plan, add_finding, make_run

TASK = TASKS[0]


def unpacked(chunk: Chunk) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(chunk.data)))
    return content


def test_every_completion_comes_back(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", Plan(steps=6, groups=2))
    packed = pack(read_runs([folder]))
    assert not packed.gaps
    found = []
    for chunk in packed.chunks:
        if chunk.source == "sampled":
            content = unpacked(chunk)
            found += [(row[0], row[1], content["texts"][row[2]], content["prompts"][row[3]]) for row in content["rows"]]
    kept = [(row["step"], row["group"], row["text"], row["prompt"]) for row in folder.completions()]
    assert found == kept


def test_beyond_the_budget_evenly_spaced_steps_and_those_that_matter_stay(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", Plan(steps=40, every=10, save=10, problems=5, groups=8))
    add_finding(folder, 17)
    whole = pack(read_runs([folder]))
    packed = pack(read_runs([folder]), budget=whole.size // 3)
    steps = [step for chunk in packed.chunks if chunk.source == "sampled" for step in chunk.steps]
    assert packed.size <= whole.size // 3
    assert {1, 17, 40} <= set(steps)
    assert len(steps) < 40
    assert f"{len(steps)} of 40 steps" in packed.gaps[0]


def test_a_very_long_text_is_cut_and_its_length_kept(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", Plan(steps=1, every=1, save=1))
    rows = list(folder.completions(1))
    text = "x" * 1_000_000
    (folder.path / "completions" / "step-000001.jsonl").write_text(json.dumps({**rows[0], "text": text}) + "\n")
    chunk = next(chunk for chunk in pack(read_runs([folder])).chunks if chunk.source == "sampled")
    content = unpacked(chunk)
    assert content["texts"] == [text[:LONGEST_TEXT]]
    assert content["clipped"] == {"0": 1_000_000}


def test_rows_of_a_plain_trl_run_need_no_task(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "trl", tmp_path / "run")
    row = {"step": 1, "group": 0, "prompt": "p", "text": "t", "rewards": {"f": 1.0}, "reward": 1.0, "advantage": None}
    folder.append("completions/step-000001.jsonl", row)
    content = unpacked(pack(read_runs([folder])).chunks[0])
    assert content["rows"][0][4:9] == [1.0, None, None, None, None]


def test_every_line_that_the_task_judges_is_marked() -> None:
    columns = {"numbers": [2, 3, 2, 5], "answer": 2, "task_version": TASK.version}
    assert line_marks(TASK, columns, "2: even\n3: even\n\n2: even\n5: odd\nAnswer: 3") == "rw rrp"
    assert line_marks(TASK, columns, "") == ""
    assert line_marks(TASK, {}, "2: even") == ""
    assert line_marks(None, columns, "2: even") == ""
