"""The collapse of pitfall 3 is really run here; of the others the logic is tested: `evenhand pitfalls` runs them."""

import json

import pytest

from evenhand import pitfalls
from evenhand.diagnosis.readers import read_history
from evenhand.diagnosis.rules import RULES
from evenhand.diagnosis.signals import uniform_share
from evenhand.preflight.checks import CHECKS


def test_there_are_eight_with_shipped_configurations():
    assert [one.number for one in pitfalls.PITFALLS] == list(range(1, 9))
    for one in pitfalls.PITFALLS:
        assert pitfalls.configuration(one, mended=False).is_file()
        assert pitfalls.configuration(one, mended=True).is_file()


def test_they_are_named_by_codes_that_exist():
    checks, rules = {check.code for check in CHECKS}, {rule.code for rule in RULES}
    for one in pitfalls.PITFALLS:
        assert set(one.named.get("preflight", ())) <= checks
        assert set(one.named.get("run", ())) <= rules


def test_the_collapse_is_a_real_one_and_the_watchdog_ends_it(tmp_path):
    """Trained until gradient and group spread are gone."""
    third = pitfalls.PITFALLS[2]
    pitfalls.train(pitfalls.configuration(third, mended=False), tmp_path / "run")
    history = read_history(tmp_path / "run")
    last = history.get("grad_norm").tail(6).values
    assert (last == 0).mean() >= 0.8
    assert uniform_share(history).tail(6).values.mean() >= 0.9
    assert "collapsed-identical-rollouts" in pitfalls.diagnosed(tmp_path / "run")
    told = [json.loads(line) for line in (tmp_path / "run" / "findings.jsonl").read_text().splitlines()]
    (collapse,) = [one for one in told if one["code"] == "collapsed-identical-rollouts"]
    assert collapse["stage"] == "training"
    assert history.steps[-1] <= collapse["step"] + 10
    assert (tmp_path / "run" / "checkpoints" / f"checkpoint-{history.steps[-1]:.0f}").is_dir()


def side(*codes):
    return pitfalls.Side({"run": dict.fromkeys(codes, "Said.")}, {"reward": "1 → 2"})


@pytest.mark.parametrize(
    ("fault", "mended", "passed"),
    [(["format-saturated"], [], True), ([], [], False), (["format-saturated"], ["format-saturated"], False)],
)
def test_one_passes_if_it_is_named_and_its_twin_is_not(fault, mended, passed):
    fifth = pitfalls.PITFALLS[4]
    assert pitfalls.Result(fifth, side(*fault), side(*mended)).passed is passed


def test_the_page_has_what_was_said_and_the_figures():
    page = pitfalls.page([pitfalls.Result(pitfalls.PITFALLS[4], side("format-saturated"), side())])
    for part in (
        "**Symptom.**",
        "**Mechanism.**",
        "`format-saturated`: Said.",
        "**Remedy.**",
        "| reward | 1 → 2 | 1 → 2 |",
    ):
        assert part in page
