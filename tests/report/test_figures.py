"""What every figure owes: it draws from a healthy run, and says what is missing otherwise."""

import json
from pathlib import Path

import pytest

from evenhand.config import RunConfig
from evenhand.report.drawing import rounded, thinned
from evenhand.report.figures import FIGURES, Figure
from evenhand.report.figures.answers import shown_answers
from evenhand.report.figures.positions import lines_right
from evenhand.report.reading import RunView, read_runs
from evenhand.runfolder import RunFolder
from evenhand.tasks import TASKS
from tests.made_runs import Plan, add_finding, make_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunView]:
    folder = tmp_path_factory.mktemp("figures")
    made = [make_run(folder / f"run-{i}", Plan(steps=10, seed=i)) for i in range(2)]
    add_finding(made[0], 5)
    return read_runs(made)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_a_healthy_run_draws(figure: Figure, runs: list[RunView]) -> None:
    drawing = figure.draw(runs)
    assert drawing.plots
    assert all(plot.marks for plot in drawing.plots)
    assert {mark.run for plot in drawing.plots for mark in plot.marks} >= {0, 1}
    json.dumps([plot.to_json() for plot in drawing.plots], allow_nan=False)
    for mark in (mark for plot in drawing.plots for mark in plot.marks):
        assert len({len(values) for values in mark.columns.values()}) == 1
        assert set(mark.tip) <= set(mark.columns)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_an_empty_run_leaves_an_honest_gap(figure: Figure, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "stepwise-parity", tmp_path / "run")
    folder.write_text("config.toml", RunConfig().to_toml())
    drawing = figure.draw(read_runs([folder]))
    assert not drawing.plots
    assert drawing.gaps


def test_names_are_unique() -> None:
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)


def test_a_long_series_is_thinned_to_means_with_their_range() -> None:
    series = thinned(range(1000), [float(i % 10) for i in range(1000)], most=100)
    assert len(series.steps) == 100
    assert (series.values[0], series.low[0], series.high[0]) == (4.5, 0.0, 9.0)
    assert series.is_mean
    short = thinned([1, 2, 3], [1.0, float("nan"), 3.0])
    assert list(short.steps) == [1, 3]
    assert not short.is_mean


def test_numbers_that_are_not_finite_draw_nothing() -> None:
    assert rounded(float("nan")) is None
    assert rounded(float("inf")) is None
    assert rounded(0.123456) == 0.1235


def test_answers_stand_in_order_of_size_and_rare_ones_share_a_row() -> None:
    assert shown_answers(["10", "2", "none", "none", "word", "-1"]) == ["-1", "2", "10", "word", "none"]
    assert shown_answers([str(i) for i in range(30)] + ["1", "2"], most=2) == ["1", "2", "other"]


def test_lines_are_judged_by_what_the_gold_line_earns() -> None:
    task = TASKS[0]
    columns = task.draw("dev")[0]
    gold = task.gold(columns)
    right = lines_right(task, [{"columns": columns, "text": gold}, {"columns": columns, "text": "Answer: 99"}])
    assert len(right) == 11
    assert [values[0] for values in right] == [1.0] * 11
    assert [values[1] for values in right] == [0.0] * 11
