"""Wrong input to ``evenhand train`` and ``evaluate``: one sentence, a remedy, exit code 2, nothing lost."""

import json
import resource
import shutil
import subprocess
import sys

import pytest

from evenhand.__main__ import main
from evenhand.models import resolve
from evenhand.runfolder import RunFolder, mark_complete


@pytest.fixture
def refused(monkeypatch, capsys, tmp_path):
    """Call the command line in an empty folder; its error text. Fails where the call does not exit with 2."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["evenhand", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        text = capsys.readouterr().err
        assert caught.value.code == 2, text
        assert "Traceback" not in text
        return text

    return call


def model_without(tmp_path, *names):
    folder = tmp_path / "model"
    shutil.copytree(resolve("embedded"), folder)
    for name in names:
        (folder / name).unlink()
    return folder


def test_misspelt_keys_and_values_are_reported_together_with_near_matches(refused):
    text = refused(
        "train", "--set", "learning_rat=1e-5", "--set", "scale_rewards=grup", "--set", "evaluation.evry=3",
        "--set", "optim=adamw_torhc", "--set", "max_steps=many",
    )  # fmt: skip
    for part in ("5 faults", "'learning_rate'", "'group'", "'every'", "'adamw_torch'", "max_steps = 'many'"):
        assert part in text


@pytest.mark.parametrize(
    ("assignment", "part"),
    [
        ("output_dir=x", "--out"),
        ("learning_rate=-1", "above 0"),
        ("seed=-1", "from 0 to 4294967295"),
        ("learning_rate=nan", "finite"),
        ("reward_weights=[1.0, inf, 1.0]", "finite"),
        ("num_generations=1", "2"),
        ("per_device_train_batch_size=3", "divisible"),
        ("loss_type=dappo", "'dapo'"),
        ("temperature=0", "above 0"),
        ("auto_find_batch_size=true", "auto_find_batch_size"),
    ],
)
def test_impossible_values_are_refused_before_anything_is_made(refused, tmp_path, assignment, part):
    assert part in refused("train", "--set", assignment)
    assert list(tmp_path.iterdir()) == []


def test_a_device_that_is_not_there_is_named_with_the_reason(refused):
    text = refused("train", "--device", "mps")
    assert "mps" in text
    assert "cpu" in text


def test_missing_model_files_are_named_one_by_one(refused, tmp_path):
    folder = model_without(tmp_path, "tokenizer.json", "model.safetensors")
    text = refused("train", "--model", folder)
    assert "tokenizer.json" in text
    assert "model.safetensors" in text


def test_a_model_without_a_chat_template_is_refused(refused, tmp_path):
    assert "chat template" in refused("train", "--model", model_without(tmp_path, "chat_template.jinja"))


def test_an_unknown_model_or_task_gives_a_near_match(refused):
    assert "embedded" in refused("train", "--model", "embeded")
    assert "stepwise-parity" in refused("train", "--task", "stepwise-party")


def test_a_folder_in_use_is_left_alone(refused, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    assert "not empty" in refused("train", "--out", "mine")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep"


def test_data_of_another_version_is_refused(refused, tmp_path):
    folder = tmp_path / "data" / "stepwise-parity-v1"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"task": "stepwise-parity", "version": "stepwise-parity-v0"}))
    assert "stepwise-parity-v0" in refused("train")


def test_a_place_that_cannot_be_written_is_one_sentence(refused, tmp_path):
    (tmp_path / "runs").write_text("a file in the way")
    assert "cannot be written" in refused("train")


def test_a_configuration_that_is_not_there_names_the_shipped_ones(refused):
    assert "qwen3-0.6b" in refused("train", "nowhere.toml")


def run_with_checkpoints(tmp_path, *steps):
    folder = RunFolder.create(tmp_path, "t", out=tmp_path / "run")
    folder.write_text("config.toml", "[train]\nmax_steps = 30\n")
    for step in steps:
        path = folder.checkpoints_path / f"checkpoint-{step}"
        path.mkdir()
        (path / "model.safetensors").write_bytes(b"weights")
        mark_complete(path)
    return folder


def test_a_damaged_checkpoint_is_named_and_the_one_before_offered(refused, tmp_path):
    folder = run_with_checkpoints(tmp_path, 10, 20)
    (folder.checkpoints_path / "checkpoint-20" / "model.safetensors").write_bytes(b"")
    text = refused("train", "--resume", folder.path)
    assert "checkpoint-20" in text
    assert "step 10" in text
    assert (folder.checkpoints_path / "checkpoint-20").exists()


def test_a_resumed_run_keeps_its_configuration(refused, tmp_path):
    folder = run_with_checkpoints(tmp_path, 10)
    assert "learning_rate" in refused("train", "--resume", folder.path, "--set", "train.learning_rate=1")
    assert "--steps" in refused("train", "qwen3-0.6b", "--resume", folder.path)


def test_resuming_what_is_no_run_is_refused(refused, tmp_path):
    assert "no run folder" in refused("train", "--resume", tmp_path)


def test_the_test_split_is_out_of_reach(refused):
    assert "evenhand test" in refused("evaluate", "embedded", "--split", "test")
    assert "evenhand test" in refused("compare", "embedded", "embedded", "--split", "test")


def test_a_disk_that_refuses_in_the_middle_is_one_sentence_and_loses_nothing(tmp_path):
    def small_files_only():
        # The weights (1.1 MB) pass, the optimiser's state (2.3 MB) does not: saving fails half way.
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))

    command = [
        sys.executable,
        "-m",
        "evenhand",
        "train",
        "--no-preflight",
        "--steps",
        "2",
        "--set",
        "evaluation.every=1",
        "--out",
        "run",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, preexec_fn=small_files_only, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "cannot be written" in done.stderr
    folder = RunFolder.open(tmp_path / "run")
    assert folder.checkpoints() == []
    assert folder.read_json("status.json")["state"] == "failed"
    assert [e.step for e in folder.evaluations()] == [0, 1]
