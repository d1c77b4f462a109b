"""How commands print: data on stdout, everything else on stderr, never by colour alone."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from evenhand.records import Finding, Unknown

# What stands before a finding, so that no severity is told by colour alone.
MARKS = {"ok": "ok  ", "note": "note", "warn": "WARN", "stop": "STOP"}
STYLES = {"ok": "green", "note": "cyan", "warn": "yellow", "stop": "bold red"}
WIDTH_WITHOUT_TERMINAL = 160  # tables in a file or a pipe are not cut to 80 columns


def stdout() -> Console:
    """The console for data."""
    return console(sys.stdout)


def stderr() -> Console:
    """The console for everything else."""
    return console(sys.stderr)


def console(stream: Any) -> Console:
    """A console on a stream, wide where there is no terminal, in colour only where there is one."""
    terminal = stream.isatty()
    width = None if terminal or "COLUMNS" in os.environ else WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, width=width, highlight=False, soft_wrap=not terminal)


def print_json(value: Any) -> None:
    """One JSON document on stdout. NaN stays the bare word that Python's json writes and reads."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A plain table. Cells are text, never markup: they may hold a model's output."""
    from rich.text import Text  # noqa: PLC0415 - keeps `evenhand --help` quick

    built = Table(title=title, title_justify="left", show_edge=False, pad_edge=False)
    for column in columns:
        built.add_column(column, overflow="fold")
    for row in rows:
        built.add_row(*(Text(printable(cell)) for cell in row))
    return built


def printable(text: str) -> str:
    """Text without control characters (a completion may hold escape codes); line ends and tabs stay."""
    return "".join(c if c in "\n\t" or c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def print_findings(findings: Sequence[Finding], unknown: Sequence[Unknown] = (), to: Console | None = None) -> None:
    """Findings, worst first: mark, code, step, message, then the remedy below."""
    from rich.text import Text  # noqa: PLC0415 - keeps `evenhand --help` quick

    target = to or stdout()
    order = list(MARKS)
    for finding in sorted(findings, key=lambda one: -order.index(one.severity)):
        where = "" if finding.step is None else f" (step {finding.step})"
        head = Text(f"{MARKS[finding.severity]}  {finding.code}{where}: ", style=STYLES[finding.severity])
        target.print(head.append(printable(finding.message), style="default"))
        if finding.remedy:
            target.print(Text(f"      → {printable(finding.remedy)}"))
    for one in unknown:
        target.print(Text(f"?     {one.code}: cannot be judged, {printable(one.reason)}"))


def exit_code(findings: Iterable[Finding]) -> int:
    """1 if any finding is a ``stop``, else 0."""
    return int(any(finding.severity == "stop" for finding in findings))
