"""``evenhand evaluate``, ``compare`` and ``tasks`` as a user and as another program see them."""

import json
import sys

import pytest

from evenhand.__main__ import main


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    return tmp_path_factory.mktemp("workplace")


@pytest.fixture
def call(monkeypatch, capsys, workplace):
    """Call the command line; (stdout, stderr)."""
    monkeypatch.chdir(workplace)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["evenhand", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        assert caught.value.code in (0, None)
        return capsys.readouterr()

    return run


def test_json_has_the_shape_that_other_programs_rely_on(call):
    document = json.loads(call("evaluate", "embedded", "--json").out)
    metrics = {"answer_accuracy", "item_accuracy", "fully_correct", "format_valid", "count_consistent"}
    assert document.keys() >= {"split", "n", "intervals", "predictions"} | metrics
    assert (document["split"], document["n"]) == ("dev", 50)
    assert document["intervals"].keys() == metrics
    assert sum(document["predictions"].values()) == 50
    low, high = document["intervals"]["answer_accuracy"]
    assert low < document["answer_accuracy"] < high


def test_the_table_shows_every_metric_with_its_interval_and_the_answers(call):
    out = call("evaluate", "embedded", "--limit", 10).out
    assert "answer_accuracy" in out
    assert " to " in out
    assert "answers:" in out


def test_show_prints_expected_got_and_text_line_by_line(call):
    out = call("evaluate", "embedded", "--limit", 3, "--show", 2).out
    assert out.count("expected ") == 2
    assert "| 3: odd" in out
    assert "numbers [3, 29, 50, 16, 90, 24, 37, 29, 68, 70]" in out


def test_with_json_shown_problems_go_to_stderr(call):
    said = call("evaluate", "embedded", "--limit", 3, "--show", 1, "--json")
    json.loads(said.out)
    assert "expected " in said.err


def test_control_problems_have_all_counts(call):
    assert json.loads(call("evaluate", "embedded", "--split", "control", "--json").out)["n"] == 11


def test_a_model_equals_itself(call):
    document = json.loads(call("compare", "embedded", "embedded", "--limit", 20, "--json").out)
    assert document["changed"] == []
    assert all(one["value"] == 0.0 and not one["beyond_noise"] for one in document["difference"].values())


def test_compare_prints_paired_differences(call):
    out = call("compare", "embedded", "embedded", "--limit", 20).out
    assert "0 of 20 predictions changed." in out


def test_tasks_lists_each_task(call):
    names = [task["name"] for task in json.loads(call("tasks", "--json").out)]
    assert "stepwise-parity" in names
    assert "stepwise-parity" in call("tasks").out


def test_every_command_has_help(call):
    from evenhand.cli import COMMANDS  # noqa: PLC0415

    for command in COMMANDS:
        assert "Usage:" in call(command.__name__, "--help").out
