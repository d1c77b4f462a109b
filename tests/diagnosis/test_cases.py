"""Troubles that people reported in public, as small logs: what each person should be told.

Each file keeps facts of a report (numbers, not words) and says what was filled in. A case whose cause was confirmed in
its thread must get its verdict as the first thing that is said; an open one must get it among the findings.
"""

import json
from pathlib import Path

import pytest

from evenhand.diagnosis.diagnose import diagnose
from evenhand.diagnosis.readers import read_text

CASES = [
    json.loads(path.read_text()) for path in sorted((Path(__file__).parents[1] / "fixtures" / "cases").glob("*.json"))
]
ALARMS = {"warn", "stop"}


def judged(case):
    return diagnose(read_text(json.dumps(case["log"]), case["case"])).findings


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_the_verdict_is_among_the_findings_with_its_severity(case):
    found = {finding.code: finding for finding in judged(case)}
    expected = case["expected"]
    assert found[expected["code"]].severity == expected["severity"]
    if expected["also"]:
        assert expected["also"] in found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_no_other_alarm_is_raised(case):
    assert {finding.code for finding in judged(case) if finding.severity in ALARMS} <= {case["expected"]["code"]}


@pytest.mark.parametrize("case", [case for case in CASES if case["basis"] == "thread"], ids=lambda case: case["case"])
def test_a_confirmed_cause_is_said_first_of_its_severity(case):
    findings = [finding for finding in judged(case) if finding.severity == case["expected"]["severity"]]
    assert findings[0].code == case["expected"]["code"]
