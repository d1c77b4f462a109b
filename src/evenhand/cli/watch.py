"""``evenhand watch``."""

import sys
from typing import Annotated

import typer

from evenhand.cli import options
from evenhand.cli.output import stdout

Once = Annotated[bool, typer.Option("--once", help="Print one frame and leave; so it does where there is no terminal.")]
Every = Annotated[float, typer.Option("--every", min=0.1, help="Seconds between two looks at the folder.")]


def watch(run: options.RunPath, once: Once = False, every: Every = 1.0) -> None:
    """Show a run as it goes, from its folder alone; also one in another process, a killed one, a finished one."""
    from rich.live import Live  # noqa: PLC0415 - keeps `evenhand --help` quick

    from evenhand.watch import changes, draw, look  # noqa: PLC0415 - loads NumPy

    view, terminal = look(run), stdout()
    if not once and sys.stdout.isatty():
        with Live(console=terminal, screen=True, auto_refresh=False) as live:
            try:
                for view in changes(run, every):
                    live.update(draw(view, terminal.width), refresh=True)
            except KeyboardInterrupt:
                view = look(run)
    terminal.print(draw(view, terminal.width))  # the last frame stays
