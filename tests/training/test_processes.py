"""Two processes train as one does, and leave one run folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from evenhand.runfolder import RunFolder
from models_for_tests import save_random_qwen3

WORKER = Path(__file__).with_name("gradient_worker.py")
# One thread each: two processes with all threads slow each other down tenfold on two cores.
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]


def start(arguments, cwd, environment=ONE_THREAD):
    done = subprocess.run(arguments, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_two_processes_accumulate_the_gradient_of_one_on_the_same_completions(tmp_path):
    model = save_random_qwen3(tmp_path / "model")
    one, two = tmp_path / "one.pt", tmp_path / "two.pt"
    start([sys.executable, str(WORKER), str(model), str(one), "1"], tmp_path)
    start([*TORCHRUN, str(WORKER), str(model), str(two), "2"], tmp_path)
    alone, together = torch.load(one), torch.load(two)
    assert alone.keys() == together.keys()
    for name, expected in alone.items():
        assert expected.abs().max() > 0, name
        error = (together[name] - expected).norm() / expected.norm()
        assert error < 1e-4, f"{name}: {error}"


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate launch"])
def test_two_processes_leave_one_run_folder(tmp_path, launcher):
    arguments = ["train", "--steps", "2", "--device", "cpu", "--set", "evaluation.every=2"]
    environment = ONE_THREAD
    if launcher == "torchrun":
        command = [*TORCHRUN, "-m", "evenhand"]  # with preflight, whose child processes must not join the two
    else:
        arguments.append("--no-preflight")
        environment = {**ONE_THREAD, "ACCELERATE_USE_CPU": "true"}
        launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--module"]
        command = [sys.executable, *launch, "evenhand"]
    done = start([*command, *arguments], tmp_path, environment)
    (run,) = (tmp_path / "runs" / "stepwise-parity").iterdir()
    folder = RunFolder.open(run)
    assert [e.step for e in folder.evaluations()] == [0, 2]
    assert [e.n for e in folder.evaluations()] == [50, 50]
    assert [row.step for row in folder.metrics()] == [0, 1, 2]
    assert [row.values["completions_sampled"] for row in folder.metrics() if row.step] == [64, 128], "of both"
    rows = list(folder.completions(1))
    assert len(rows) == 64
    assert len({row["prompt"] for row in rows}) == len({row["group"] for row in rows}) == 8
    assert [checkpoint.step for checkpoint in folder.checkpoints()] == [2]
    assert folder.read_json("status.json")["state"] == "finished"
    assert "× 2 processes = 64 completions = 8 prompts × 8" in done.stderr
    assert done.stderr.count("run folder") == 1
