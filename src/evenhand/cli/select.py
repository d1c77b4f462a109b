"""``evenhand select``: which checkpoint to keep."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from evenhand.runfolder import RunFolder
from evenhand.selection import Selection, choose, save


def select(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the choice as JSON.")] = False,
) -> None:
    """Choose a checkpoint by the rule that the run's configuration wrote down, and say how sure the choice is."""
    folder = RunFolder.open(run)
    selection = choose(folder)
    status = folder.read_json("status.json") or {}
    if status.get("state") in {"starting", "running"}:
        Console(stderr=True).print("This run is not finished: the choice is not recorded and may change.")
    else:
        save(folder, selection)
    if as_json:
        print(json.dumps(selection.to_json(), indent=2))
        return
    show(selection)


def show(selection: Selection) -> None:
    """Print the choice, and every other candidate beside it."""
    out = Console()
    for sentence in selection.sentences():
        out.print(sentence, highlight=False)
    out.print(f"Rule: {selection.rule}.", highlight=False)
    if not selection.comparisons:
        return
    table = Table("step", selection.metric, "beside the best", "95 % interval", "p", "")
    for comparison in selection.comparisons:
        difference = comparison.difference
        low, high = difference.interval
        table.add_row(
            str(comparison.step),
            f"{comparison.value:.1%}",
            f"{difference.value:+.1%}",
            f"{low:+.1%} to {high:+.1%}",
            f"{difference.p:.2g}",
            "" if difference.beyond_noise else "within noise",
        )
    out.print(table)
