"""What a check is.

A check looks for one kind of fault in a :class:`Setup`. To add one: write one file in ``checks/`` with a subclass of
:class:`Check`, and add an object of it to ``CHECKS`` in ``checks/__init__.py``. The class's docstring is its page in
``docs/findings.md``: a first line, then the headings *Why it matters*, *Example* and *Remedy*. The contract tests then
cover it: it must hold on its own ``sick`` example and, if it warns or stops, be silent on every healthy one.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from evenhand.preflight.reward_study import RewardsFailed
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Finding, Severity, Unknown

Verdict = Finding | Unknown | None
T = TypeVar("T")


class Check(ABC):
    """One kind of fault that can be seen before the first step.

    Attributes:
        code: Stable; names the fault and not the cure.
        severity: What a finding of it usually has; a check may say less.
        needs: The parts of the set-up without which it cannot judge.
    """

    code: ClassVar[str]
    severity: ClassVar[Severity]
    needs: ClassVar[tuple[Part, ...]] = ()

    @abstractmethod
    def judge(self, setup: Setup) -> Verdict:
        """A finding where the fault is there, an ``Unknown`` where it cannot be judged, None where all is well.

        It is asked only where every part in ``needs`` is there.
        """

    @abstractmethod
    def sick(self) -> Setup:
        """A small set-up in which the check must hold."""

    def finding(
        self,
        message: str,
        *,
        evidence: Mapping[str, Any] | None = None,
        remedy: str = "",
        severity: Severity | None = None,
    ) -> Finding:
        """A finding of this check."""
        return Finding(
            code=self.code,
            severity=severity or self.severity,
            stage="preflight",
            message=message,
            evidence=dict(evidence or {}),
            remedy=remedy,
        )

    def unknown(self, reason: str) -> Unknown:
        """This check cannot judge, and why."""
        return Unknown(self.code, reason)

    def answer(self, setup: Setup) -> Verdict:
        """The verdict, or an ``Unknown`` that names the part that is not there."""
        for part in self.needs:
            if getattr(setup, part) is None:
                return self.unknown(setup.absent.get(part, f"the {part} were not looked at"))
        try:
            return self.judge(setup)
        except RewardsFailed as error:
            return self.unknown(f"the rewards cannot be called: {error}")


def present(part: T | None) -> T:
    """A part that the check named in ``needs``. Raises LookupError where it did not."""
    if part is None:
        raise LookupError("a check reads a part of the set-up that it does not name in `needs`")
    return part
