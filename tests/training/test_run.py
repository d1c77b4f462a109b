"""Real runs on the model that comes with Evenhand: what a run folder holds, and what is kept at which precision."""

import json

import pytest
import torch
from safetensors.torch import load_file

from evenhand.diagnosis.readers import read_history
from evenhand.models.loading import load
from evenhand.models.precision import parameter_group
from evenhand.runfolder import RunFolder
from evenhand.scoring import Request, score_model
from evenhand.training import run

STEPS = 2
ONE_PROMPT = {"train.max_steps": STEPS, "evaluation.every": STEPS, "gradient_accumulation_steps": 1}


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    return tmp_path_factory.mktemp("workplace")


def train(workplace, name, **overrides):
    places = {"data": str(workplace / "data")}
    outcome = run.start(None, {**ONE_PROMPT, **places, **overrides}, out=workplace / name)
    return RunFolder.open(outcome.folder.path)


@pytest.fixture(scope="module")
def plain(workplace):
    return train(workplace, "plain")


@pytest.fixture(scope="module")
def half(workplace):
    return train(workplace, "half", **{"precision.body": "bfloat16", "precision.norms": "float32"})


def test_diagnose_knows_every_key_that_a_run_logs(plain):
    assert read_history(plain.path).ignored == ()


def test_the_run_folder_holds_what_a_reader_needs(plain):
    there = {path.name for path in plain.path.iterdir()}
    assert there >= {
        "config.toml", "environment.json", "hashes.json", "precision.json", "status.json", "preflight.json",
        "metrics.jsonl", "evaluations.jsonl", "completions", "evaluations", "checkpoints", "trainer_state.json",
        "selection.json",
    }  # fmt: skip
    assert [row.step for row in plain.metrics()] == [0, 1, 2]
    assert [evaluation.step for evaluation in plain.evaluations()] == [0, STEPS]
    assert plain.read_json("preflight.json") == {"skipped": True}
    assert plain.read_json("environment.json")["versions"]["trl"]
    assert len(plain.read_json("hashes.json")["data"]) == 3


def test_a_fresh_model_scores_at_step_0_what_it_scores_outside(plain, workplace):
    outside = score_model("embedded", Request(data=workplace / "data")).evaluation
    assert outside.metrics == plain.evaluations()[0].metrics
    assert outside.predicted == plain.evaluations()[0].predicted


def test_the_cold_start_labels_well_and_counts_badly(plain):
    metrics = plain.evaluations()[0].metrics
    assert metrics["item_accuracy"] >= 0.95
    assert 0.15 <= metrics["answer_accuracy"] <= 0.45
    assert metrics["fully_correct"] < 0.45


def test_a_checkpoint_scores_what_the_run_recorded(plain, workplace):
    again = score_model(str(plain.path), Request(data=workplace / "data"))
    assert again.directory == plain.checkpoint(STEPS).path
    assert again.evaluation.predicted == plain.evaluations()[-1].predicted


def test_every_sampled_completion_was_read_once_and_kept(plain):
    rows = list(plain.completions(1))
    assert len(rows) == 8
    for row in rows:
        assert row["reward"] == pytest.approx(
            row["rewards"]["item"] + row["rewards"]["answer"] + 0.5 * row["rewards"]["consistency"]
        )
        assert row["prediction"] is not None
        assert str(row["columns"]["numbers"]) in row["prompt"]


def test_credit_per_line_is_kept_with_the_completions(workplace):
    folder = train(workplace, "line", credit="line", **{"train.max_steps": 1})
    rows = list(folder.completions(1))
    assert all(row["line_advantages"].keys() >= {"line 1", "line 10"} for row in rows)
    assert any(row["line_advantages"] != dict.fromkeys(row["line_advantages"], row["advantage"]) for row in rows)


def test_norms_stay_fp32_in_a_bf16_body_through_training_saving_and_loading(half):
    saved = load_file(half.checkpoint(STEPS).path / "model.safetensors")
    for name, tensor in saved.items():
        assert tensor.dtype == (torch.float32 if parameter_group(name) == "norms" else torch.bfloat16), name
    loaded = load(half.checkpoint(STEPS).path)
    for name, parameter in loaded.model.named_parameters():
        if name in saved:
            assert parameter.dtype == saved[name].dtype
            assert torch.equal(parameter, saved[name]), name
    groups = {group["name"]: group["dtypes"] for group in half.read_json("precision.json")}
    assert set(groups["norms"]) == {"float32"}
    assert set(groups["attention"]) == {"bfloat16"}


def test_the_reference_policy_has_the_policy_s_precision(half):
    assert half.metrics()[1].values["kl"] == 0.0


def test_the_prefix_tree_changes_nothing_but_the_cost(workplace, plain):
    stock = train(workplace, "stock", engine="plain")
    assert stock.evaluations()[0].predicted == plain.evaluations()[0].predicted
    assert stock.metrics()[1].values.keys() == plain.metrics()[1].values.keys()


def test_the_resolved_configuration_repeats_the_run(plain, workplace):
    again = run.start(str(plain.path / "config.toml"), {}, out=workplace / "again")
    rows = zip(RunFolder.open(again.folder.path).metrics(), plain.metrics(), strict=True)
    for new, old in rows:
        timeless = {key: value for key, value in old.values.items() if not key.endswith("_time")}
        assert {key: value for key, value in new.values.items() if not key.endswith("_time")} == timeless


def test_the_outcome_is_json(plain, workplace):
    outcome = run.resume(plain.path, {})
    document = json.loads(json.dumps(outcome.to_json(), default=str))
    assert document["run"] == str(plain.path)
    assert document["selection"]["step"] == STEPS
