"""Short cold starts of the embedded model: what the folder holds, when it ends, and that its end is what it leaves."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from evenhand.errors import CheckpointError, ConfigurationError, DataError, ModelError, RunFolderError, RunStopped
from evenhand.models.loading import load
from evenhand.runfolder import RunFolder, damage, file_hash
from evenhand.training import run as grpo
from evenhand.training.coldstart import run
from evenhand.training.coldstart.callbacks import STATE_FOR_RESUMING
from evenhand.training.coldstart.outcome import conclude

SHORT = {
    "coldstart.examples": 16,
    "coldstart.batch_size": 4,
    "coldstart.every": 2,
    "coldstart.warmup_steps": 2,
}
STEPS = 4


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    return tmp_path_factory.mktemp("workplace")


def start(workplace, name, **overrides):
    return run.start(None, {**SHORT, "data": str(workplace / "data"), **overrides}, out=workplace / name)


@pytest.fixture(scope="module")
def outcome(workplace):
    return start(workplace, "whole")


@pytest.fixture(scope="module")
def folder(outcome):
    return RunFolder.open(outcome.folder.path)


def test_the_folder_is_that_of_a_run_and_says_what_kind(folder):
    there = {path.name for path in folder.path.iterdir()}
    assert there >= {
        "config.toml", "environment.json", "hashes.json", "precision.json", "status.json", "preflight.json",
        "metrics.jsonl", "evaluations.jsonl", "evaluations", "checkpoints", "trainer_state.json", "selection.json",
        "coldstart.json", "model",
    }  # fmt: skip
    assert folder.kind == "coldstart"
    assert folder.read_json("status.json")["state"] == "finished"


def test_every_step_says_what_was_shown_and_what_it_cost(folder):
    rows = [row for row in folder.metrics() if "loss" in row.values]
    assert [row.step for row in rows] == [1, 2, 3, 4]
    assert [row.values["examples"] for row in rows] == [4, 8, 12, 16]
    assert [row.values["learning_rate"] for row in rows] == pytest.approx([0.0, 5e-5, 1e-4, 1e-4])
    assert all(row.values["tokens_computed"] < row.values["tokens_without_sharing"] for row in rows)
    assert all(row.values["grad_norm"] > 0 for row in rows)


def test_the_rate_may_fall_to_nothing_at_the_last_example(workplace):
    folder = start(workplace, "linear", **{"coldstart.lr_scheduler_type": "linear"}).folder
    rows = [row.values for row in folder.metrics() if "loss" in row.values]
    assert [row["learning_rate"] for row in rows] == pytest.approx([0.0, 5e-5, 1e-4, 5e-5])


def test_it_is_scored_before_and_on_the_way_and_never_on_test(folder):
    assert [(e.step, e.split) for e in folder.evaluations()] == [(0, "dev"), (2, "dev"), (4, "dev")]
    assert not list((folder.path / "evaluations").glob("test*"))


def test_the_model_it_leaves_is_the_last_checkpoint_bit_for_bit_and_loads(folder):
    left, last = (load_file(path / "model.safetensors") for path in (folder.path / "model", folder.checkpoint(4).path))
    assert left.keys() == last.keys()
    assert all(torch.equal(left[name], last[name]) for name in left)
    recorded = folder.read_json("coldstart.json")["model_sha256"]
    assert recorded == {"model.safetensors": file_hash(folder.path / "model" / "model.safetensors")}
    loaded = load(folder.path / "model")
    assert all(torch.equal(weights, left[name]) for name, weights in loaded.model.named_parameters())


def test_only_the_newest_checkpoint_keeps_an_optimiser_and_both_are_whole(folder):
    first, last = folder.checkpoints()
    assert (last.path / "optimizer.pt").is_file()
    assert not any((first.path / name).exists() for name in STATE_FOR_RESUMING)
    assert damage(first.path) is None
    assert damage(last.path) is None


def test_the_end_is_recorded_as_the_choice(folder, outcome):
    selection = folder.read_json("selection.json")
    assert selection["step"] == STEPS
    assert selection["rule"] == "the last evaluation"
    assert outcome.record["examples"] == 16
    assert outcome.record["ended_because"] == "all were shown"
    assert str(folder.path / "model") in "\n".join(outcome.next_steps())


def test_the_same_seed_gives_the_same_weights(folder, workplace):
    again = start(workplace, "again").folder
    first, second = (load_file(one.path / "model" / "model.safetensors") for one in (folder, again))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_stopping_rule_ends_it_at_the_first_evaluation_that_reaches_the_bound(workplace, folder):
    reached = folder.evaluations()[1].metrics["count_consistent"]
    start_value = folder.evaluations()[0].metrics["count_consistent"]
    if reached <= start_value:
        pytest.fail("the seed no longer shows progress at step 2; take another learning rate")
    rule = {"coldstart.stop_metric": "count_consistent", "coldstart.stop_at": reached}
    stopped = start(workplace, "stopped", **rule)
    assert stopped.record["step"] == 2
    assert stopped.record["ended_by_rule"] is True
    assert stopped.folder.read_json("status.json")["state"] == "finished"
    assert "first evaluation with count_consistent" in stopped.folder.read_json("selection.json")["rule"]


def test_a_model_that_reaches_the_bound_as_it_comes_is_taught_nothing(workplace):
    with pytest.raises(RunStopped, match="nothing to teach"):
        start(workplace, "able", **{"coldstart.stop_metric": "item_accuracy", "coldstart.stop_at": 0.5})
    assert RunFolder.open(workplace / "able").read_json("status.json")["state"] == "failed"


def test_a_learning_rate_that_spoils_the_weights_ends_it_with_a_sentence(workplace):
    with pytest.raises(RunStopped, match="spoilt|not finite"):
        start(workplace, "spoilt", **{"coldstart.learning_rate": 1e30, "coldstart.warmup_steps": 0})
    assert not (workplace / "spoilt" / "model").exists()


# -- going on --------------------------------------------------------------------------------------------------------


@pytest.fixture
def broken_off(folder, tmp_path):
    """The whole run as it would be if it had been killed after step 3."""
    path = tmp_path / "killed"
    shutil.copytree(folder.path, path)
    shutil.rmtree(path / "model")
    shutil.rmtree(path / "checkpoints" / "checkpoint-4")
    (path / "selection.json").unlink()
    copied = RunFolder(path)
    copied.write_text(
        "evaluations.jsonl", "".join(json.dumps(e.to_json()) + "\n" for e in folder.evaluations() if e.step < 4)
    )
    copied.write_status("running")
    status = copied.read_json("status.json")
    copied.write_json("status.json", {**status, "process": 2**22 + 1})
    return copied


def test_a_stopped_one_goes_on_to_the_same_weights(workplace, folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("evenhand.training.callbacks.any_process", lambda value: True)
        begun = start(workplace, "interrupted")
    assert begun.interrupted
    assert "--resume" in begun.next_steps()[0]
    path = begun.folder.path
    assert begun.folder.read_json("status.json")["state"] == "interrupted"
    whole = run.resume(path, {})
    assert not whole.interrupted
    first, second = (load_file(one / "model" / "model.safetensors") for one in (folder.path, path))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert [e.step for e in whole.evaluations] == [0, 2, 4]
    assert [row.step for row in whole.folder.metrics()] == [0, 1, 2, 3, 4]


def test_a_finished_one_is_only_concluded_again(folder):
    before = (folder.path / "checkpoints" / "checkpoint-4" / "model.safetensors").stat().st_mtime
    assert run.resume(folder.path, {}).record["step"] == STEPS
    assert (folder.path / "checkpoints" / "checkpoint-4" / "model.safetensors").stat().st_mtime == before


def test_a_checkpoint_without_an_optimiser_is_no_place_to_go_on_from(broken_off):
    with pytest.raises(CheckpointError, match="holds no optimiser"):
        run.resume(broken_off.path, {})


def test_a_damaged_record_of_the_beginning_is_named(folder, tmp_path):
    damaged = shutil.copytree(folder.path, tmp_path / "damaged")
    (damaged / "coldstart.json").write_text("{", encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"coldstart\.json cannot be read"):
        run.resume(damaged, {})


@pytest.mark.parametrize(("name", "value"), [("seed", -1), ("seed", 2**32), ("stop_at", 40), ("stop_at", 0)])
def test_values_that_could_only_fail_later_are_refused_before_anything_is_written(workplace, name, value):
    with pytest.raises(ConfigurationError, match=f"coldstart.{name}"):
        start(workplace, "refused", **{f"coldstart.{name}": value})
    assert not (workplace / "refused").exists()


def test_nothing_but_the_folder_goes_with_resume(folder):
    with pytest.raises(ConfigurationError, match=r"coldstart\.seed"):
        run.resume(folder.path, {"coldstart.seed": 1})


def test_each_command_goes_on_with_its_own_runs(folder, tmp_path):
    with pytest.raises(ConfigurationError, match="evenhand coldstart --resume"):
        grpo.resume(folder.path, {})
    other = RunFolder.create(tmp_path, "x", tmp_path / "grpo")
    other.write_text("config.toml", (folder.path / "config.toml").read_text(encoding="utf-8"))
    with pytest.raises(ConfigurationError, match="is no cold start"):
        run.resume(other.path, {})


def test_a_folder_without_a_saved_evaluation_cannot_be_concluded(folder, tmp_path):
    empty = RunFolder.create(tmp_path, "x", tmp_path / "empty")
    for name in ("config.toml", "coldstart.json", "evaluations.jsonl"):
        shutil.copy(folder.path / name, empty.path / name)
    config = run.settled(run.arguments.resolve(run.draft(folder.path / "config.toml")))
    with pytest.raises(RunFolderError, match="No evaluated step of"):
        conclude(empty, config)


# -- what is refused before a folder is made -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "error", "says"),
    [
        ({"coldstart.stop_metric": "item_acuracy"}, ConfigurationError, "Did you mean 'item_accuracy'"),
        ({"coldstart.examples": 3}, ConfigurationError, "more than there are examples"),
        ({"coldstart.examples": 0}, ConfigurationError, "coldstart.examples"),
        ({"coldstart.learning_rate": 0}, ConfigurationError, "coldstart.learning_rate"),
        ({"coldstart.exampels": 3}, ConfigurationError, "Did you mean 'examples'"),
        ({"coldstart.data": "absent.jsonl"}, DataError, "cannot be read"),
        ({"max_completion_length": 8}, ConfigurationError, "max_completion_length is 8"),
        ({"model": "nowhere"}, ModelError, "nowhere"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_folder(workplace, overrides, error, says):
    with pytest.raises(error) as caught:
        start(workplace, "refused", **overrides)
    assert says in str(caught.value)
    assert not (workplace / "refused").exists()


def test_a_folder_in_use_is_refused(workplace, folder):
    with pytest.raises(RunFolderError, match="not empty"):
        start(workplace, folder.path.name)


def test_reinforcement_begins_from_the_model_that_was_left(workplace, folder):
    settings = {"train.max_steps": 1, "evaluation.every": 1, "gradient_accumulation_steps": 1}
    begun = grpo.start(
        str(folder.path / "config.toml"), {**settings, "model": str(folder.path / "model")}, out=workplace / "trained"
    )
    assert begun.folder.evaluations()[0].predicted == folder.evaluations()[-1].predicted
