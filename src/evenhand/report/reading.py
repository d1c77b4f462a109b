"""Everything that the page shows of a run, read once from its folder. What is missing becomes a named gap."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evenhand.config import RunConfig
from evenhand.diagnosis.diagnose import Diagnosis, diagnose
from evenhand.diagnosis.readers import read_history
from evenhand.errors import EvenhandError
from evenhand.records import SEVERITIES, Evaluation, Finding, StepMetrics, Unknown
from evenhand.runfolder import COLD_START_FILE, RunFolder
from evenhand.selection import SELECTION_FILE, choose, configuration_of
from evenhand.tasks import Task, task_named

UNFINISHED = {
    "starting": "This run had not begun to train when the page was made.",
    "running": "This run was still going, or was killed, when the page was made: it shows what there was.",
    "interrupted": "This run was interrupted: it shows the steps until then.",
    "failed": "This run failed: it shows the steps until then.",
}
NAME_LENGTH = 60


@dataclass(frozen=True, slots=True)
class RunView:
    """One run, as the page sees it. A mapping that is empty was not recorded."""

    index: int  # place among the runs of the page
    style: int  # colour, dash and symbol; runs that differ in nothing but the seed share them
    name: str
    folder: RunFolder
    configuration: RunConfig | None
    task: Task | None
    status: Mapping[str, Any]
    metrics: Sequence[StepMetrics]
    evaluations: Sequence[Evaluation]
    findings: Sequence[Finding]  # worst first
    unknown: Sequence[Unknown] = ()
    selection: Mapping[str, Any] = field(default_factory=dict)
    test: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    hashes: Mapping[str, Any] = field(default_factory=dict)
    precision: Sequence[Mapping[str, Any]] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)  # the trainer's
    cold_start: Mapping[str, Any] = field(default_factory=dict)  # what was shown, where the run was supervised
    diagnosed: bool = True  # whether the rules were asked; a run without rewards gives them nothing to judge
    gaps: Sequence[str] = ()

    @property
    def chosen_step(self) -> int | None:
        """The step of the chosen checkpoint."""
        step = self.selection.get("step")
        return int(step) if isinstance(step, int) else None

    @property
    def first_evaluation(self) -> Evaluation | None:
        """The evaluation before training, if it was made."""
        return self.evaluations[0] if self.evaluations and self.evaluations[0].step == 0 else None

    @property
    def shown_evaluation(self) -> Evaluation | None:
        """The evaluation of the chosen checkpoint, or the last one where none is chosen."""
        for evaluation in self.evaluations:
            if evaluation.step == self.chosen_step:
                return evaluation
        return self.evaluations[-1] if self.evaluations else None

    def series(self, key: str) -> tuple[list[int], list[float]]:
        """(steps, values) of a logged key; rows that lack it are left out."""
        rows = [(row.step, row.values[key]) for row in self.metrics if isinstance(row.values.get(key), int | float)]
        return [step for step, _ in rows], [float(value) for _, value in rows if value is not None]


def read_runs(folders: Sequence[RunFolder]) -> list[RunView]:
    """The runs of a page, with a name each that tells them apart."""
    names = [folder.path.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = [f"{folder.path.resolve().parent.name}/{name}" for folder, name in zip(folders, names, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    runs = [
        read_run(folder, i, name[-NAME_LENGTH:]) for i, (folder, name) in enumerate(zip(folders, names, strict=True))
    ]
    kinds: dict[str, int] = {}
    return [replace(run, style=kinds.setdefault(kind_of(run), len(kinds))) for run in runs]


def kind_of(run: RunView) -> str:
    """What a run shares with its repetitions: the configuration without the seed; a number where that is unknown."""
    if run.configuration is None:
        return f"run {run.index}"
    settings = run.configuration.model_dump(mode="json")
    return repr({**settings, "train": {key: value for key, value in settings["train"].items() if key != "seed"}})


def read_run(folder: RunFolder, index: int = 0, name: str = "run") -> RunView:
    """Read one run. Never raises for what is missing or broken inside it."""
    gaps: list[str] = []
    configuration, task = described(folder, gaps)
    split = configuration.evaluation.split if configuration else "dev"
    evaluations = latest_per_step([e for e in folder.evaluations() if e.split == split])
    diagnosis = diagnosis_of(folder, gaps)
    status = table(folder.read_json("status.json"))
    if status.get("state") in UNFINISHED:
        gaps.append(UNFINISHED[str(status["state"])])
    if not evaluations:
        gaps.append("This run holds no evaluation: nothing is known of what it can do beyond its training samples.")
    return RunView(
        index=index,
        style=index,
        name=name,
        folder=folder,
        configuration=configuration,
        task=task,
        status=status,
        metrics=folder.metrics(),
        evaluations=evaluations,
        findings=worst_first(folder.findings(), diagnosis),
        unknown=diagnosis.unknown if diagnosis else (),
        diagnosed=diagnosis is not None,
        selection=selected(folder, gaps),
        test=table(folder.read_json("test.json")),
        environment=table(folder.read_json("environment.json")),
        hashes=table(folder.read_json("hashes.json")),
        precision=tables(folder.read_json("precision.json")),
        arguments=configuration.train if configuration else table(folder.read_json("trainer_arguments.json")),
        cold_start=table(folder.read_json(COLD_START_FILE)),
        gaps=tuple(gaps),
    )


def described(folder: RunFolder, gaps: list[str]) -> tuple[RunConfig | None, Task | None]:
    """(configuration, task), each None where it cannot be had; the reason becomes a gap."""
    try:
        configuration = configuration_of(folder)
        return configuration, task_named(configuration.task)
    except EvenhandError as error:
        gaps.append(error.message)
    try:
        return configuration_of(folder), None
    except EvenhandError:
        return None, None


def diagnosis_of(folder: RunFolder, gaps: list[str]) -> Diagnosis | None:
    """What the whole log shows, or None where no rule can be asked; the reason becomes a gap."""
    try:
        return diagnose(read_history(folder.path))
    except EvenhandError as error:
        gaps.append(f"Its log is not diagnosed: {error.message}")
        return None


def worst_first(recorded: Sequence[Finding], diagnosis: Diagnosis | None) -> list[Finding]:
    """What was recorded while the run went on, and what its whole log shows besides."""
    codes = {finding.code for finding in recorded}
    shown = diagnosis.findings if diagnosis else ()
    findings = [*recorded, *(finding for finding in shown if finding.code not in codes)]
    return sorted(findings, key=lambda one: (-SEVERITIES.index(one.severity), one.step or 0))


def selected(folder: RunFolder, gaps: list[str]) -> Mapping[str, Any]:
    """The recorded choice, or the one that the rule gives now."""
    recorded = table(folder.read_json(SELECTION_FILE))
    if recorded:
        return recorded
    try:
        return choose(folder).to_json()
    except EvenhandError as error:
        gaps.append(f"No checkpoint is chosen: {error.message}")
        return {}


def latest_per_step(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """One evaluation per step, the later row of a resumed run, in order of steps."""
    return [evaluation for _, evaluation in sorted({e.step: e for e in evaluations}.items())]


def table(value: Any) -> Mapping[str, Any]:
    """A JSON object, or nothing where it is none."""
    return value if isinstance(value, Mapping) else {}


def tables(value: Any) -> Sequence[Mapping[str, Any]]:
    """The objects of a JSON list, or nothing where it is none."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
