#!/usr/bin/env python3
"""Draw the learning curves of studies into ``docs/results/``: a metric against completions sampled.

    python scripts/draw_study.py studies/credit     # after `evenhand ablate credit`: record it and draw
    python scripts/draw_study.py                    # draw again what is recorded

A study that names a measure ``[until]`` leaves ``result.json``, ``curves.jsonl`` (a line a run) and ``curves.svg``.
Observable Plot draws, as on the report's pages, in Chromium; the tests need both too.
"""

import json
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from evenhand.runfolder import read_lines, replace_file

RESULTS = Path(__file__).parents[1] / "docs" / "results"
KEPT = ("result.json", "curves.jsonl")
COLOURS = ("#b04a4a", "#2f6db3", "#59a14f", "#f2a541", "#7b5ea7", "#777777")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")

# Single runs thin, the mean of each arm bold and named, the bound dashed.
SCRIPT = """
const [rows, bound, metric, colours, labels] = arguments;
const means = rows.filter((row) => row.seed === null);
const single = rows.filter((row) => row.seed !== null);
const channels = { x: "completions", y: "value", stroke: "arm", z: (row) => `${row.arm}/${row.seed}` };
const svg = Plot.plot({
  width: 720, height: 340, marginLeft: 52, marginRight: 150, marginBottom: 40,
  style: { background: "white", color: "#222", fontSize: "12px", fontFamily: "sans-serif" },
  color: { domain: [...new Set(rows.map((row) => row.arm))], range: colours },
  x: { label: "completions sampled", zero: true },
  y: { label: metric, domain: [0, 1], tickFormat: ".0%", grid: true },
  marks: [
    Plot.ruleY([bound], { stroke: "#777", strokeDasharray: "4,3" }),
    Plot.line(single, { ...channels, strokeWidth: 0.8, strokeOpacity: 0.5 }),
    Plot.line(means, { ...channels, strokeWidth: 2.6 }),
    Plot.text(labels, { x: "completions", y: "value", text: "text", fill: "arm", textAnchor: "start", dx: 8 }),
  ],
});
return new XMLSerializer().serializeToString(svg);
"""

Row = Mapping[str, Any]  # arm, seed, points: [[step, completions, value], …]


def main(folders: Sequence[str]) -> None:
    """Record the studies named, then draw them; with none, draw every recorded one."""
    recorded = [record(Path(folder)) for folder in folders]
    with tempfile.TemporaryDirectory() as profile, browser(Path(profile)) as driver:
        for place in recorded or sorted(path.parent for path in RESULTS.glob("*/curves.jsonl")):
            draw(place, driver)


def record(study: Path) -> Path:
    """Keep a study's outcome and curves, without its run folders."""
    missing = [name for name in KEPT if not (study / name).is_file()]
    if missing:
        raise SystemExit(f"{study} has no {missing[0]}: has it run to its end, and names it a measure [until]?")
    name = json.loads((study / "result.json").read_text(encoding="utf-8"))["study"]
    place = RESULTS / str(name)
    place.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        shutil.copyfile(study / name, place / name)
    return place


def browser(profile: Path) -> webdriver.Chrome:
    """Chromium on an empty page that has Observable Plot loaded."""
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    for name in ("d3.min.js", "plot.umd.min.js"):
        library = (resources.files("evenhand.report") / "assets" / name).read_text(encoding="utf-8")
        driver.execute_script("(0, eval)(arguments[0])", library)
    return driver


def draw(place: Path, driver: webdriver.Chrome) -> None:
    """Write ``curves.svg`` of a recorded study."""
    until = json.loads((place / "result.json").read_text(encoding="utf-8"))["until"]
    by_arm: dict[str, list[Row]] = defaultdict(list)
    for row in read_lines(place / "curves.jsonl"):
        if any(completions is None for _, completions, _ in row["points"]):
            print(f"{row['arm']}/seed-{row['seed']}: completions unknown, not drawn", file=sys.stderr)
        else:
            by_arm[row["arm"]].append(row)
    means = [{"arm": arm, "seed": None, "points": mean_points(rows)} for arm, rows in by_arm.items()]
    rows = [mark for row in [*(row for rows in by_arm.values() for row in rows), *means] for mark in marks(row)]
    svg = driver.execute_script(SCRIPT, rows, until["at_least"], until["metric"], COLOURS, labels(by_arm, means))
    replace_file(place / "curves.svg", svg + "\n")


def marks(row: Row) -> Iterator[dict[str, Any]]:
    """The points of a curve; one where the metric was not measured is a gap."""
    for _, completions, value in row["points"]:
        yield {"arm": row["arm"], "seed": row["seed"], "completions": completions, "value": value}


def labels(by_arm: Mapping[str, Sequence[Row]], means: Sequence[Row]) -> list[dict[str, Any]]:
    """The arms' names at the ends of their means, far enough apart to be read."""
    ends = sorted((row["points"][-1][2], row["points"][-1][1], row["arm"]) for row in means if row["points"])
    found: list[dict[str, Any]] = []
    for value, completions, arm in reversed(ends):
        place = min(value, found[-1]["value"] - 0.06) if found else value
        count = len(by_arm[arm])
        text = f"{arm} ({count} run{'s' if count > 1 else ''})"
        found.append({"arm": arm, "completions": completions, "value": place, "text": text})
    return found


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
