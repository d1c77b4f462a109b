"""All checks on the embedded model: no alarm, nothing changed, training the same with and without."""

import random
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from evenhand.config import Precision, draft
from evenhand.errors import DataError
from evenhand.models import resolve as directory_of
from evenhand.models.loading import load
from evenhand.preflight.measure import marks_of_training, measure_model, unequal_tensors
from evenhand.preflight.run import preflight_draft, run_preflight
from evenhand.runfolder import RunFolder, file_hash
from evenhand.training import run
from evenhand.training.arguments import resolve


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("preflight")


def drafted(folder, source="embedded", **chosen):
    return draft(source, {"data": str(folder / "data"), "runs": str(folder / "runs"), "device": "cpu", **chosen})


def serious(report):
    return [finding.code for finding in report.findings if finding.severity in ("warn", "stop")]


@pytest.fixture(scope="module")
def report(folder):
    torch.manual_seed(7)
    before = (random.getstate(), np.random.get_state()[1].tolist(), torch.random.get_rng_state())
    weights = file_hash(directory_of("embedded") / "model.safetensors")
    start = time.process_time()
    made = run_preflight(resolve(drafted(folder)))
    assert time.process_time() - start < 60
    assert file_hash(directory_of("embedded") / "model.safetensors") == weights
    after = (random.getstate(), np.random.get_state()[1].tolist(), torch.random.get_rng_state())
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])
    return made


def test_the_default_configuration_raises_no_alarm(report):
    assert serious(report) == []
    assert report.unknown == ()


def test_batch_arithmetic_samples_and_shares_are_always_said(report):
    said = {finding.code: finding for finding in report.findings}
    assert said["steps-explained"].evidence["completions_per_update"] == 32
    assert said["steps-explained"].evidence["seconds"] > 0
    assert said["sampling-measured"].evidence["completions"] == 128
    assert said["updates-swallowed"].severity == "ok"
    assert "The fresh model earns" in said["reward-accepts-degenerate-answer"].message


@pytest.mark.parametrize("source", ["smollm2-135m", "qwen3-0.6b"])
def test_the_other_shipped_configurations_raise_none_without_their_model(folder, source):
    report = preflight_draft(drafted(folder, source), with_model=False)
    assert not serious(report)


def test_training_is_the_same_with_and_without(folder):
    chosen = {"data": str(folder / "data"), "device": "cpu", "train.max_steps": 2, "evaluation.every": 2}

    def look(config):
        return run_preflight(config, with_probe=False).to_json()

    rows = []
    for name, examine in (("with", look), ("without", None)):
        run.start("embedded", chosen, out=folder / name, examine=examine)
        metrics = RunFolder(folder / name).metrics()
        timed = ("time", "runtime", "per_second", "seconds")
        rows.append([{k: v for k, v in one.values.items() if not any(t in k for t in timed)} for one in metrics])
    assert len(rows[0]) >= 2
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("chosen", "code"),
    [
        ({"train.num_generations": 7}, "batch-not-divisible"),
        ({"train.num_generations": 1}, "group-size-one"),
        ({"train.logging_steps": 0.0001}, "logging-steps-fractional"),
        ({"train.fp16": True}, "bf16-unsupported-here"),
        ({"device": "mps"}, "device-not-usable"),
        ({"selection.metric": "eval_reward"}, "best-metric-unavailable-in-this-version"),
        ({"train.save_steps": 20, "evaluation.every": 10}, "evaluation-not-on-saved-steps"),
        ({"train.reward_weights": [1.0, 1.0, 0.0]}, "reward-weight-zero"),
    ],
)
def test_a_wrong_setting_is_found_before_the_model_is_loaded(folder, chosen, code):
    report = preflight_draft(drafted(folder, **chosen), with_model=False)
    assert code in {finding.code for finding in report.findings}


@pytest.mark.parametrize(
    ("chosen", "code"),
    [
        ({"train.max_completion_length": 8}, "completion-budget-too-small"),
        ({"train.chat_template_kwargs": {}}, "thinking-mode-not-set"),
    ],
)
def test_a_wrong_setting_for_this_model_is_found(folder, chosen, code):
    report = preflight_draft(drafted(folder, **chosen), with_probe=False)
    assert code in {finding.code for finding in report.findings}


def test_a_directory_without_weights_stops_and_names_them(folder, tmp_path):
    report = preflight_draft(drafted(folder, model=str(tmp_path)))
    found = next(finding for finding in report.findings if finding.code == "model-not-loadable")
    assert "model.safetensors" in found.message


def test_a_damaged_data_folder_is_one_sentence(tmp_path):
    (tmp_path / "data" / "stepwise-parity-v1").mkdir(parents=True)
    with pytest.raises(DataError, match="manifest"):
        preflight_draft(drafted(tmp_path))


def test_a_trained_model_is_not_fresh():
    loaded = load(directory_of("embedded"), Precision())
    assert unequal_tensors(loaded) == ()
    assert marks_of_training(loaded.model) == ""
    weights = next(loaded.model.parameters())
    weights.grad = torch.ones_like(weights)
    with torch.no_grad():
        weights += 1e-3
    assert len(unequal_tensors(loaded)) == 1
    assert "hold gradients" in marks_of_training(loaded.model)


def test_real_dtypes_are_compared_with_the_configured_ones(folder):
    config = resolve(drafted(folder))
    loaded = load(directory_of("embedded"), Precision(body="bfloat16", norms="bfloat16"))
    measured = measure_model(loaded, config, [])
    assert measured.dtypes["norms"].keys() == {"bfloat16"}
    assert measured.planned["norms"] == "float32"
    assert replace(measured, name="x").parameters == measured.parameters > 100_000
