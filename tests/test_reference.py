"""The page of findings is what the checks and rules say."""

from pathlib import Path

from evenhand.diagnosis.rules import RULES
from evenhand.preflight.checks import CHECKS
from evenhand.reference import findings_page

PAGE = Path(__file__).parents[1] / "docs" / "findings.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == findings_page(), "run: python -m evenhand.reference > docs/findings.md"


def test_every_check_and_rule_has_its_section():
    page = findings_page()
    for one in (*CHECKS, *RULES):
        assert f"### `{one.code}` ({one.severity})" in page
