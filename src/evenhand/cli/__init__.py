"""The command line: one file per command. To add one: a file with a function, an entry in ``COMMANDS``.

A command's file imports nothing heavy at its top, so that ``evenhand --help`` answers at once.
"""

from collections.abc import Callable
from importlib import metadata
from typing import Annotated, Any

import typer

from evenhand.cli import explain, models
from evenhand.cli.ablate import ablate
from evenhand.cli.bench import bench
from evenhand.cli.checklist import checklist
from evenhand.cli.coldstart import coldstart
from evenhand.cli.compare import compare
from evenhand.cli.diagnose import diagnose
from evenhand.cli.evaluate import evaluate
from evenhand.cli.pitfalls import pitfalls
from evenhand.cli.preflight import preflight
from evenhand.cli.probe import probe
from evenhand.cli.report import report
from evenhand.cli.select import select
from evenhand.cli.tasks import tasks
from evenhand.cli.test import test
from evenhand.cli.train import train
from evenhand.cli.watch import watch

COMMANDS: tuple[Callable[..., Any], ...] = (
    train,
    coldstart,
    preflight,
    probe,
    evaluate,
    compare,
    select,
    diagnose,
    report,
    ablate,
    test,
    watch,
    checklist,
    pitfalls,
    bench,
    tasks,
)

application = typer.Typer(
    name="evenhand",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in COMMANDS:
    application.command()(command)
application.command(context_settings=explain.CONTEXT_SETTINGS)(explain.explain)
application.add_typer(models.app, name="models")


def show_version(asked: bool) -> None:
    """Print the version and leave."""
    if asked:
        typer.echo(f"evenhand {metadata.version('evenhand')}")
        raise typer.Exit


@application.callback()
def evenhand(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Train small language models with GRPO on your own machine, and know whether to believe the numbers."""
    del version
