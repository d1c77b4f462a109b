"""``evenhand pitfalls``."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli import options
from evenhand.cli.output import print_json, stderr, stdout

Numbers = Annotated[
    list[int] | None, typer.Argument(metavar="[NUMBER]...", help="Which ones; all where none is named.")
]
Page = Annotated[Path | None, typer.Option("--page", help="Also write the page about them, from these runs.")]
Keep = Annotated[Path | None, typer.Option("--keep", help="Keep the run folders here.")]


def pitfalls(numbers: Numbers = None, page: Page = None, keep: Keep = None, as_json: options.AsJson = False) -> None:
    """Run the eight pitfalls, with the fault put in and mended: Evenhand must name the first and not the second."""
    from evenhand import pitfalls as living  # noqa: PLC0415 - keeps `evenhand --help` quick
    from evenhand.errors import ConfigurationError  # noqa: PLC0415 - as above

    known = [one.number for one in living.PITFALLS]
    unknown = [number for number in numbers or () if number not in known]
    if unknown:
        raise ConfigurationError(f"There is no pitfall {unknown[0]}.", f"They are numbered {known[0]} to {known[-1]}.")
    out, say, results = stdout(), stderr(), []
    with tempfile.TemporaryDirectory(prefix="evenhand-pitfalls-") as scratch:
        folder = keep or Path(scratch)
        for result in living.run_pitfalls(numbers or (), folder, lambda line: say.print(line, markup=False)):
            results.append(result)
            if not as_json:
                out.print(verdict(result.pitfall.number, result.pitfall.title, result.missed(), result.false_alarms()))
    if as_json:
        print_json({"pitfalls": [result.to_json() for result in results]})
    if page is not None:
        page.write_text(living.page(results), encoding="utf-8")
    raise typer.Exit(int(not all(result.passed for result in results)))


def verdict(number: int, title: str, missed: list[str], false_alarms: list[str]) -> str:
    """One line about a pitfall."""
    faults = [f"not named: {', '.join(missed)}"] if missed else []
    faults += [f"also named on the mended twin: {', '.join(false_alarms)}"] if false_alarms else []
    return f"{number}  {'FAILED' if faults else 'named '}  {title}{': ' + '; '.join(faults) if faults else ''}"
