"""``evenhand compare``."""

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli import options
from evenhand.cli.evaluate import MODEL_HELP
from evenhand.cli.output import print_json, stdout, table
from evenhand.errors import TaskError

SHOWN_CHANGES = 20
REMEDY = "Name one task for both: --task NAME."


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help=MODEL_HELP, show_default=False)],
    second: Annotated[str, typer.Argument(metavar="B", help=MODEL_HELP, show_default=False)],
    split: Annotated[str, typer.Option("--split", help="dev, train or control.")] = "dev",
    task: options.TaskName = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many problems.")] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")] = "auto",
    data: Annotated[Path, typer.Option("--data", help="Where the splits lie.")] = Path("data"),
    as_json: options.AsJson = False,
) -> None:
    """Two models problem by problem on the same split: which predictions changed, and the paired difference B - A."""
    from evenhand.paired import paired_difference  # noqa: PLC0415 - loads SciPy
    from evenhand.scoring import Request, score_model  # noqa: PLC0415 - loads torch

    request = Request(task=task, split=split, limit=limit, device=device, data=data)
    a = score_model(first, request).evaluation
    b = score_model(second, request).evaluation
    if a.metrics.keys() != b.metrics.keys() or a.expected != b.expected:
        raise TaskError(f"{first} and {second} answer different tasks, whose scores say nothing of each other.", REMEDY)
    differences = {name: paired_difference(a.outcomes[name], b.outcomes[name]) for name in a.metrics}
    changes = [
        {"index": i, "expected": truth, "a": before, "b": after}
        for i, (truth, before, after) in enumerate(zip(a.expected, a.predicted, b.predicted, strict=True))
        if before != after
    ]
    if as_json:
        metrics = {name: one.to_json() for name, one in differences.items()}
        print_json(
            {"split": split, "n": a.n, "a": a.metrics, "b": b.metrics, "difference": metrics, "changed": changes}
        )
        return
    rows = [
        [name, f"{a.metrics[name]:.1%}", f"{b.metrics[name]:.1%}", f"{one.value:+.1%}",
         "{:+.1%} to {:+.1%}".format(*one.interval), f"{one.p:.2g}"]
        for name, one in differences.items()
    ]  # fmt: skip
    columns = ("metric", "A", "B", "B - A", "95 % interval", "p")
    stdout().print(table(f"{a.n} {split} problems, paired", columns, rows))
    stdout().print(f"{len(changes)} of {a.n} predictions changed.")
    shown = [[str(c["index"]), str(c["expected"]), str(c["a"]), str(c["b"])] for c in changes[:SHOWN_CHANGES]]
    if shown:
        stdout().print(table("Changed predictions", ("problem", "expected", "A", "B"), shown))
