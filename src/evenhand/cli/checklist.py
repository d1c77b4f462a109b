"""``evenhand checklist``."""

import typer

from evenhand.cli import options
from evenhand.cli.output import print_json, stdout

MARKS = {"fine": "fine", "look": "LOOK", "wrong": "WRONG", "unanswerable": "?"}


def checklist(run: options.RunPath, as_json: options.AsJson = False) -> None:
    """Answer the seven questions to ask of a run that does not improve or looks odd, with evidence from its folder."""
    from evenhand.checklist import checklist as answers  # noqa: PLC0415 - keeps `evenhand --help` quick

    found = answers(run)
    if as_json:
        print_json({"checklist": [one.to_json() for one in found]})
    else:
        out = stdout()
        for one in found:
            out.print(f"{one.number}  {MARKS[one.status]:5}  {one.question}", markup=False)
            out.print(f"          {one.answer}", markup=False)
    raise typer.Exit(int(any(one.status == "wrong" for one in found)))
