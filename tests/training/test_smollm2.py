"""Real pretrained weights make real steps with the shipped configuration."""

import math
import os
import subprocess
import sys

from evenhand.runfolder import RunFolder

# Fewer and shorter answers than the configuration's: they change how long a step takes and nothing that is tested here.
SHORTER = (
    "--set", "max_completion_length=16", "--set", "gradient_accumulation_steps=1", "--set", "evaluation.every=2",
)  # fmt: skip


def test_smollm2_makes_two_steps_and_moves_its_weights(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}

    def evenhand(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "evenhand", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]

    evenhand("models", "build", "smollm2-135m")
    evenhand("train", "smollm2-135m", "--steps", "2", "--no-preflight", "--out", "run", *SHORTER)
    folder = RunFolder.open(tmp_path / "run")
    rows = [row.values for row in folder.metrics() if "loss" in row.values]
    assert len(rows) == 2
    assert all(math.isfinite(row["grad_norm"]) and math.isfinite(row["loss"]) for row in rows)
    assert [evaluation.n for evaluation in folder.evaluations()] == [50, 50]
    assert len(list(folder.completions())) == 64
