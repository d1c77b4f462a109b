"""A live view of a run, drawn from its folder alone: of this process or another, of a killed run or a finished one."""

import os
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from evenhand.diagnosis.diagnose import diagnose
from evenhand.diagnosis.history import History, Series
from evenhand.diagnosis.readers import read_history
from evenhand.diagnosis.readers.folder import COLD_START, from_cold_start
from evenhand.diagnosis.rules.steps_explained import prompts_per_step
from evenhand.diagnosis.signals import uniform_share
from evenhand.errors import LogError
from evenhand.records import Evaluation, Finding
from evenhand.runfolder import RunFolder

BARS = "▁▂▃▄▅▆▇█"
SPARK = 24  # characters of a curve
ANSWERS = 12  # most frequent predictions that are shown
STYLES = {"stop": "bold red", "warn": "yellow", "note": "cyan", "ok": "green"}
SIDE_BY_SIDE = 150  # columns from which curves and evaluation stand beside each other
SECONDS_WITHOUT_A_SIGN = 3600  # after which a run on another machine is called silent


@dataclass(frozen=True, slots=True)
class View:
    """What is known of a run at one moment."""

    path: Path
    state: str
    history: History | None
    status: dict[str, Any]
    findings: tuple[Finding, ...]


def look(path: Path) -> View:
    """Read a run folder.

    Raises:
        RunFolderError: no run folder.
    """
    folder = RunFolder.open(path)
    read = folder.read_json("status.json")
    status = read if isinstance(read, dict) else {}
    history = history_of_run(folder)
    told = [finding for finding in folder.findings() if finding.severity in {"warn", "stop"}]
    if history is not None and history.kind != COLD_START:
        known = {finding.code for finding in told}
        told += [one for one in diagnose(history).findings if shown(one) and one.code not in known]
    return View(path, state_of(folder, status), history, status, tuple(told))


def history_of_run(folder: RunFolder) -> History | None:
    """What the folder's log tells; None where it has no row yet."""
    if folder.kind == "coldstart":
        history = from_cold_start(folder.path)
        return history if history.rows else None
    try:
        return read_history(folder.path)
    except LogError:
        return None


def shown(finding: Finding) -> bool:
    """Alarms, and the one reassurance that ends a run; the others are for ``evenhand diagnose``."""
    return finding.severity in {"warn", "stop"} or finding.code == "solved"


def state_of(folder: RunFolder, status: dict[str, Any]) -> str:
    """What the run does now, in words: a status of ``running`` whose process is gone was killed."""
    said = str(status.get("state", "unknown"))
    if said not in {"starting", "running"}:
        return said
    machine, process = status.get("machine"), status.get("process")
    here = machine is None or machine == socket.gethostname()
    if here and isinstance(process, int) and not alive(process):
        return f"killed (its process {process} is gone)"
    age = time.time() - newest(folder.path)
    return f"{said}, silent for {timedelta(seconds=int(age))}" if age > SECONDS_WITHOUT_A_SIGN else said


