"""What preflight says: findings, what could not be judged, and what was looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenhand.preflight.check import Check
from evenhand.preflight.checks import CHECKS
from evenhand.preflight.setup import Setup
from evenhand.records import Finding, Unknown


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """The outcome of all checks.

    Attributes:
        findings: Faults and notes, in the order of the checks.
        unknown: What could not be judged, and why.
        facts: Figures that are worth keeping with the run.
        silent: Codes of the checks that found nothing.
    """

    findings: tuple[Finding, ...]
    unknown: tuple[Unknown, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    silent: tuple[str, ...] = ()

    @property
    def stops(self) -> tuple[Finding, ...]:
        """The findings that make going on a waste."""
        return tuple(finding for finding in self.findings if finding.severity == "stop")

    def to_json(self) -> dict[str, Any]:
        """The shape that other programs rely on, and the facts."""
        return {
            "findings": [finding.to_json() for finding in self.findings],
            "unknown": [one.to_json() for one in self.unknown],
            "checked": [*self.silent, *(finding.code for finding in self.findings)],
            "facts": dict(self.facts),
        }


def examine(setup: Setup, checks: Sequence[Check] = CHECKS) -> PreflightReport:
    """Ask every check."""
    findings, unknown, silent = [], [], []
    for check in checks:
        verdict = check.answer(setup)
        if isinstance(verdict, Finding):
            findings.append(verdict)
        elif isinstance(verdict, Unknown):
            unknown.append(verdict)
        else:
            silent.append(check.code)
    return PreflightReport(tuple(findings), tuple(unknown), silent=tuple(silent))
