"""The page: one HTML file that needs no network and no server.

Model output is untrusted. Nothing of it becomes markup: Jinja2 escapes text, data stands in JSON and base64 that hold
no ``<``, the page's script writes text nodes only, and a content security policy lets no other script run.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from evenhand.errors import RunFolderError
from evenhand.report import completions, summary
from evenhand.report.completions import Packed, pack
from evenhand.report.drawing import Drawing
from evenhand.report.figures import FIGURES, Figure
from evenhand.report.reading import RunView, read_runs
from evenhand.runfolder import RunFolder, replace_file

SCRIPTS = ("d3.min.js", "plot.umd.min.js", "page.js")


@dataclass(frozen=True, slots=True)
class DrawnFigure:
    """A figure with what it shows of one group of runs."""

    figure: Figure
    anchor: str
    drawing: Drawing


@dataclass(frozen=True, slots=True)
class Group:
    """Runs of one task, which may be compared."""

    title: str
    runs: Sequence[RunView]
    side_by_side: summary.Table | None
    figures: Sequence[DrawnFigure]


def write(folders: Sequence[RunFolder], out: Path) -> Path:
    """Write the page of some runs to ``out``.

    Raises:
        RunFolderError: no run, or the disk refuses.
    """
    page = build(folders)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        replace_file(out, page)
    except OSError as error:
        raise RunFolderError(f"{out} cannot be written: {error.strerror}.", "Name another place with --out.") from error
    return out


def build(folders: Sequence[RunFolder]) -> str:
    """The page as text. Raises RunFolderError where no run is named."""
    if not folders:
        raise RunFolderError("No run was named.", "Name one or more folders under runs/.")
    runs = read_runs(folders)
    packed = pack(runs, completions.BUDGET)
    groups = grouped(runs)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(asset("page.html.jinja")).render(
        title=title_of(runs),
        groups=groups,
        runs=runs,
        summary=summary,
        overview=summary.overview(runs),
        tests=[looks for run in runs if (looks := summary.test_looks(run)) is not None],
        findings=[(run, i, finding) for run in runs for i, finding in enumerate(run.findings, start=1)],
        unknown=[(run.name, one) for run in runs for one in run.unknown],
        gaps=[(run.name, gap) for run in runs for gap in run.gaps] + [("completions", gap) for gap in packed.gaps],
        several_tasks=len(groups) > 1,
        style=Markup(asset("page.css")),
        scripts=[Markup(asset(name)) for name in SCRIPTS],
        policy=security_policy(),
        data=as_json(page_data(runs, groups, packed)),
        chunks=packed.chunks,
    )
    return page.encode("utf-8", errors="replace").decode("utf-8")  # a broken text may hold half a surrogate pair


def grouped(runs: Sequence[RunView]) -> list[Group]:
    """Runs of one task together: scores of different tasks are never laid over one another."""
    by_task: dict[str, list[RunView]] = {}
    for run in runs:
        by_task.setdefault(run.task.version if run.task else "unknown task", []).append(run)
    return [
        Group(
            title=task,
            runs=members,
            side_by_side=summary.side_by_side(members),
            figures=[DrawnFigure(f, f"{f.name}-{number}", f.draw(members)) for f in FIGURES],
        )
        for number, (task, members) in enumerate(by_task.items())
    ]


def title_of(runs: Sequence[RunView]) -> str:
    """What a browser's tab shows."""
    return runs[0].name if len(runs) == 1 else f"{len(runs)} runs"


def page_data(runs: Sequence[RunView], groups: Sequence[Group], packed: Packed) -> dict[str, Any]:
    """What the script needs: figures, and where each step's completions lie."""
    return {
        "runs": [{"name": run.name, "style": run.style} for run in runs],
        "figures": {f.anchor: [plot.to_json() for plot in f.drawing.plots] for g in groups for f in g.figures},
        "chunks": [{"run": chunk.run, "source": chunk.source, "steps": list(chunk.steps)} for chunk in packed.chunks],
    }


def as_json(value: Any) -> Markup:
    """JSON that can stand inside a script element: no character of it can end one."""
    text = json.dumps(value, separators=(",", ":"), default=str)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def security_policy() -> str:
    """Only the page's own scripts run, known by their hashes; nothing is loaded from anywhere."""
    digests = (base64.b64encode(hashlib.sha256(asset(name).encode()).digest()).decode() for name in SCRIPTS)
    own = " ".join(f"'sha256-{digest}'" for digest in digests)
    rest = "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {own}; {rest}"


def asset(name: str) -> str:
    """A file that comes with this folder."""
    return (resources.files("evenhand.report") / "assets" / name).read_text(encoding="utf-8")


class Inline:
    """A page for a notebook: shown in a frame of its own, in which the same security policy holds."""

    def __init__(self, page: str, height: int) -> None:
        self.page = page
        self.height = height

    def _repr_html_(self) -> str:
        """What Jupyter displays."""
        escaped = str(Markup.escape(self.page))
        style = f"width:100%;height:{self.height}px;border:1px solid #8888"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escaped}"></iframe>'


def show(*runs: Path | str, height: int = 900) -> Inline:
    """The page of some runs, inline in a notebook. Raises RunFolderError where a folder is none of a run."""
    return Inline(build([RunFolder.open(Path(run)) for run in runs]), height)
