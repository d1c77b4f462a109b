"""``evenhand diagnose`` as a user calls it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"


def call(*arguments, text=None):
    command = [sys.executable, "-m", "evenhand", *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, env={**os.environ})


def test_a_sound_run_exits_0_and_says_so():
    done = call("diagnose", LOGS / "healthy")
    assert done.returncode == 0
    assert "Nothing is wrong" in done.stderr


def test_a_collapse_exits_1_with_its_onset():
    done = call("diagnose", LOGS / "collapsed")
    assert done.returncode == 1
    assert "STOP  collapsed-identical-rollouts (step 41)" in done.stdout


def test_json_is_findings_and_unknown():
    done = call("diagnose", LOGS / "nan", "--json")
    report = json.loads(done.stdout)
    assert set(report) == {"findings", "unknown"}
    assert set(report["findings"][0]) == {"code", "severity", "stage", "step", "message", "evidence", "remedy"}
    assert report["findings"][0]["code"] == "weights-are-nan"
    assert done.returncode == 1


def test_standard_input_is_read():
    row = {"loss": 0.0, "grad_norm": 0.0, "reward": 0.0, "frac_reward_zero_std": 1.0, "completions/clipped_ratio": 1.0}
    rows = "\n".join([json.dumps(row)] * 4)
    done = call("diagnose", "-", text=rows)
    assert done.returncode == 1
    assert "truncated-before-answer" in done.stdout


def test_keys_that_were_not_understood_are_listed():
    rows = "\n".join(
        json.dumps({"step": step, "reward": 0.1, "mystery": 3, "completion_length": 9.0}) for step in range(9)
    )
    done = call("diagnose", "-", "--keys", text=rows)
    assert "mystery: not understood" in done.stderr
    assert "completion_length → completions/mean_length" in done.stderr


NO_LOGS = ["", "lorem ipsum\n" * 1000, '{"log_history": [{"step": 1', "{'reward': 0.5}"]


@pytest.mark.parametrize("text", [*NO_LOGS, "{'loss': 1.0, 'mean_token_accuracy': 1}"])
def test_what_cannot_be_read_is_one_sentence_and_exit_2(text):
    done = call("diagnose", "-", text=text)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.strip().splitlines()) <= 2


def test_it_answers_within_a_second_and_loads_no_torch():
    code = "import sys; from evenhand.cli import application; from evenhand.diagnosis.diagnose import diagnose_log"
    checked = (
        f"{code}; diagnose_log({str(LOGS / 'healthy')!r}); sys.exit(bool({{'torch', 'scipy'}} & set(sys.modules)))"
    )
    best = 10.0
    for _ in range(3):
        start = time.perf_counter()
        assert subprocess.run([sys.executable, "-c", checked], check=False).returncode == 0
        best = min(best, time.perf_counter() - start)
    assert best < 1.5  # 0.4 s where nothing else runs
