"""The page as a file: whole, small, from the folder alone, and honest about what is missing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from evenhand.config import RunConfig
from evenhand.errors import RunFolderError
from evenhand.report import build, show, write
from evenhand.report.figures import FIGURES
from evenhand.report.reading import read_runs
from evenhand.runfolder import RunFolder
from tests.made_runs import Plan, make_run

ROOT = Path(__file__).parents[2]
RECORDED = sorted([*(ROOT / "tests" / "fixtures" / "logs").iterdir(), *(ROOT / "docs" / "results").iterdir()])


def words(page: str) -> str:
    """The page's text without markup, scripts and styles."""
    bare = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", bare))


def test_one_run_is_told_in_sentences_and_tables(tmp_path: Path) -> None:
    page = words(build([make_run(tmp_path / "run", Plan(groups=4, group_size=8))]))
    assert "practised the task stepwise-parity" in page
    assert "The kept checkpoint, step 20," in page
    assert "not scored on the test problems" in page
    assert "8 × 4 micro-batches × 1 process(es) = 32" in page
    assert "80 / 2000 training problems = 0.04" in page
    assert "norms" in page


def test_nothing_is_loaded_from_anywhere(tmp_path: Path) -> None:
    page = build([make_run(tmp_path / "run")])
    assert not re.search(r"<(link|img|iframe|script)[^>]*\s(src|href)=", page)
    assert "@import" not in page
    assert "default-src &#39;none&#39;" in page


def test_reading_and_writing_a_page_loads_no_torch(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    lines = (
        "import sys",
        "from pathlib import Path",
        "from evenhand.report import write",
        "from evenhand.runfolder import RunFolder",
        "write([RunFolder(Path(sys.argv[1]))], Path(sys.argv[2]))",
        "sys.exit('torch' in sys.modules)",
    )
    command = [sys.executable, "-c", "; ".join(lines), str(folder.path), str(tmp_path / "page.html")]
    assert subprocess.run(command, check=False).returncode == 0


def test_several_runs_are_compared_on_the_same_problems(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run-{i}", Plan(seed=i + 1, skill=0.9 - 0.6 * i)) for i in range(2)]
    page = words(build(runs))
    assert "fully_correct beside run-0" in page
    assert "beyond noise" in page
    assert "train.seed = 1" in page
    assert "train.seed = 2" in page


def test_what_runs_share_is_said_once_and_what_each_reached_is_always_said(tmp_path: Path) -> None:
    page = words(build([make_run(tmp_path / f"run-{i}") for i in range(3)]))  # the same three times
    assert page.count("practised the task") == 1
    assert page.count("not scored on the test problems") == 1
    assert page.count("The kept checkpoint, step 20,") == 3


def test_runs_that_differ_in_the_seed_alone_look_alike(tmp_path: Path) -> None:
    plans = [Plan(seed=1), Plan(seed=2), Plan(seed=1, group_size=8)]
    runs = read_runs([make_run(tmp_path / f"run-{i}", plan) for i, plan in enumerate(plans)])
    assert [run.style for run in runs] == [0, 0, 1]


def test_runs_of_different_tasks_are_never_laid_over_one_another(tmp_path: Path) -> None:
    first = make_run(tmp_path / "first")
    second = make_run(tmp_path / "second")
    second.write_text("config.toml", RunConfig(task="a task of my own").to_toml())
    page = build([first, second])
    assert "never subtract one from the other" in page
    assert 'data-figure="scores-0"' in page
    assert 'data-figure="scores-1"' in page
    assert "There is no task named" in page


def test_a_run_without_evaluations_still_going_killed_or_broken(tmp_path: Path) -> None:
    bare = RunFolder.create(tmp_path, "stepwise-parity", tmp_path / "bare")
    bare.write_text("config.toml", RunConfig().to_toml())
    assert "holds no evaluation" in build([bare])
    going = make_run(tmp_path / "going", Plan(state="running"))
    with (going.path / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 21, "rew')
    with (going.path / "completions" / "step-000020.jsonl").open("a") as stream:
        stream.write('{"step": 20, "te')
    assert "still going, or was killed" in build([going])
    (tmp_path / "nothing").mkdir()
    assert "no config.toml" in build([RunFolder(tmp_path / "nothing")])


def test_a_run_that_a_plain_trl_script_left(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run", Plan(steps=5, groups=4, group_size=8))
    (made.path / "config.toml").unlink()
    (made.path / "evaluations.jsonl").unlink()
    arguments = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4, "num_generations": 8}
    made.write_json("trainer_arguments.json", arguments)
    page = words(build([made]))
    assert "by a script of its own" in page
    assert "32 / 8 completions a prompt = 4" in page
    assert "holds no evaluation" in page


def test_two_runs_of_one_name_stay_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    page = words(build([make_run(tmp_path / name / "run", Plan(steps=5)) for name in ("a", "b")]))
    assert "a/run" in page
    assert "b/run" in page


def test_a_run_named_in_markup_stays_text(tmp_path: Path) -> None:
    page = build([make_run(tmp_path / "<img src=x onerror=alert(1)>", Plan(steps=5))])
    assert "<img" not in page


def test_no_run_and_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="No run was named"):
        build([])
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="cannot be written"):
        write([make_run(tmp_path / "run", Plan(steps=5))], tmp_path / "file" / "report.html")
    with pytest.raises(RunFolderError, match="There is no run folder"):
        show(tmp_path / "absent")


@pytest.mark.parametrize("count", [1, 10])
def test_the_page_stays_below_five_megabytes(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenhand.report.completions.BUDGET", 60_000)
    plan = Plan(steps=60, every=10, groups=4, group_size=8)
    runs = [make_run(tmp_path / f"run-{i}", plan) for i in range(count)]
    page = build(runs)
    own = 5_000_000 - 3_300_000  # what the budget leaves for everything else
    assert len(page.encode()) < own


@pytest.mark.parametrize(
    "path", [path for path in RECORDED if (path / "metrics.jsonl").is_file()], ids=lambda path: path.name
)
def test_a_recorded_real_run_gives_a_page(path: Path) -> None:
    page = build([RunFolder(path)])
    assert 'data-figure="scores-0"' in page
    supervised = (path / "coldstart.json").is_file()
    assert ("could be diagnosed" in page) == supervised
    assert ("steps-explained" in page) != supervised


def test_a_cold_start_shows_its_loss_and_does_not_ask_for_what_only_grpo_logs() -> None:
    (run,) = read_runs([RunFolder(ROOT / "docs" / "results" / "smollm2-coldstart")])
    (signs,) = [figure.draw([run]) for figure in FIGURES if figure.name == "signs"]
    assert [plot.title for plot in signs.plots] == ["loss of a cold start (nats a token)", "gradient norm"]
    assert not signs.gaps


def test_the_loss_of_grpo_is_not_drawn_as_a_sign_beside_a_cold_start() -> None:
    names = ("smollm2-coldstart", "smollm2-grpo")
    runs = read_runs([RunFolder(ROOT / "docs" / "results" / name) for name in names])
    (signs,) = [figure.draw(runs) for figure in FIGURES if figure.name == "signs"]
    (loss,) = [plot for plot in signs.plots if plot.title.startswith("loss")]
    assert {mark.run for mark in loss.marks if mark.kind == "lineY"} == {0}


def test_a_collapsed_run_says_stop_at_its_step() -> None:
    page = words(build([RunFolder(ROOT / "tests" / "fixtures" / "logs" / "collapsed")]))
    assert "STOP collapsed-identical-rollouts from step" in page
