"""``evenhand diagnose``."""

from collections.abc import Sequence
from typing import Annotated

import typer

from evenhand.cli import options
from evenhand.cli.output import exit_code, print_findings, print_json, stderr
from evenhand.records import Unknown

Log = Annotated[
    str,
    typer.Argument(
        metavar="PATH|-",
        help="A run folder, a checkpoint, trainer_state.json, JSON lines, CSV, a pasted log, or - for standard input.",
        show_default=False,
    ),
]
Keys = Annotated[bool, typer.Option("--keys", help="Say which keys of the log were understood, and which were not.")]


def diagnose(path: Log, as_json: options.AsJson = False, keys: Keys = False) -> None:
    """Say what is wrong with a GRPO log, since when, and what to do; or that all is well."""
    from evenhand.diagnosis.diagnose import diagnose_log  # noqa: PLC0415 - keeps `evenhand --help` quick

    history, diagnosis = diagnose_log(path)
    if as_json:
        print_json(diagnosis.to_json())
        raise typer.Exit(exit_code(diagnosis.findings))
    out = stderr()
    first, last = (history.steps[0], history.steps[-1]) if history.rows else (0, 0)
    counted = "step" if history.steps_known else "row"
    out.print(
        f"{history.source}: {history.kind}, {history.rows} rows, {counted} {first:.0f} to {last:.0f}", markup=False
    )
    for remark in history.remarks:
        out.print(remark, markup=False)
    if keys:
        for found, kept in sorted(history.understood.items()):
            out.print(f"  {found}{'' if found == kept else f' → {kept}'}", markup=False)
        for found in history.ignored:
            out.print(f"  {found}: not understood, not used", markup=False)
    elif history.ignored:
        out.print(f"{len(history.ignored)} keys were not understood; --keys lists them.", markup=False)
    print_findings(diagnosis.findings, by_reason(diagnosis.unknown))
    if not any(finding.severity in {"warn", "stop"} for finding in diagnosis.findings):
        out.print("Nothing is wrong with this run as far as its log tells.", markup=False)
    raise typer.Exit(exit_code(diagnosis.findings))


def by_reason(unknown: Sequence[Unknown]) -> list[Unknown]:
    """One entry per reason, with the codes of all that it concerns."""
    codes: dict[str, list[str]] = {}
    for one in unknown:
        codes.setdefault(one.reason, []).append(one.code)
    return [Unknown(", ".join(named), reason) for reason, named in codes.items()]
