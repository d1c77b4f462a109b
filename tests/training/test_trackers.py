"""TRL's ``report_to`` works unchanged: our evaluations and findings stand in a real TensorBoard log."""

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]
from typer.testing import CliRunner

from evenhand.cli import application
from evenhand.records import Finding
from evenhand.runfolder import RunFolder
from evenhand.training.trackers import tracked


def test_evaluations_stand_in_tensorboards_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = ("max_steps=2", "per_device_train_batch_size=2", "num_generations=2", "gradient_accumulation_steps=1")
    settings = [word for one in (*small, "evaluation.every=1", "report_to=tensorboard") for word in ("--set", one)]
    done = CliRunner().invoke(application, ["train", "embedded", "--out", "run", "--no-preflight", *settings])
    assert done.exit_code == 0, done.output
    evaluations = RunFolder(tmp_path / "run").evaluations()
    files = sorted(tmp_path.rglob("events.out.tfevents.*"))
    assert files
    scalars: dict[str, list[tuple[int, float]]] = {}
    for file in files:
        log = EventAccumulator(str(file)).Reload()
        scalars |= {tag: [(event.step, event.value) for event in log.Scalars(tag)] for tag in log.Tags()["scalars"]}
    logged = dict(scalars["train/dev/fully_correct"])
    assert sorted(logged) == [0, 1, 2]
    for evaluation in evaluations:
        assert logged[evaluation.step] == pytest.approx(evaluation.metrics["fully_correct"], abs=1e-6)
    assert "train/rewards/item/mean" in scalars


def test_a_finding_joins_the_next_log_row_and_is_still_said() -> None:
    trainer = SimpleNamespace(_metrics={"train": defaultdict(list)})
    heard: list[Finding] = []
    tracked(trainer, heard.append)(Finding("collapsing", "warn", "training", "It begins."))  # type: ignore[arg-type]
    assert trainer._metrics["train"] == {"findings/collapsing": [2.0]}
    assert [finding.code for finding in heard] == ["collapsing"]
    plain = SimpleNamespace()  # a trainer that is none of TRL's
    tracked(plain, heard.append)(Finding("collapsing", "warn", "training", "It begins."))  # type: ignore[arg-type]
    assert len(heard) == 2