def alive(process: int) -> bool:
    """Whether a process of this machine is there. Signal 0 only asks."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def newest(path: Path) -> float:
    """When anything in the folder was last written."""
    return max((entry.stat().st_mtime for entry in path.iterdir()), default=0.0)


def changes(path: Path, every: float = 1.0) -> Iterator[View]:
    """A view whenever the folder has changed, and at least every ten seconds; ends when the run has."""
    seen, looked = -1.0, 0.0
    while True:
        written = newest(path) if path.is_dir() else 0.0
        if written != seen or time.monotonic() - looked > 10:
            seen, looked = written, time.monotonic()
            view = look(path)
            yield view
            if view.state.split()[0].strip(",") not in {"starting", "running", "unknown"}:
                return
        time.sleep(every)


# -- drawing ---------------------------------------------------------------------------------------------------------


def draw(view: View, width: int = 100) -> RenderableType:
    """The whole view; what matters most stands first, since a low terminal cuts the end."""
    history = view.history
    if history is None:
        return Group(head(view), Text("No step has been logged yet."), findings(view.findings))
    parts: list[RenderableType] = [head(view), progress(history, view), findings(view.findings)]
    boxes: list[RenderableType] = [curves(history)]
    if history.evaluations:
        boxes.append(last_evaluation(history.evaluations))
    if width >= SIDE_BY_SIDE:
        beside = Table.grid(padding=(0, 3))
        beside.add_row(*boxes)
        boxes = [beside]
    return Group(*parts, *boxes)


def head(view: View) -> Text:
    """The folder, what the run is, what it does."""
    settings = view.history.settings if view.history is not None else {}
    named = " ".join(str(settings[key]) for key in ("task", "device") if settings.get(key))
    bad = view.state.startswith(("killed", "failed"))
    said = f"  {view.status['error']}" if view.status.get("error") else ""
    text = Text(f"{view.path}  {named}  ")
    return text.append(view.state, style="bold red" if bad else "bold").append(said)


def progress(history: History, view: View) -> Table:
    """Steps, prompts and epochs, and the time that is left, from rollout and update apart."""
    step = float(history.steps[-1]) if history.rows else 0.0
    planned = history.setting("max_steps") or float(view.status.get("max_steps") or 0) or step
    prompts, epoch = prompts_per_step(history), history.get("epoch").finite
    bits = [f"step {step:.0f} of {planned:.0f}"]
    if len(history.get("examples")):
        bits.append(f"{history.get('examples').values[-1]:.0f} examples")
    if prompts is not None:
        bits.append(f"{step * prompts / (history.setting('num_iterations') or 1):.0f} prompts ({prompts:g} a step)")
    if len(epoch):
        bits.append(f"epoch {epoch.values[-1]:.3g}")
    grid = Table.grid(padding=(0, 1))
    grid.add_row(ProgressBar(total=max(planned, 1), completed=step, width=40), Text(", ".join(bits)))
    left = time_left(history, planned - step)
    if left and planned > step and view.state.startswith("running"):
        grid.add_row(Text("time left"), Text(left))
    return grid


def time_left(history: History, steps: float) -> str:
    """``4 m 10 s: 3 m 2 s rollout, 1 m 8 s update``, from the last twenty rows."""
    whole = history.get("step_time").finite.tail(20)
    if not len(whole):
        return ""
    rollout = history.get("rollout_time").finite.tail(20)
    a_step = float(whole.values.mean())
    text = spoken(steps * a_step)
    if len(rollout):  # a step that reuses completions logs none
        share = min(float(rollout.since(float(whole.steps[0])).values.sum()) / len(whole), a_step)
        text += f": {spoken(steps * share)} rollout, {spoken(steps * (a_step - share))} update"
    return f"{text} ({a_step:.2g} s a step, evaluations apart)"


def spoken(seconds: float) -> str:
    """Hours, minutes and seconds, the two largest of them."""
    whole = int(max(seconds, 0))
    sizes = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    counts = [
        (whole // size if i == 0 else whole % sizes[i - 1][1] // size, unit) for i, (unit, size) in enumerate(sizes)
    ]
    first = next((index for index, (count, _) in enumerate(counts) if count), len(counts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in counts[first : first + 2])


def curves(history: History) -> Table:
    """The reward and its parts, entropy, uniform groups, gradient norm: last value, range, and the way there."""
    table = Table(show_edge=False, pad_edge=False, box=None)
    for column in ("", "now", "from", "lowest", "highest", ""):
        table.add_column(column, justify="left" if not column else "right")
    rows = [("reward", history.get("reward"))]
    rows += [(f"  {part.name}", part.mean) for part in history.parts()]
    rows += [("entropy", history.get("entropy")), ("uniform groups", uniform_share(history))]
    if history.kind == COLD_START:
        rows.append(("loss", history.get("loss")))
    rows += [("gradient norm", history.get("grad_norm")), ("KL", history.get("kl"))]
    rows += [("completion length", history.get("completions/mean_length"))]
    for name, series in rows:
        if len(series):
            table.add_row(Text(name), *curve_cells(series))
    return table


def curve_cells(series: Series) -> list[Text]:
    """Four numbers and a curve; a value that is not finite is shown as what it is."""
    clean = series.finite.values
    last = float(series.values[-1])
    if not len(clean):
        return [Text(f"{last:.4g}", style="bold red"), *[Text("")] * 4]
    numbers = [last, float(clean[0]), float(clean.min()), float(clean.max())]
    style = "" if np.isfinite(last) else "bold red"
    return [Text(f"{numbers[0]:.4g}", style=style), *[Text(f"{one:.4g}") for one in numbers[1:]], Text(spark(clean))]


def spark(values: Sequence[float] | np.ndarray) -> str:
    """A curve in one line of characters."""
    every = np.asarray(values, dtype=float)
    means = np.array([stretch.mean() for stretch in np.array_split(every, min(SPARK, len(every)))])
    low, high = float(means.min()), float(means.max())
    scaled = (means - low) / (high - low) if high > low else np.zeros(len(means))
    return "".join(BARS[round(one * (len(BARS) - 1))] for one in scaled)


def last_evaluation(evaluations: tuple[Evaluation, ...]) -> RenderableType:
    """The metrics of the last evaluation beside the first, and what was answered beside what is true."""
    first, last = evaluations[0], evaluations[-1]
    table = Table(show_edge=False, pad_edge=False, box=None)
    for column in ("", f"step {last.step}", "95 %", f"step {first.step}"):
        table.add_column(column, justify="left" if not column else "right")
    for name, value in last.metrics.items():
        low, high = last.intervals.get(name, (0.0, 1.0))
        before = first.metrics.get(name)
        table.add_row(name, f"{value:.1%}", f"{low:.0%}-{high:.0%}", f"{before:.1%}" if before is not None else "")
    title = f"{last.split}, {last.n} problems, greedy"
    return Panel(Group(table, Text(), predictions(last)), title=title, title_align="left", expand=False)


def predictions(evaluation: Evaluation) -> Table:
    """How often each answer was given, and how often it is true."""
    answers = sorted(evaluation.predictions, key=lambda answer: -evaluation.predictions[answer])[:ANSWERS]
    shown = sorted(answers, key=lambda answer: (not answer.lstrip("-").isdecimal(), len(answer), answer))
    table = Table(show_edge=False, pad_edge=False, box=None)
    for column in ("answer", "given", "true", ""):
        table.add_column(column, justify="right" if column in {"given", "true"} else "left")
    for answer in shown:
        given = evaluation.predictions[answer]
        bar = "█" * max(1, round(30 * given / max(evaluation.n, 1)))
        table.add_row(Text(printable(answer[:20])), str(given), str(evaluation.expected.count(answer)), bar)
    return table


def findings(found: Sequence[Finding]) -> RenderableType:
    """What the watchdog and the rules say, worst first."""
    if not found:
        return Text("No finding.", style="green")
    order = list(STYLES)
    lines = []
    for one in sorted(found, key=lambda finding: order.index(finding.severity)):
        where = "" if one.step is None else f" (step {one.step})"
        lines.append(Text(f"{one.severity.upper():4} {one.code}{where} ", style=STYLES[one.severity]))
        lines[-1].append(printable(one.message), style="default")
    return Group(*lines)


def printable(text: str) -> str:
    """Text without control characters: an answer that a model gave may hold escape codes."""
    return "".join(character if character.isprintable() else "·" for character in text)
