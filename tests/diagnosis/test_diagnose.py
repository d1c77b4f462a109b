"""One event, one finding; and the recorded runs get the verdicts that they should."""

import json
from dataclasses import replace

import pytest

from evenhand.diagnosis.diagnose import diagnose, diagnose_log
from evenhand.diagnosis.history import history_of
from evenhand.diagnosis.readers import read_text
from evenhand.diagnosis.rules import groups_uniform
from evenhand.errors import LogError
from tests.diagnosis.logs import LOGS, SOUND, recorded

VERDICTS = {
    "collapsed": ("collapsed-identical-rollouts", "stop"),
    "nan": ("weights-are-nan", "stop"),
    "truncated": ("truncated-before-answer", "stop"),
    "bf16-stuck": ("updates-swallowed", "stop"),
    "flat": ("reward-flat", "note"),
    "hacked": ("easy-term-crowds-out-goal", "stop"),
    "drifting": ("accuracy-flat-while-weights-move", "warn"),
    "runaway": ("truncated-before-answer", "stop"),
    "solved": ("solved", "ok"),
}


@pytest.mark.parametrize(("name", "verdict"), VERDICTS.items(), ids=VERDICTS.keys())
def test_a_recorded_run_gets_its_verdict(name, verdict):
    found = {finding.code: finding.severity for finding in diagnose(recorded(name)).findings}
    assert found.get(verdict[0]) == verdict[1]


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_run_gets_no_alarm(name):
    diagnosis = diagnose(recorded(name))
    assert not diagnosis.stops
    assert not [finding for finding in diagnosis.findings if finding.severity == "warn"]


@pytest.mark.parametrize("name", ["collapsed", "nan", "truncated", "bf16-stuck", "hacked", "runaway"])
def test_one_event_is_one_stop(name):
    assert sum(finding.severity == "stop" for finding in diagnose(recorded(name)).findings) == 1


def test_a_finding_names_what_it_explains():
    first = diagnose(recorded("collapsed")).findings[0]
    assert "groups-uniform" in first.evidence["explains"]


def test_a_finding_names_the_last_checkpoint_before_it():
    history = replace(recorded("collapsed"), checkpoints=(10, 20, 30, 50))
    first = diagnose(history).findings[0]
    assert first.evidence["checkpoint"] == 30
    assert "checkpoint 30" in first.remedy


def test_nothing_is_averaged_across_a_nan():
    rows = {"reward": [0.5] * 30 + [0.0] * 30, "loss": [0.01] * 30 + [float("nan")] * 30, "grad_norm": [1.0] * 60}
    stops = [finding.code for finding in diagnose(history_of(rows)).findings if finding.severity == "stop"]
    assert stops == ["weights-are-nan"]


def test_an_update_that_fp16_skipped_is_a_note():
    gradient = [float("inf"), float("inf"), *[1.0] * 20]
    finding = diagnose(history_of({"grad_norm": gradient, "reward": [0.5] * 22, "loss": [0.1] * 22})).findings[0]
    assert finding.severity in {"ok", "note"}
    assert all(one.severity not in {"warn", "stop"} for one in diagnose(history_of({"grad_norm": gradient})).findings)


def test_a_nan_that_trl_logs_as_zero_loss_is_seen_in_the_nulls():
    rows = [{"step": s, "loss": 0.01, "kl": 0.001, "entropy": 0.4, "grad_norm": 1.0, "reward": 0.4} for s in (1, 2, 3)]
    rows.append({"step": 4, "loss": 0.0, "kl": None, "entropy": None, "reward": 0.4})
    history = read_text(json.dumps({"log_history": rows}), "x")
    first = diagnose(history).findings[0]
    assert (first.code, first.step) == ("weights-are-nan", 4)


def test_one_row_in_which_nothing_is_wrong_is_too_few(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("{'loss': 0.1, 'reward': 0.2, 'grad_norm': 1.0}")
    with pytest.raises(LogError, match="one row"):
        diagnose_log(path)


def test_json_has_no_bare_nan():
    text = json.dumps(diagnose(recorded("nan")).to_json(), allow_nan=False)
    assert json.loads(text)["findings"][0]["code"] == "weights-are-nan"


def test_the_fixtures_hold_no_path_of_the_machine_that_made_them():
    for path in LOGS.rglob("*"):
        if path.is_file() and path.suffix in {".toml", ".json"}:
            text = path.read_text()
            assert not [place for place in ("/home/", "/tmp/", "/root/", "/work/") if place in text], path


def test_uniform_groups_that_were_replaced_before_the_update_stop_nobody():
    columns = {name: list(series.values) for name, series in groups_uniform.RULE.sick().series.items()}
    assert groups_uniform.RULE.judge(history_of({**columns, "frac_trained_zero_std": [1.0] * 4}))
    assert groups_uniform.RULE.judge(history_of({**columns, "frac_trained_zero_std": [0.25] * 4})) is None
