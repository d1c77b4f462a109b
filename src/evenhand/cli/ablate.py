"""``evenhand ablate``."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from evenhand.cli import options
from evenhand.cli.output import print_json, stderr, stdout, table


def ablate(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY.toml",
            help="A file, or a shipped study: weights, form, credit, credit-smollm2.",
            show_default=False,
        ),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="The study's folder; studies/NAME by default.")] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Trials that run side by side.")] = 1,
    engine: Annotated[
        Literal["local", "ray"], typer.Option("--engine", help="This machine, or a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option("--address", help="Of a Ray cluster; without it one is started here.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try failed trials anew; what they left is kept.")
    ] = False,
    reference: Annotated[
        str | None, typer.Option("--reference", metavar="ARM", help="Compare with this arm instead of the study's own.")
    ] = None,
    assignments: options.Assignments = None,
    as_json: options.AsJson = False,
) -> None:
    """Train every arm of a study with every seed and compare the arms over seeds. Called again, it goes on."""
    from evenhand.ablation.comparison import conclude  # noqa: PLC0415 - loads SciPy
    from evenhand.ablation.engines import ENGINES  # noqa: PLC0415 - loads torch with the rest
    from evenhand.ablation.study import read_study, trials_of  # noqa: PLC0415 - loads torch
    from evenhand.ablation.trials import open_study, run_trials  # noqa: PLC0415 - loads torch
    from evenhand.training.run import check_names  # noqa: PLC0415 - loads torch

    read = read_study(study, reference, options.overrides(assignments))
    chosen = ENGINES[engine](workers, address)
    trials = trials_of(read)
    for trial in trials[: len(read.arms)]:  # what every seed of an arm needs, before a folder is made
        check_names(trial.config)
    folder = open_study(read, out or Path("studies") / read.name)
    console = stderr()
    console.print(f"{read.name}: {len(read.arms)} arms × {len(read.seeds)} seeds in {folder}", markup=False)

    def told(trial: Any, code: int) -> None:
        console.print(f"{trial.name}: {'done' if code == 0 else f'ended with exit code {code}'}", markup=False)

    states = run_trials(read, trials, folder, chosen, told, retry=retry_failed)
    result = conclude(read, states)
    keep(result, folder)
    if as_json:
        print_json(result.to_json())
    else:
        show(result)
    if result.failed:
        raise typer.Exit(1)


def keep(result: Any, folder: Path) -> None:
    """Leave the outcome in the study's folder, and the learning curves, a line a run, where it asks for them."""
    from evenhand.runfolder import RunFolder  # noqa: PLC0415 - keeps `evenhand --help` quick

    RunFolder(folder).write_json("result.json", result.to_json())
    if result.efficiency is not None:
        lines = [json.dumps(curve.to_json()) for curve in result.efficiency.curves]
        RunFolder(folder).write_text("curves.jsonl", "".join(f"{line}\n" for line in lines))


def show(result: Any) -> None:
    """Every arm's values, then what they show."""
    out = stdout()
    out.print(result.study.question, markup=False)
    for metric in result.study.metrics:
        rows = []
        for arm in result.study.arms:
            values = result.values(arm, metric)
            cells = [f"{values[seed]:.1%}" if seed in values else "–" for seed in result.study.seeds]
            average = f"{sum(values.values()) / len(values):.1%}" if values else "–"
            rows.append([arm, *cells, average])
        columns = ("arm", *(f"seed {seed}" for seed in result.study.seeds), "mean")
        mean = metric.startswith("mean:")
        when = "mean over the evaluations after step 0" if mean else "at the last evaluation"
        out.print(table(f"{metric.removeprefix('mean:')}, {when}", columns, rows))
    if result.efficiency is not None:
        out.print(efficiency_table(result))
    for sentence in result.sentences():
        out.print(sentence, markup=False)
    for state in result.failed:
        out.print(f"{state.trial.name} is {state.name}: {state.reason or 'see its log'}", markup=False)


def efficiency_table(result: Any) -> Any:
    """Completions until the bound, of every arm and seed."""
    efficiency = result.efficiency
    rows = []
    for arm in result.study.arms:
        reaches = efficiency.of(arm)
        cells = [str(reaches[seed]) if seed in reaches else "–" for seed in result.study.seeds]
        reached = sum(reach.state == "reached" for reach in reaches.values())
        rows.append([arm, *cells, f"{reached} of {len(reaches)}"])
    columns = ("arm", *(f"seed {seed}" for seed in result.study.seeds), "reached")
    title = f"completions until {efficiency.until.metric} stays at {efficiency.until.at_least:.0%}"
    return table(title, columns, rows)
