#!/usr/bin/env python3
"""Draw the learning curves of studies into ``docs/results/``: a metric against completions sampled.

    pip install matplotlib
    python scripts/draw_study.py studies/credit     # after `evenhand ablate credit`: record it and draw
    python scripts/draw_study.py                    # draw again what is recorded

A study that names a measure ``[until]`` leaves ``result.json``, ``curves.jsonl`` (a line a run) and ``curves.svg``.
"""

import json
import math
import shutil
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from evenhand.ablation.efficiency import curve_of
from evenhand.runfolder import RunFolder, read_lines, replace_file

RESULTS = Path(__file__).parents[1] / "docs" / "results"
CURVES = "curves.jsonl"
COLOURS = ("#b04a4a", "#2f6db3", "#59a14f", "#f2a541", "#7b5ea7", "#777777")

Row = Mapping[str, Any]  # arm, seed, points: [[step, completions, value], …]


def main(folders: Sequence[str]) -> None:
    """Record the studies named, then draw them; with none, draw every recorded one."""
    mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "0"})
    recorded = [record(Path(folder)) for folder in folders]
    for place in recorded or sorted(path.parent for path in RESULTS.glob(f"*/{CURVES}")):
        draw(place)


def record(study: Path) -> Path:
    """Keep a study's outcome and curves, without its run folders."""
    result = json.loads((study / "result.json").read_text(encoding="utf-8"))
    if not result.get("until"):
        raise SystemExit(f"{study} names no measure [until], so there is no curve to draw.")
    place = RESULTS / result["study"]
    place.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(study / "result.json", place / "result.json")
    lines = [json.dumps(row) for row in curves(study, result)]
    replace_file(place / CURVES, "\n".join(lines) + "\n")
    return place


def curves(study: Path, result: Row) -> Iterator[Row]:
    """The curve of every finished run."""
    for trial in result["trials"]:
        if trial["state"] != "finished":
            continue
        folder = RunFolder(study / trial["arm"] / f"seed-{trial['seed']}")
        split = tomllib.loads(folder.read_text("config.toml") or "").get("evaluation", {}).get("split", "dev")
        points = [
            (point.step, point.completions, point.value) for point in curve_of(folder, split, result["until"]["metric"])
        ]
        yield {"arm": trial["arm"], "seed": trial["seed"], "points": points}


def draw(place: Path) -> None:
    """Single runs thin, the mean of each arm bold, the bound dashed."""
    until = json.loads((place / "result.json").read_text(encoding="utf-8"))["until"]
    by_arm: dict[str, list[Row]] = defaultdict(list)
    for row in read_lines(place / CURVES):
        if any(completions is None for _, completions, _ in row["points"]):
            print(f"{row['arm']}/seed-{row['seed']}: completions unknown, not drawn", file=sys.stderr)
        else:
            by_arm[row["arm"]].append(row)
    figure, axes = plt.subplots(figsize=(7.2, 3.6))
    for number, (arm, rows) in enumerate(by_arm.items()):
        colour = COLOURS[number % len(COLOURS)]
        for row in rows:
            axes.plot(*line(row["points"]), color=colour, linewidth=0.7, alpha=0.45)
        runs = "run" if len(rows) == 1 else "runs"
        axes.plot(*line(mean_points(rows)), color=colour, linewidth=2.4, label=f"{arm} ({len(rows)} {runs})")
    axes.axhline(100 * until["at_least"], color="#777777", linewidth=0.8, linestyle="--")
    axes.set_ylim(0, 102)
    axes.set_xlim(left=0)
    axes.set_xlabel("completions sampled")
    axes.set_ylabel(f"{until['metric']} (%)")
    axes.legend(frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(place / "curves.svg", metadata={"Date": None})
    plt.close(figure)


def line(points: Sequence[Sequence[Any]]) -> tuple[list[float], list[float]]:
    """Completions and per cent; a gap where the metric was not measured."""
    return [point[1] for point in points], [math.nan if point[2] is None else 100 * point[2] for point in points]


def mean_points(rows: Sequence[Row]) -> list[tuple[int, float, float]]:
    """Means of completions and of the metric over all runs of an arm, at the steps at which every run measured it."""
    by_step: dict[int, list[Sequence[Any]]] = defaultdict(list)
    for row in rows:
        for point in row["points"]:
            if point[2] is not None:
                by_step[point[0]].append(point)
    return [
        (step, sum(point[1] for point in points) / len(points), sum(point[2] for point in points) / len(points))
        for step, points in sorted(by_step.items())
        if len(points) == len(rows)
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
