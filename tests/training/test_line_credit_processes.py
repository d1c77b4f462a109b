"""Credit per line in two processes, groups on both of them: the gradient of one process."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from models_for_tests import save_random_qwen3

WORKER = Path(__file__).with_name("line_credit_worker.py")
# One thread each: two processes with all threads slow each other down tenfold on two cores.
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(launcher, *arguments, cwd):
    command = [sys.executable, *launcher, str(WORKER), *arguments]
    done = subprocess.run(command, cwd=cwd, env=ONE_THREAD, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_two_processes_on_the_tree_have_the_gradient_of_one_on_trls_path(tmp_path):
    model = save_random_qwen3(tmp_path / "model")
    one, two = tmp_path / "one.pt", tmp_path / "two.pt"
    run([], "plain", str(model), str(one), "1", cwd=tmp_path)
    run(["-m", "torch.distributed.run", "--nproc_per_node", "2"], "tree", str(model), str(two), "2", cwd=tmp_path)
    alone, together = torch.load(one), torch.load(two)
    assert alone.keys() == together.keys()
    difference = sum((alone[name] - together[name]).square().sum() for name in alone).sqrt()
    size = sum(alone[name].square().sum() for name in alone).sqrt()
    assert size > 0
    assert difference < 1e-4 * size
