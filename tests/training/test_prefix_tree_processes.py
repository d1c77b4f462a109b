"""Two processes on the tree, groups on both of them, accumulate the gradient of TRL's path in one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from models_for_tests import save_random_qwen3

TORCHRUN = ["-m", "torch.distributed.run", "--nproc_per_node", "2"]
# One thread each: two processes with all threads slow each other down tenfold on two cores.
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(launcher, worker, *arguments, cwd):
    command = [sys.executable, *launcher, str(Path(__file__).with_name(worker)), *arguments]
    done = subprocess.run(command, cwd=cwd, env=ONE_THREAD, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(
    ("worker", "alone"),
    [("tree_gradient_worker.py", "stock"), ("line_credit_worker.py", "plain")],
    ids=["completions", "lines"],
)
def test_two_processes_on_the_tree_have_the_gradient_of_one_on_trls_path(tmp_path, worker, alone):
    model = save_random_qwen3(tmp_path / "model")
    one, two = tmp_path / "one.pt", tmp_path / "two.pt"
    run([], worker, alone, str(model), str(one), "1", cwd=tmp_path)
    run(
        ["-m", "torch.distributed.run", "--nproc_per_node", "2"],
        worker,
        "tree",
        str(model),
        str(two),
        "2",
        cwd=tmp_path,
    )
    expected, found = torch.load(one), torch.load(two)
    assert expected.keys() == found.keys()
    difference = sum((expected[name] - found[name]).square().sum() for name in expected).sqrt()
    size = sum(gradient.square().sum() for gradient in expected.values()).sqrt()
    assert size > 0
    assert difference < 1e-4 * size
