"""From one history to what a person should know: findings, one per event, and what could not be judged."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evenhand.diagnosis.history import History
from evenhand.diagnosis.readers import read_history
from evenhand.diagnosis.rule import Rule
from evenhand.diagnosis.rules import RULES
from evenhand.diagnosis.rules.weights_are_nan import RULE as WEIGHTS_ARE_NAN
from evenhand.errors import LogError
from evenhand.records import SEVERITIES, Finding, Severity, Unknown

# The order in which a person should read: what is wrong, then what only looks wrong, then the rest.
TOLD: tuple[Severity, ...] = ("stop", "warn", "ok", "note")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Findings, the worst first, and what could not be judged, with the reason."""

    findings: tuple[Finding, ...]
    unknown: tuple[Unknown, ...]

    @property
    def stops(self) -> bool:
        """Whether going on wastes the run."""
        return any(finding.severity == "stop" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The shape that other programs rely on."""
        return {
            "findings": [finding.to_json() for finding in self.findings],
            "unknown": [one.to_json() for one in self.unknown],
        }


def diagnose(history: History, rules: Iterable[Rule] = RULES) -> Diagnosis:
    """Ask every rule, then report each event once.

    Rules see only what came before the first broken number: averages across a NaN mean nothing. A finding that explains
    others names them in ``evidence["explains"]``; every finding with a step names the last checkpoint before it.
    """
    findings: list[Finding] = []
    unknown: list[Unknown] = []
    broken = WEIGHTS_ARE_NAN.judge(history)
    ended = isinstance(broken, Finding) and broken.severity == "stop" and broken.step is not None
    sound = (
        history.before(broken.step) if isinstance(broken, Finding) and ended and broken.step is not None else history
    )
    asked = tuple(rules)
    for rule in asked:
        verdict = rule.judge(history if rule.code == WEIGHTS_ARE_NAN.code else sound)
        if isinstance(verdict, Finding):
            findings.append(verdict)
        elif isinstance(verdict, Unknown):
            unknown.append(verdict)
    order = {rule.code: place for place, rule in enumerate(asked)}
    kept = [with_checkpoint(finding, history) for finding in merged(findings, asked)]
    kept.sort(key=lambda finding: (TOLD.index(finding.severity), order[finding.code]))
    return Diagnosis(tuple(kept), tuple(unknown))


def merged(findings: list[Finding], rules: Iterable[Rule]) -> list[Finding]:
    """One finding per event: what another one explains is named there and not reported itself.

    A milder finding never hides a worse one, and an ``ok`` explains only what would have worried for no reason.
    """
    explains = {rule.code: rule.explains for rule in rules}
    places = {rule.code: place for place, rule in enumerate(rules)}
    hidden: dict[str, str] = {}
    for finding in sorted(findings, key=lambda one: (-SEVERITIES.index(one.severity), places[one.code])):
        if finding.code in hidden:
            continue
        for other in findings:
            if other.code in explains[finding.code] and other.code not in hidden and not outranks(other, finding):
                hidden[other.code] = finding.code
    result = []
    for finding in findings:
        if finding.code in hidden:
            continue
        named = sorted(code for code, by in hidden.items() if by == finding.code)
        result.append(replace(finding, evidence={**finding.evidence, "explains": named}) if named else finding)
    return result


def outranks(other: Finding, finding: Finding) -> bool:
    """Whether the other one is worse. ``ok`` may explain anything: it says that the alarm is false."""
    return finding.severity != "ok" and SEVERITIES.index(other.severity) > SEVERITIES.index(finding.severity)


def with_checkpoint(finding: Finding, history: History) -> Finding:
    """Name the last checkpoint before the event, where there is one."""
    if finding.step is None or finding.severity not in {"warn", "stop"} or "checkpoint" in finding.evidence:
        return finding
    kept = history.checkpoint_before(finding.step)
    if kept is None:
        return finding
    remedy = f"Go back to checkpoint {kept}, the last one before it. {finding.remedy}".strip()
    return replace(finding, evidence={**finding.evidence, "checkpoint": kept}, remedy=remedy)


def diagnose_log(path: str | Path) -> tuple[History, Diagnosis]:
    """Read a log and judge it.

    Raises:
        LogError: it cannot be read, is no log of GRPO, or holds a single row in which nothing is wrong.
    """
    history = read_history(path)
    diagnosis = diagnose(history)
    settings_only = history.rows == 0 and bool(history.settings)
    if history.rows < 2 and not diagnosis.stops and not history.evaluations and not settings_only:
        raise LogError(
            f"{history.source} has {'one row' if history.rows else 'no training row'}, too few to judge.",
            "Give at least 2 rows, and 8 for a trend.",
        )
    return history, diagnosis
