"""``evenhand test``."""
# ruff: noqa: PT028 - a command, not a test

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from evenhand.cli import options
from evenhand.cli.output import print_json, stderr, stdout, table


def test(
    run: options.RunPath,
    again: Annotated[
        str | None, typer.Option("--again", metavar="REASON", help="Score test once more; the reason is recorded.")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")] = "auto",
    data: Annotated[
        Path | None, typer.Option("--data", help="Where the splits lie, if not in the run's own place.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Score the chosen checkpoint and the model before training on the test problems, once.

    Later calls show the record.
    """
    from evenhand.runfolder import RunFolder  # noqa: PLC0415 - keeps `evenhand --help` quick
    from evenhand.testing import recorded_tests  # noqa: PLC0415 - loads torch

    folder = RunFolder.open(run)
    records = recorded_tests(folder)
    if not records or again is not None:
        records.append(scored(folder, again, device, data))
    if as_json:
        print_json({"records": records})
    else:
        show(records)


def scored(folder: Any, again: str | None, device: str, data: Path | None) -> dict[str, Any]:
    """Look at test, with a progress bar."""
    from rich.progress import Progress  # noqa: PLC0415 - keeps `evenhand --help` quick

    from evenhand.testing import look, prepare  # noqa: PLC0415 - loads torch

    examined = prepare(folder, data)
    console = stderr()
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("test problems", total=examined.questions)
        return look(examined, again, device, lambda count: progress.advance(bar, count))


def show(records: Sequence[dict[str, Any]]) -> None:
    """Print the latest record, and every earlier one by its reason."""
    record = records[-1]
    rows = [
        [
            name,
            f"{record['base'][name]:.1%}",
            f"{record['selected'][name]:.1%}",
            f"{difference['value']:+.1%}",
            "{:+.1%} to {:+.1%}".format(*difference["interval"]),
            f"{difference['p']:.2g}",
        ]
        for name, difference in record["difference"].items()
    ]
    again = f", look {len(records)}" if len(records) > 1 else ""
    title = f"{record['n']} test problems, step {record['step']}, scored {record['time']}{again}"
    columns = ("metric", "before training", "chosen", "difference", "95 % interval", "p")
    stdout().print(table(title, columns, rows))
    for number, later in enumerate(records[1:], start=2):
        stdout().print(f"Test was looked at again (look {number}, {later['time']}): {later['again']}", markup=False)
