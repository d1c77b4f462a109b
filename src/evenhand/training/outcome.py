"""How a run ended: its evaluations, the chosen checkpoint, and what to do next."""

from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from evenhand.errors import RunFolderError
from evenhand.records import Evaluation, Finding
from evenhand.runfolder import RunFolder
from evenhand.selection import Selection, choose, save


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished or interrupted run."""

    folder: RunFolder
    interrupted: bool
    ended_by: Finding | None
    evaluations: list[Evaluation]
    selection: Selection | None
    why_none: str = ""

    def to_json(self) -> dict[str, Any]:
        """For ``train --json``."""
        return {
            "run": str(self.folder.path),
            "interrupted": self.interrupted,
            "ended_by": self.ended_by.to_json() if self.ended_by else None,
            "evaluations": [{"step": e.step, "n": e.n, **e.metrics} for e in self.evaluations],
            "selection": self.selection.to_json() if self.selection else None,
        }

    def summary(self) -> Table:
        """Every evaluation, the chosen one marked."""
        table = Table(title=f"{self.folder.path}", title_justify="left", show_edge=False, pad_edge=False)
        names = list(self.evaluations[-1].metrics) if self.evaluations else []
        for column in ("step", *names, ""):
            table.add_column(column)
        for evaluation in self.evaluations:
            chosen = self.selection is not None and evaluation.step == self.selection.step
            cells = [f"{evaluation.metrics.get(name, float('nan')):.1%}" for name in names]
            table.add_row(*(Text(cell) for cell in (str(evaluation.step), *cells, "chosen" if chosen else "")))
        return table

    def next_steps(self) -> list[str]:
        """What was chosen and how sure that is, and the commands that go on from here."""
        path = self.folder.path
        if self.interrupted:
            return [f"Interrupted. Go on with: evenhand train --resume {path}"]
        said = [*self.selection.sentences()] if self.selection else [self.why_none]
        if self.ended_by is not None:
            said.insert(0, f"The watchdog ended this run: {self.ended_by.code}. Read it with: evenhand diagnose {path}")
        said += [
            "Next:",
            f"  evenhand evaluate {path} --show 3     look at answers of the chosen checkpoint",
            f"  evenhand report {path}                one page about the run, to read or to pass on",
            f"  evenhand test {path}                  score it once on problems that nobody has tuned on",
        ]
        return said


def conclude(folder: RunFolder, interrupted: bool, ended_by: Finding | None) -> Outcome:
    """Choose a checkpoint by the configured rule and close the run folder."""
    selection, why_none = None, ""
    if interrupted:
        folder.write_status("interrupted")
    else:
        try:
            selection = choose(folder)
            save(folder, selection)
        except RunFolderError as error:
            why_none = str(error)
    return Outcome(folder, interrupted, ended_by, folder.evaluations(), selection, why_none)
