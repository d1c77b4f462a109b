"""``evenhand coldstart`` on the command line: one sentence for bad input, and what other commands say of its folder."""

import json
import sys

import pytest

from evenhand.__main__ import main


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("coldstart")


def call(monkeypatch, capsys, *arguments):
    """(exit code, stdout, stderr)."""
    monkeypatch.setattr(sys, "argv", ["evenhand", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        main()
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return caught.value.code or 0, printed.out, printed.err


@pytest.fixture
def run(monkeypatch, capsys, place):
    """The folder of a short cold start, made once."""
    monkeypatch.chdir(place)
    if not (place / "taught").exists():
        short = (
            "coldstart.examples=8",
            "coldstart.batch_size=4",
            "coldstart.every=1",
            "coldstart.warmup_steps=0",
            "max_completion_length=64",
        )
        settings = [part for text in short for part in ("--set", text)]
        code, out, _ = call(monkeypatch, capsys, "coldstart", "--no-preflight", "--out", "taught", "--json", *settings)
        assert code == 0
        (place / "said.json").write_text(out, encoding="utf-8")
    return place / "taught"


def test_json_says_what_was_shown_and_where_the_model_is(run):
    said = json.loads((run.parent / "said.json").read_text(encoding="utf-8"))
    assert said["coldstart"]["examples"] == 8
    assert said["coldstart"]["model"] == "taught/model"
    assert [row["step"] for row in said["evaluations"]] == [0, 1, 2]
    assert said["selection"]["step"] == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--set", "coldstart.stop_metric=accuracy"), "measures no such thing"),
        (("--set", "coldstart.examples=4"), "more than there are examples"),
        (("--set", "coldstart.examples=40"), "its rate is never reached"),
        (("--set", "coldstart.data=absent.jsonl"), "cannot be read"),
        (("--out", "taught"), "not empty"),
        (("--resume", "taught", "--seed", "3"), "coldstart.seed"),
        (("--resume", "nowhere"), "no run folder"),
        (("--task", "stepwise"), "stepwise-parity"),
        (("nowhere.toml",), "no configuration"),
    ],
)
def test_bad_input_is_a_sentence_and_exit_code_2(run, monkeypatch, capsys, arguments, says):
    code, _, err = call(monkeypatch, capsys, "coldstart", *arguments)
    assert (code, says in err) == (2, True), err


@pytest.mark.parametrize("command", ["diagnose", "checklist"])
def test_what_judges_rewards_says_that_there_are_none(run, monkeypatch, capsys, command):
    code, _, err = call(monkeypatch, capsys, command, run)
    assert code == 2
    assert "is a cold start" in err


def test_watch_shows_loss_and_examples(run, monkeypatch, capsys):
    code, out, _ = call(monkeypatch, capsys, "watch", run, "--once")
    assert code == 0
    assert "8 examples" in out
    assert "loss" in out
    assert "prompts" not in out


def test_report_says_what_a_cold_start_is(run, monkeypatch, capsys):
    code, _, _ = call(monkeypatch, capsys, "report", run)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert code == 0
    assert "A cold start: the model embedded was shown 8 problems" in page
    assert "examples shown" in page
    assert "completions in an update" not in page


def test_select_keeps_to_its_end(run, monkeypatch, capsys):
    code, out, _ = call(monkeypatch, capsys, "select", run)
    assert code == 0
    assert "Rule: the last evaluation." in out


def test_evaluate_knows_the_task_of_the_model_that_was_left(run, monkeypatch, capsys):
    code, out, _ = call(monkeypatch, capsys, "evaluate", run / "model", "--limit", "2", "--json")
    assert code == 0
    assert json.loads(out)["model"] == str(run / "model")


def test_train_does_not_go_on_with_it(run, monkeypatch, capsys):
    code, _, err = call(monkeypatch, capsys, "train", "--resume", run)
    assert code == 2
    assert "evenhand coldstart --resume" in err
