"""``evenhand evaluate``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from evenhand.cli import options
from evenhand.cli.output import print_json, printable, stderr, stdout, table

MODEL_HELP = "A model's name or directory, a checkpoint, or a run (its chosen checkpoint, else its last)."


def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL|CHECKPOINT|RUN", help=MODEL_HELP, show_default=False)],
    split: Annotated[
        str, typer.Option("--split", help="dev, train or control; test is only for `evenhand test`.")
    ] = "dev",
    task: options.TaskName = None,
    show: Annotated[int, typer.Option("--show", min=0, help="Print so many problems with what was answered.")] = 0,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many problems.")] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")] = "auto",
    data: Annotated[Path, typer.Option("--data", help="Where the splits lie.")] = Path("data"),
    as_json: options.AsJson = False,
) -> None:
    """The task's metrics with 95 % intervals and the prediction distribution, decoded greedily."""
    from evenhand.scoring import Request, score_model  # noqa: PLC0415 - loads torch

    request = Request(task=task, split=split, limit=limit, device=device, data=data)
    scored = score_model(model, request)
    evaluation = scored.evaluation
    if as_json:
        row = evaluation.to_json()
        shown = ("expected", "predicted", "outcomes", "seconds", "step")
        print_json({key: value for key, value in row.items() if key not in shown} | {"model": str(scored.directory)})
    else:
        rows = [
            [name, f"{value:.1%}", "{:.1%} to {:.1%}".format(*evaluation.intervals[name])]
            for name, value in evaluation.metrics.items()
        ]
        title = f"{scored.directory} on {evaluation.split}, {evaluation.n} problems, greedy"
        stdout().print(table(title, ("metric", "rate", "95 % interval"), rows))
        predictions = " ".join(f"{answer}×{count}" for answer, count in evaluation.predictions.items())
        stdout().print(f"answers: {predictions}", markup=False)
    for answer in scored.answers[:show]:
        print_answer(answer.to_json(scored.task), to_stderr=as_json)


def print_answer(row: dict[str, Any], to_stderr: bool) -> None:
    """One problem: expected, got, items and text."""
    target = stderr() if to_stderr else stdout()
    metrics = ", ".join(f"{name} {value:g}" for name, value in row["metrics"].items())
    question = ", ".join(f"{key} {value}" for key, value in row["columns"].items())
    target.print(f"\n#{row['index']}  expected {row['expected']}, got {row['prediction']}  ({metrics})", markup=False)
    target.print(f"  {question}", markup=False)
    target.print("".join(f"  | {line}\n" for line in printable(row["text"]).splitlines()), markup=False, end="")
