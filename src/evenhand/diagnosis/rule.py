"""What a rule is.

A rule looks for one kind of event in a :class:`History`. To add one: write one file in ``rules/`` with a subclass of
:class:`Rule`, and add an object of it to ``RULES`` in ``rules/__init__.py``. The class's docstring is its page in
``docs/findings.md``: a first line, then the headings *Why it matters*, *Example* and *Remedy*. The contract tests then
cover it: it must hold on its own ``sick`` example and, if it warns or stops, be silent on every healthy one.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from evenhand.diagnosis.history import History
from evenhand.records import Finding, Severity, Unknown

Verdict = Finding | Unknown | None


class Rule(ABC):
    """One kind of event.

    Attributes:
        code: Stable; names the fault and not the cure.
        severity: What a finding of it usually has; a rule may say less.
        explains: Codes of findings that are the same event seen elsewhere: they are named in this finding instead of
            being reported.
        live: Whether the watchdog asks it while a run goes on.
    """

    code: ClassVar[str]
    severity: ClassVar[Severity]
    explains: ClassVar[frozenset[str]] = frozenset()
    live: ClassVar[bool] = True

    @abstractmethod
    def judge(self, history: History) -> Verdict:
        """A finding where the event took place, an ``Unknown`` where it cannot be judged, None where all is well."""

    @abstractmethod
    def sick(self) -> History:
        """A small history in which the rule must hold."""

    def finding(
        self,
        message: str,
        *,
        step: float | None = None,
        evidence: Mapping[str, Any] | None = None,
        remedy: str = "",
        severity: Severity | None = None,
    ) -> Finding:
        """A finding of this rule; numbers in ``evidence`` are rounded to what a reader can use."""
        shown = {key: readable(value) for key, value in (evidence or {}).items()}
        return Finding(
            code=self.code,
            severity=severity or self.severity,
            stage="diagnosis",
            message=message,
            step=None if step is None else int(step),
            evidence=shown,
            remedy=remedy,
        )

    def unknown(self, reason: str) -> Unknown:
        """This rule cannot judge, and why."""
        return Unknown(self.code, reason)


def readable(value: Any) -> Any:
    """Plain Python numbers with six significant digits; containers entry by entry."""
    if isinstance(value, Mapping):
        return {str(key): readable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [readable(one) for one in value]
    if isinstance(value, bool | str) or value is None:
        return value
    number = float(value)
    if not math.isfinite(number):
        return str(number)  # JSON has no NaN
    return int(number) if number.is_integer() and abs(number) < 1e15 else float(f"{number:.6g}")
