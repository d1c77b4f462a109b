"""TRL's ``report_to`` works unchanged: our evaluations and findings stand in a real TensorBoard log."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]
from transformers import TrainerCallback
from typer.testing import CliRunner

from evenhand.cli import application
from evenhand.records import Finding
from evenhand.runfolder import RunFolder
from evenhand.training.trackers import FinalFindings, tracked


def test_evaluations_stand_in_tensorboards_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = ("max_steps=12", "per_device_train_batch_size=8", "num_generations=4", "gradient_accumulation_steps=1")
    tight = "max_completion_length=8"  # so that a finding is made: no answer fits
    settings = [
        word for one in (*small, tight, "evaluation.every=6", "report_to=tensorboard") for word in ("--set", one)
    ]
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
    assert sorted(logged) == [0, 6, 12]
    for evaluation in evaluations:
        assert logged[evaluation.step] == pytest.approx(evaluation.metrics["fully_correct"], abs=1e-6)
    assert "train/rewards/item/mean" in scalars
    codes = [row["code"] for row in RunFolder(tmp_path / "run").rows("findings.jsonl")]
    assert "truncated-before-answer" in codes
    assert {value for _, value in scalars["train/findings/truncated-before-answer"]} == {3.0}


class Heard(TrainerCallback):
    """A tracker of ``report_to``, as far as its module says."""

    __module__ = "transformers.integrations.example"

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        self.rows.append(logs)


def test_a_finding_goes_to_the_trackers_alone_and_is_still_said() -> None:
    tracker = Heard()
    said: list[Finding] = []
    handler = SimpleNamespace(callbacks=[tracker, TrainerCallback()])
    trainer: Any = SimpleNamespace(callback_handler=handler, args=None, state=None, control=None, model=None)
    tracked(trainer, said.append)(Finding("collapsing", "warn", "training", "It begins."))
    assert tracker.rows == [{"findings/collapsing": 2.0}]
    assert [finding.code for finding in said] == ["collapsing"]


def test_the_last_findings_come_before_the_trackers_close() -> None:
    order: list[str] = []

    class Named(TrainerCallback):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_train_end(self, *_: Any, **__: Any) -> None:
            order.append(self.name)

    watchdog = Named("watchdog")
    trainer: Any = SimpleNamespace(callback_handler=SimpleNamespace(callbacks=[Named("tracker"), watchdog]))
    FinalFindings(watchdog).attach(trainer)
    for callback in trainer.callback_handler.callbacks:
        callback.on_train_end(None, None, None)
    assert order == ["watchdog", "tracker", "watchdog"]
