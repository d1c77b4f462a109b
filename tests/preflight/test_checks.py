"""Every check holds on its own sick example and is silent on every healthy one."""

import pytest

from evenhand.preflight.checks import CHECKS
from evenhand.preflight.examples import HEALTHY
from evenhand.records import Finding

HEADINGS = ("## Why it matters", "## Example", "## Remedy")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
def test_a_check_holds_on_its_sick_example(check):
    verdict = check.answer(check.sick())
    assert isinstance(verdict, Finding)
    assert (verdict.code, verdict.stage) == (check.code, "preflight")
    assert verdict.message.rstrip().endswith((".", "…"))


@pytest.mark.parametrize("example", HEALTHY, ids=lambda example: example.__name__)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
def test_a_check_neither_warns_nor_stops_on_a_healthy_example(check, example):
    verdict = check.answer(example())
    assert not isinstance(verdict, Finding) or verdict.severity in ("ok", "note"), verdict


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
def test_a_check_is_documented_under_all_headings(check):
    text = type(check).__doc__ or ""
    assert text.splitlines()[0].endswith(".")
    assert [heading for heading in HEADINGS if heading in text] == list(HEADINGS)


def test_codes_are_unique():
    codes = [check.code for check in CHECKS]
    assert len(codes) == len(set(codes))
