"""The page of all findings, written from the checks and rules themselves: ``python -m evenhand.reference``.

Prints ``docs/findings.md``; a test holds the file to what is printed.
"""

import inspect
import sys
from dataclasses import dataclass

from evenhand.diagnosis.rules import RULES
from evenhand.preflight.checks import CHECKS
from evenhand.records import Severity

INTRODUCTION = """\
<!-- Written by `python -m evenhand.reference`; change the docstrings of the checks and rules instead. -->

# Findings

A finding names a fault (or a reassurance), the first step where it holds, the numbers it rests on, and what to do.
`stop`: going on wastes the run. `warn`: look before going on. `note`: worth knowing. `ok`: looks alarming and is fine.
What cannot be judged is listed as unknown with the reason; a key that was not logged is never taken for zero.

`evenhand preflight` looks before a run, the watchdog during it, `evenhand diagnose` at its log, whoever wrote it.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One check or rule."""

    code: str
    severity: Severity
    page: str  # its docstring


def entries(before: bool) -> list[Entry]:
    """The checks before a run, or the rules in one and after it, by code."""
    found = [Entry(one.code, one.severity, inspect.getdoc(type(one)) or "") for one in (CHECKS if before else RULES)]
    return sorted(found, key=lambda entry: entry.code)


def findings_page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for title, before in (("Before a run", True), ("In a run and after it", False)):
        group = entries(before)
        parts.append(f"## {title}\n")
        parts.append(overview(group, before))
        parts += [section(entry, before) for entry in group]
    return "\n".join(parts).rstrip() + "\n"


def overview(group: list[Entry], before: bool) -> str:
    """One line each."""
    rows = [f"| [`{one.code}`](#{anchor(one, before)}) | {one.severity} | {first_line(one)} |" for one in group]
    return "\n".join(["| finding | severity | holds when |", "|---|---|---|", *rows, ""])


def section(entry: Entry, before: bool) -> str:
    """A check's or rule's own words, its headings two levels down."""
    _, _, rest = entry.page.partition("\n")
    body = rest.strip().replace("\n## ", "\n#### ").replace("## ", "#### ", 1)
    heading = f'<a id="{anchor(entry, before)}"></a>\n\n### `{entry.code}` ({entry.severity})'
    return f"{heading}\n\n{first_line(entry)}\n\n{body}\n"


def first_line(entry: Entry) -> str:
    """The docstring's first paragraph, on one line."""
    return " ".join(entry.page.partition("\n\n")[0].split())


def anchor(entry: Entry, before: bool) -> str:
    """Where a section is linked to: a code may stand in both halves."""
    return f"preflight-{entry.code}" if before else entry.code


if __name__ == "__main__":
    sys.stdout.write(findings_page())
