"""What every rule owes: it holds on its own example, and a sound run hears no alarm."""

import ast
import inspect
from pathlib import Path

import pytest

import evenhand.diagnosis.rules
from evenhand.diagnosis.diagnose import diagnose
from evenhand.diagnosis.history import History
from evenhand.diagnosis.rules import RULES
from evenhand.records import SEVERITIES, Finding, Unknown
from tests.diagnosis.logs import SOUND, learning, recorded

ALARMS = {"warn", "stop"}
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)


@each_rule
def test_a_rule_holds_on_its_own_example(rule):
    finding = rule.judge(rule.sick())
    assert isinstance(finding, Finding)
    assert (finding.code, finding.severity) == (rule.code, rule.severity)
    assert finding.message.endswith(".")
    assert finding.evidence


@each_rule
def test_the_example_is_reported_under_its_code_or_by_what_explains_it(rule):
    findings = diagnose(rule.sick()).findings
    explained = [code for finding in findings for code in finding.evidence.get("explains", [])]
    assert rule.code in {finding.code for finding in findings} | set(explained)


@pytest.mark.parametrize("name", SOUND)
@each_rule
def test_no_alarm_on_a_recorded_sound_run(rule, name):
    verdict = rule.judge(recorded(name))
    assert not (isinstance(verdict, Finding) and verdict.severity in ALARMS)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("rows", [10, 60, 200])
def test_no_alarm_on_a_run_that_learns(rows, seed):
    findings = diagnose(learning(rows, seed)).findings
    assert not [finding for finding in findings if finding.severity in ALARMS]


@each_rule
def test_nothing_is_found_in_a_log_of_nothing(rule):
    assert not isinstance(rule.judge(History(source="nothing", kind="none")), Finding)


@each_rule
def test_what_cannot_be_judged_is_said_with_a_reason(rule):
    verdict = rule.judge(History(source="nothing", kind="none"))
    assert verdict is None or (isinstance(verdict, Unknown) and verdict.reason)


@each_rule
def test_a_rule_documents_itself(rule):
    page = inspect.getdoc(type(rule))
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## Why it matters",
        "## Example",
        "## Remedy",
    ]
    assert rule.severity in SEVERITIES


def test_codes_are_unique_and_what_is_explained_exists():
    codes = [rule.code for rule in RULES]
    assert len(set(codes)) == len(codes)
    assert {code for rule in RULES for code in rule.explains} <= set(codes)


def test_every_file_of_the_folder_is_in_the_tuple():
    folder = Path(evenhand.diagnosis.rules.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert files == {type(rule).__module__.rsplit(".", 1)[1] for rule in RULES}


@each_rule
def test_each_threshold_says_where_it_comes_from(rule):
    """A comment stands directly above every numeric constant of a rule's file, or beside it."""
    path = Path(inspect.getfile(type(rule)))
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.parse("\n".join(lines)).body:
        number = (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and not isinstance(node.value.value, str)
        )
        if number:
            beside, above = "#" in lines[node.lineno - 1], lines[node.lineno - 2].startswith("#")
            grouped = lines[node.lineno - 2].split(" = ")[0].isupper()
            assert beside or above or grouped, f"{path.name}:{node.lineno}"
