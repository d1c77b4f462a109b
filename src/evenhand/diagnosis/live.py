"""A history that grows row by row, and the rules asked of it while a run goes on."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from evenhand.diagnosis.diagnose import diagnose, with_checkpoint
from evenhand.diagnosis.history import HELD_OUT, Floats, History, Series
from evenhand.diagnosis.readers.rows import number
from evenhand.diagnosis.readers.vocabulary import kept_name
from evenhand.diagnosis.rule import Rule
from evenhand.diagnosis.rules import RULES
from evenhand.records import SEVERITIES, Evaluation, Finding

# Share of a run's time that the slower rules may take; the spec of the watchdog is 1 % for everything.
BUDGET = 0.004
ALARMS = ("warn", "stop")


class Column:
    """A growing series: arrays of twice the needed length, so that adding costs the same however long a run is."""

    def __init__(self) -> None:
        self._steps: Floats = np.empty(64)
        self._values: Floats = np.empty(64)
        self._length = 0

    def add(self, step: float, value: float) -> None:
        """One more entry; the value of a step that is there already is replaced."""
        if self._length and self._steps[self._length - 1] >= step:
            self._length = int(np.searchsorted(self._steps[: self._length], step))
        if self._length == len(self._steps):
            self._steps = np.concatenate((self._steps, np.empty(self._length)))
            self._values = np.concatenate((self._values, np.empty(self._length)))
        self._steps[self._length], self._values[self._length] = step, value
        self._length += 1

    def series(self) -> Series:
        """A view of what there is so far."""
        return Series(self._steps[: self._length], self._values[: self._length])


class LiveDiagnosis:
    """Takes log rows as they come and says each new finding once.

    Args:
        settings: TRL's settings and what else is known of the run (see :class:`History`).
        urgent: Codes that are asked for at every row; the other rules wait until the run's own time has paid for them.
    """

    def __init__(self, settings: Mapping[str, Any], urgent: Iterable[str] = (), source: str = "this run") -> None:
        self._columns: dict[str, Column] = {}
        self._nulls: dict[str, list[float]] = {}
        self._base = History(source=source, kind="live", settings=settings)
        self._told: dict[str, str] = {}
        self._rules = tuple(rule for rule in RULES if rule.live)
        self._urgent = tuple(rule for rule in self._rules if rule.code in set(urgent))
        self._began = time.perf_counter()
        self.seconds = 0.0  # spent here so far

    def add(self, step: int, row: Mapping[str, Any]) -> None:
        """Take a log row under whatever names."""
        for key, value in {**row, "_row": 0.0}.items():
            kept = "_row" if key == "_row" else kept_name(key)
            if kept is None:
                continue
            try:
                read = number(value)
            except ValueError:
                continue
            if read is None:
                self._nulls.setdefault(kept, []).append(step)
            elif kept != "_row" or not all(is_held_out(name) for name in row):
                self._columns.setdefault(kept, Column()).add(step, read)

    def tell(
        self, evaluations: tuple[Evaluation, ...] | None = None, checkpoints: tuple[int, ...] | None = None
    ) -> None:
        """Take what is not in log rows."""
        changes: dict[str, Any] = {}
        if evaluations is not None:
            changes["evaluations"] = evaluations
        if checkpoints is not None:
            changes["checkpoints"] = checkpoints
        self._base = replace(self._base, **changes)

    def history(self) -> History:
        """The run so far."""
        series = {name: column.series() for name, column in self._columns.items()}
        rows = series.pop("_row", None)
        return replace(
            self._base,
            series=series,
            steps=rows.steps if rows is not None else np.empty(0),
            nulls={name: np.array(steps, dtype=float) for name, steps in self._nulls.items()},
        )

    def new_findings(self, final: bool = False) -> list[Finding]:
        """Warnings and stops that have not been told before, in the order in which they should be read.

        ``final`` asks every rule, whatever it costs.
        """
        start = time.perf_counter()
        affordable = final or self.seconds <= BUDGET * (start - self._began)
        found = diagnose(self.history(), self._rules if affordable else self._urgent).findings
        fresh = [self._as_told(finding) for finding in found if self._is_new(finding)]
        self.seconds += time.perf_counter() - start
        return fresh

    def told(self, finding: Finding) -> bool:
        """Mark a finding that was made elsewhere; False if it, or what explains it, has been told already."""
        if not self._is_new(finding):
            return False
        self._as_told(finding)
        return True

    def complete(self, finding: Finding) -> Finding:
        """A finding made elsewhere, with the last checkpoint before it."""
        return replace(with_checkpoint(finding, self.history()), stage="training")

    def _is_new(self, finding: Finding) -> bool:
        earlier = self._told.get(finding.code)
        worse = earlier is None or SEVERITIES.index(earlier) < SEVERITIES.index(finding.severity)
        return finding.severity in ALARMS and worse

    def _as_told(self, finding: Finding) -> Finding:
        self._told[finding.code] = finding.severity
        rule: Rule | None = next((one for one in self._rules if one.code == finding.code), None)
        for code in rule.explains if rule is not None else ():
            self._told[code] = "stop"  # explained, so never told by itself
        return replace(finding, stage="training")


def is_held_out(key: str) -> bool:
    """Whether a key is a held-out score, or says only where the run stands."""
    return (kept_name(key) or "").startswith(HELD_OUT) or key == "epoch"


def evaluated(row: Mapping[str, Any]) -> bool:
    """Whether a log row holds a held-out score."""
    return any((kept_name(key) or "").startswith(HELD_OUT) for key in row)
