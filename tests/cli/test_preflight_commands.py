"""``explain``, ``preflight`` and ``probe`` as they are typed."""

import json
import subprocess
import sys

import pytest

ROWS = [{"prompt": f"What is {100 + i} - {100 + i - i % 9}?", "answer": i % 9} for i in range(60)]


def evenhand(*arguments, folder=None):
    command = [sys.executable, "-m", "evenhand", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


def test_explain_shows_the_reference_s_group():
    done = evenhand("explain", "-114514", -6, -5, -4, -3, -2, -1, 0)
    assert done.returncode == 0
    for shown in ("-2.4749", "+0.35348", "+0.35363", "down", "Every token"):
        assert shown in done.stdout.replace("-2.47487", "-2.4749")


def test_explain_takes_trl_s_options_and_gives_json():
    done = evenhand("explain", 1, -1, "--scale-rewards", "none", "--loss-type", "grpo", "--beta", 0.1, "--json")
    assert json.loads(done.stdout)["advantages"] == [1.0, -1.0]


@pytest.mark.parametrize("arguments", [["1"], ["1", "x"], ["1", "nan"], ["1", "2", "--scale-rewards", "all"]])
def test_explain_refuses_in_one_sentence(arguments):
    done = evenhand("explain", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")


def test_preflight_of_somebody_s_functions(tmp_path):
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    (tmp_path / "mine.py").write_text(
        "def good(completions, answer, **kwargs):\n"
        "    return [float(c == str(a)) for c, a in zip(completions, answer)]\n"
        "def anything(completions, **kwargs):\n"
        "    return [1.0 for c in completions]\n"
    )
    done = evenhand("preflight", "--rewards", "mine.py:good", "--data", "rows.jsonl", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    assert {"findings", "unknown"} <= json.loads(done.stdout).keys()
    done = evenhand("preflight", "--rewards", "mine.py:anything", "--data", "rows.jsonl", folder=tmp_path)
    assert done.returncode == 1
    assert "reward-ignores-completion" in done.stdout
    assert evenhand("preflight", "--rewards", "mine.py:good", folder=tmp_path).returncode == 2


def test_probe_prints_predicted_beside_measured(tmp_path):
    done = evenhand("probe", "--lr", "1e-5", "--body", "bfloat16", "--norms", "bfloat16", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "norm-weights-frozen-by-bf16" in done.stdout
    assert "predicted" in done.stdout
