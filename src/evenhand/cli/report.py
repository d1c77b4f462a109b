"""``evenhand report``."""

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.output import print_json, stdout


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="One run folder or several.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", help="Where to write the page; of one run it goes into its folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the page's path and size as JSON.")] = False,
) -> None:
    """Write one self-contained HTML page about one run, or about several side by side."""
    from evenhand.report import write  # noqa: PLC0415 - loads SciPy
    from evenhand.runfolder import RunFolder  # noqa: PLC0415 - keeps `evenhand --help` quick

    folders = [RunFolder.open(run) for run in runs]
    default = folders[0].path / "report.html" if len(folders) == 1 else Path("report.html")
    page = write(folders, out or default)
    if as_json:
        print_json({"page": str(page), "bytes": page.stat().st_size, "runs": [str(run) for run in runs]})
    else:
        stdout().print(f"{page} ({page.stat().st_size / 1e6:.1f} MB): open it in a browser.", markup=False)
