#!/usr/bin/env python3
"""Draw the pictures of ``docs/performance.md`` from what ``evenhand bench --json`` wrote into ``docs/performance/``.

    pip install matplotlib
    python scripts/draw_performance.py

A sweep's files are named after what varies, such as ``group-16.json``; the commands stand on the page.
"""

import json
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

FOLDER = Path(__file__).parents[1] / "docs" / "performance"
PHASES = {"rollout": "rollout", "score": "scoring (reference policy)", "update": "update"}
PHASE_COLOURS = ("#4c78a8", "#f2a541", "#59a14f")
STOCK, TREE, BOUND = "#b04a4a", "#2f6db3", "#777777"
SWEEPS = {
    "group": "completions of a prompt",
    "prompt": "tokens of a prompt",
    "completion": "tokens of a completion",
    "overlap": "share of completions common to the group",
}


def main() -> None:
    """Both pictures."""
    mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "0"})
    draw_phases()
    draw_sweeps()


def draw_phases() -> None:
    """Where a step's time goes, in both, for recorded and for distinct completions."""
    figure, axes = plt.subplots(figsize=(7.2, 2.6))
    labels = []
    for place, (name, kind) in enumerate(
        (name, kind) for name in ("distinct", "recorded") for kind in ("evenhand", "stock")
    ):
        seconds = read(name)[kind]
        left = 0.0
        for (phase, title), colour in zip(PHASES.items(), PHASE_COLOURS, strict=True):
            axes.barh(place, seconds[phase], left=left, color=colour, label=title if place == 0 else None)
            left += seconds[phase]
        axes.text(left, place, f" {left:.1f} s", va="center")
        labels.append(f"{'stock TRL' if kind == 'stock' else 'prefix tree'}, {name}")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xlabel("seconds of an optimiser step")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=3)
    axes.margins(x=0.12)
    save(figure, "phases.svg")


def draw_sweeps() -> None:
    """Seconds of a step against one property of its shape, beside what distinct tokens alone would take."""
    figure, grid = plt.subplots(2, 2, figsize=(7.2, 5.6))
    for axes, (sweep, title) in zip(grid.flat, SWEEPS.items(), strict=True):
        points = sorted((value_of(path), json.loads(path.read_text())) for path in FOLDER.glob(f"{sweep}-*.json"))
        values = [value for value, _ in points]
        stock = [point["stock"]["step"] for _, point in points]
        shares = [point["shape"]["distinct_positions"] / point["shape"]["positions"] for _, point in points]
        axes.plot(values, stock, "o-", color=STOCK, label="stock TRL")
        axes.plot(values, [point["evenhand"]["step"] for _, point in points], "o-", color=TREE, label="prefix tree")
        bound = [time * share for time, share in zip(stock, shares, strict=True)]
        axes.plot(values, bound, "--", color=BOUND, label="stock × share of distinct tokens")
        if sweep != "overlap":
            axes.set_xscale("log", base=2)
            axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.set_ylim(bottom=0)
        axes.set_xlabel(title)
        axes.set_ylabel("seconds of a step")
    grid[0][0].legend(frameon=False, loc="upper left", fontsize=8)
    grid[0][0].set_ylim(top=75)
    save(figure, "sweeps.svg")


def value_of(path: Path) -> float:
    """The number in a sweep's file name."""
    found = re.search(r"-([\d.]+)\.json$", path.name)
    if found is None:
        raise SystemExit(f"{path} should be named like group-16.json")
    return float(found.group(1))


def read(name: str) -> dict[str, Any]:
    """One bench's result."""
    result: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return result


def save(figure: Any, name: str) -> None:
    """Write a picture without a date in it."""
    figure.tight_layout()
    figure.savefig(FOLDER / name, metadata={"Date": None})


if __name__ == "__main__":
    main()
