"""A run that was killed and resumed logs what the run that was never killed logs."""

import os
import signal
import subprocess
import sys
import time

import pytest
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig

from evenhand.runfolder import RunFolder
from evenhand.training.trainer import PrefixTreeTrainer, ResumableTrainer
from models_for_tests import save_random_qwen3

TIMES = {"step_time", "rollout_time", "train_runtime", "train_samples_per_second", "train_steps_per_second"}
TIMES |= {"total_flos", "train_loss"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_random_qwen3(tmp_path_factory.mktemp("random-qwen3"))


def length_reward(completions, **_):
    """Varies inside a group, so that every step moves the weights."""
    return [float(len(set(completion)) % 7) for completion in completions]


def logged(model, output, resume_from=None, kind=ResumableTrainer, **arguments):
    """Train on six prompts, two a step, saving every step; the log rows without times."""
    args = GRPOConfig(
        output_dir=str(output),
        max_steps=14,
        save_steps=1,
        logging_steps=1,
        num_generations=2,
        max_completion_length=6,
        learning_rate=1e-2,
        beta=0.05,
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        seed=3,
        **arguments,
    )
    trainer = kind(
        model=AutoModelForCausalLM.from_pretrained(model, dtype="float32"),
        reward_funcs=length_reward,
        args=args,
        train_dataset=Dataset.from_list([{"prompt": f"Numbers: {i}"} for i in range(6)]),
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
    )
    trainer.train(resume_from_checkpoint=resume_from)
    rows = [row for row in trainer.state.log_history if "loss" in row]
    return {row["step"]: {key: value for key, value in row.items() if key not in TIMES} for row in rows}


@pytest.mark.parametrize(
    "arguments",
    [
        {"per_device_train_batch_size": 4},
        {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2},
        {"per_device_train_batch_size": 4, "num_iterations": 2},
        {"per_device_train_batch_size": 2, "steps_per_generation": 2},
        {"per_device_train_batch_size": 2, "steps_per_generation": 3, "num_iterations": 2},
    ],
    ids=["plain", "accumulation", "two-iterations", "two-steps-a-generation", "both"],
)
@pytest.mark.parametrize("kept", [3, 5, 13], ids=lambda step: f"from-{step}")
def test_a_resumed_run_equals_the_unbroken_one_also_past_an_epoch_and_inside_a_cycle(tmp_path, model, arguments, kept):
    unbroken = logged(model, tmp_path, **arguments)
    resumed = logged(model, tmp_path, resume_from=str(tmp_path / f"checkpoint-{kept}"), **arguments)
    assert unbroken == resumed
    assert unbroken[14]["epoch"] > 1


@pytest.mark.parametrize("kept", [5, 13], ids=lambda step: f"from-{step}")
@pytest.mark.parametrize(
    "arguments",
    [
        {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2},
        {"per_device_train_batch_size": 2, "steps_per_generation": 3, "num_iterations": 2},
    ],
    ids=["accumulation", "cycles"],
)
def test_a_resumed_run_on_the_prefix_tree_equals_the_unbroken_one(tmp_path, model, arguments, kept):
    unbroken = logged(model, tmp_path, kind=PrefixTreeTrainer, **arguments)
    checkpoint = str(tmp_path / f"checkpoint-{kept}")
    assert logged(model, tmp_path, checkpoint, PrefixTreeTrainer, **arguments) == unbroken


def command(*arguments):
    return [sys.executable, "-m", "evenhand", "train", *arguments]


def metrics_without_times(path):
    rows = RunFolder.open(path).metrics()
    return [(row.step, {key: value for key, value in row.values.items() if key not in TIMES}) for row in rows]


FLAGS = ("--no-preflight", "--steps", "6", "--set", "evaluation.every=2", "--set", "save_steps=2", "--seed", "5")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    subprocess.run(command(*FLAGS, "--out", str(folder / "run")), cwd=folder, check=True, capture_output=True)
    return folder / "run"


def kill_when(process, appeared):
    """SIGKILL the process as soon as something exists."""
    deadline = time.monotonic() + 300
    while not appeared() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("moment", ["while saving step 4", "after saving step 2"])
def test_a_killed_process_resumes_to_the_same_metrics(tmp_path, unbroken, moment):
    run = tmp_path / "run"
    half = run / "checkpoints" / "checkpoint-4"
    whole = run / "checkpoints" / "checkpoint-2" / "complete.json"
    process = subprocess.Popen(command(*FLAGS, "--out", str(run)), cwd=tmp_path, stderr=subprocess.DEVNULL)
    kill_when(process, half.exists if moment == "while saving step 4" else whole.exists)
    assert RunFolder.open(run).metrics(), "a killed run's folder reads"
    assert (run / "status.json").exists()
    subprocess.run(command("--resume", str(run)), cwd=tmp_path, check=True, capture_output=True)
    assert metrics_without_times(run) == metrics_without_times(unbroken)
    assert [e.step for e in RunFolder.open(run).evaluations()] == [0, 2, 4, 6]
    assert RunFolder.open(run).read_json("status.json")["state"] == "finished"


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, unbroken):
    run = tmp_path / "run"
    process = subprocess.Popen(
        command(*FLAGS, "--out", str(run)), cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not (run / "completions" / "step-000001.jsonl").exists():
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert f"evenhand train --resume {run}" in said
    assert RunFolder.open(run).read_json("status.json")["state"] == "interrupted"
    assert RunFolder.open(run).checkpoints(), "the step at hand was saved"
    subprocess.run(command("--resume", str(run)), cwd=tmp_path, check=True, capture_output=True)
    assert metrics_without_times(run) == metrics_without_times(unbroken)


def test_a_finished_run_can_be_given_more_steps(tmp_path, unbroken):
    run = tmp_path / "run"
    shorter = [*FLAGS]
    shorter[2] = "4"
    subprocess.run(command(*shorter, "--out", str(run)), cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(command("--resume", str(run), "--steps", "6"), cwd=tmp_path, check=True, capture_output=True)
    assert metrics_without_times(run) == metrics_without_times(unbroken)


def test_a_finished_run_is_left_as_it_is(unbroken):
    before = {path: path.read_bytes() for path in unbroken.rglob("*.jsonl")}
    subprocess.run(command("--resume", str(unbroken)), cwd=unbroken.parent, check=True, capture_output=True)
    assert {path: path.read_bytes() for path in unbroken.rglob("*.jsonl")} == before


def test_a_living_run_is_not_resumed_beside_itself(tmp_path):
    run = tmp_path / "run"
    process = subprocess.Popen(command(*FLAGS, "--out", str(run)), cwd=tmp_path, stderr=subprocess.DEVNULL)
    while not (run / "completions" / "step-000001.jsonl").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGSTOP)  # alive for as long as this test looks
    other = subprocess.run(command("--resume", str(run)), cwd=tmp_path, capture_output=True, text=True, check=False)
    process.kill()
    process.wait()
    assert other.returncode == 2
    assert "still going on" in other.stderr
