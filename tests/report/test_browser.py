"""The page in a real browser: everything draws, filters filter, and no model text does anything."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from evenhand.records import Completion
from evenhand.report import show, write
from evenhand.report.figures import FIGURES
from evenhand.runfolder import RunFolder
from evenhand.tasks import TASKS
from tests.made_runs import Plan, add_finding, make_run

PATIENCE = 30  # seconds; nothing here takes more than one on a machine that is not busy
Open = Callable[[Path], webdriver.Chrome]

HOSTILE = {
    "script": "<script>document.title='broken'</script>",
    "end of script": "</script><img src=x onerror=\"document.title='broken'\">",
    "quotes": "\"'`</textarea></style>&amp;{{ 7 * 7 }}{% raw %}",
    "escape codes": "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "NUL": "before\x00after",
    "right to left": "\u202egnol si siht\u2066 \u200f",
    "half a pair": "\ud800 alone",
    "a megabyte": "all work and no play " * 50_000,
    "many lines": "line\n" * 20_000,
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    run = make_run(folder / "run", Plan(steps=20, every=5, groups=3))
    add_finding(run, 10)
    return write([run], folder / "report.html")


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("three")
    runs = [make_run(folder / f"run-{i}", Plan(steps=10, group_size=4 + i, skill=0.9 - 0.2 * i)) for i in range(3)]
    return write(runs, folder / "report.html")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    run = make_run(folder / "<b onclick=alert(1)>run", Plan(steps=5))
    columns = TASKS[0].draw("train")[0]
    rows = [
        Completion(6, group, text, text, {"item": 0.0}, 0.0, 0.0, {"fully_correct": 0.0}, text[:40], columns)
        for group, text in enumerate(HOSTILE.values())
    ]
    run.write_completions(6, rows)
    run.append("findings.jsonl", {"code": "x", "severity": "warn", "stage": "training", "message": HOSTILE["script"]})
    return write([run], folder / "report.html")


def texts(driver: webdriver.Chrome, selector: str) -> list[str]:
    return [element.text for element in driver.find_elements(By.CSS_SELECTOR, selector)]


def cards(driver: webdriver.Chrome) -> list[str]:
    return texts(driver, ".card")


def choose(driver: webdriver.Chrome, name: str, value: str) -> None:
    """Set a filter as a user does, and wait for the cards."""
    before = driver.execute_script("return document.querySelector('.cards').dataset.shown")
    field = driver.find_element(By.NAME, name)
    if field.tag_name == "select":
        Select(field).select_by_value(value)
    else:
        field.clear()
        field.send_keys(value)
    WebDriverWait(driver, PATIENCE).until(
        lambda d: d.execute_script("return document.querySelector('.cards').dataset.shown") != before
    )


def errors(driver: webdriver.Chrome) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = driver.get_log("browser")  # type: ignore[no-untyped-call]
    return [entry for entry in entries if entry["level"] == "SEVERE"]


def test_every_figure_draws_without_network_or_errors(opened: Open, page: Path) -> None:
    driver = opened(page)
    assert errors(driver) == []
    for figure in FIGURES:
        plots = driver.find_elements(By.CSS_SELECTOR, f"#{figure.name}-0 .plot svg")
        assert plots, figure.name
        for plot in plots:
            assert plot.find_elements(By.CSS_SELECTOR, "path, rect, circle, line"), figure.name
    loaded = driver.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert loaded == []


def test_the_kept_checkpoint_and_findings_are_marked(opened: Open, page: Path) -> None:
    driver = opened(page)
    rings = driver.find_elements(
        By.CSS_SELECTOR, "#scores-0 [aria-label='dot'] path, #scores-0 [aria-label='dot'] circle"
    )
    assert len(rings) == 5 * (5 + 1)  # five metrics, five evaluations, one ring each
    assert "collapsing" in driver.find_element(By.ID, "findings").text
    numbers = texts(driver, "#signs-0 .plot svg [aria-label='text'] text")
    assert "1" in numbers


def test_a_chart_is_read_by_pointer_and_by_keyboard(opened: Open, page: Path) -> None:
    driver = opened(page)
    plot = driver.find_element(By.CSS_SELECTOR, "#scores-0 .plot svg")
    driver.execute_script("arguments[0].focus()", plot)
    plot.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    said = driver.find_element(By.ID, "said").get_attribute("textContent") or ""
    assert "step: 5" in said
    assert "answer_accuracy" in said
    tip = driver.find_element(By.CSS_SELECTOR, "#scores-0 .plot svg [aria-label='tip']")
    WebDriverWait(driver, PATIENCE).until(lambda _: "step: 5" in (tip.get_attribute("textContent") or ""))
    plot.send_keys(Keys.ENTER)
    WebDriverWait(driver, PATIENCE).until(
        lambda d: Select(d.find_element(By.NAME, "step")).first_selected_option.text == "5"
    )


def test_numbers_behind_a_chart_can_be_read_as_a_table(opened: Open, page: Path) -> None:
    driver = opened(page)
    details = driver.find_element(By.CSS_SELECTOR, "#scores-0 .plot .numbers")
    driver.execute_script("arguments[0].open = true", details)
    WebDriverWait(driver, PATIENCE).until(lambda _: len(details.find_elements(By.CSS_SELECTOR, "tbody tr")) == 5)
    assert texts(driver, "#scores-0 .plot .numbers th")[:2] == ["step", "answer_accuracy"]


def test_completions_are_browsed_by_step_group_outcome_reward_and_text(opened: Open, page: Path) -> None:
    driver = opened(page)
    choose(driver, "step", "1")
    assert len(cards(driver)) == 3 * 4
    assert all(card.startswith("step 1 ") for card in cards(driver))
    choose(driver, "group", "2")
    assert len(cards(driver)) == 4
    choose(driver, "group", "")
    choose(driver, "outcome", "wrong")
    wrong = len(cards(driver))
    assert wrong > 0
    choose(driver, "outcome", "right")
    assert wrong + len(cards(driver)) == 12
    choose(driver, "outcome", "")
    choose(driver, "least", "2.5")
    assert all("reward 2.50" in card for card in cards(driver))
    driver.execute_script("document.querySelector('[name=least]').value = ''")
    choose(driver, "text", "Sure:")
    assert all("Sure:" in card for card in cards(driver))


def test_all_steps_at_once_and_the_answers_of_an_evaluation(opened: Open, page: Path) -> None:
    driver = opened(page)
    choose(driver, "step", "")
    assert driver.find_element(By.CSS_SELECTOR, ".count").text == "240 of 240 completions"
    assert len(cards(driver)) == 48
    driver.find_element(By.CSS_SELECTOR, ".more").click()
    WebDriverWait(driver, PATIENCE).until(lambda d: len(cards(d)) == 96)
    choose(driver, "order", "worst")
    rewards = [float(card.split("reward ")[1].split(" ")[0]) for card in cards(driver)]
    assert rewards == sorted(rewards)
    choose(driver, "source", "evaluated")
    assert "of 50 completions" in driver.find_element(By.CSS_SELECTOR, ".count").text


def test_lines_carry_a_mark_that_is_no_colour(opened: Open, page: Path) -> None:
    driver = opened(page)
    choose(driver, "step", "")
    choose(driver, "text", "**Answer")
    marks = texts(driver, ".card:first-of-type .mark")
    assert marks.count("✓") == 10
    assert marks[-1] == "✗"


def test_runs_can_be_switched_off_in_the_figures(opened: Open, three: Path) -> None:
    driver = opened(three)
    lines = "#scores-0 .plot:first-child svg [aria-label='line']"
    assert len(driver.find_elements(By.CSS_SELECTOR, lines)) == 3
    driver.find_element(By.CSS_SELECTOR, ".legend input[data-run='1']").click()
    WebDriverWait(driver, PATIENCE).until(lambda d: len(d.find_elements(By.CSS_SELECTOR, lines)) == 2)
    dashes = driver.execute_script(
        "return [...document.querySelectorAll('.key line')].map((l) => l.getAttribute('stroke-dasharray'))"
    )
    assert len(set(dashes)) == 3


def test_hostile_text_does_no_harm(opened: Open, hostile: Path) -> None:
    driver = opened(hostile)
    choose(driver, "step", "5")
    choose(driver, "step", "6")
    assert "broken" not in driver.title
    assert driver.find_elements(By.CSS_SELECTOR, ".card script, .card img, h1 b, [onclick], [onerror]") == []
    assert len(cards(driver)) == len(HOSTILE)
    shown = " ".join(cards(driver))
    for visible in (
        "<script>document.title='broken'</script>",
        "</textarea>",
        "⟨ESC⟩[31mred",
        "before⟨NUL⟩after",
        "⟨RLO⟩",
        "1,050,000 characters",
    ):
        assert visible in shown, visible
    assert errors(driver) == []
    assert driver.execute_script("return document.documentElement.scrollHeight") < 60_000


def test_a_script_that_got_in_would_not_run(opened: Open, page: Path, tmp_path: Path) -> None:
    broken = tmp_path / "injected.html"
    broken.write_text(page.read_text().replace("<main>", "<main><script>document.title='broken'</script>"))
    assert "broken" not in opened(broken).title


@pytest.fixture
def emulated(chromium: webdriver.Chrome) -> Iterator[Callable[..., None]]:
    """Another medium, colour scheme or screen, for one test."""

    def emulate(media: str = "screen", scheme: str = "light", width: int = 0) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        size = {"width": width, "height": 800 if width else 0, "deviceScaleFactor": 0, "mobile": bool(width)}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    yield emulate
    emulate()


def test_dark_print_and_phone(opened: Open, emulated: Callable[..., None], three: Path) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    driver = opened(three)
    light = driver.execute_script(background)
    emulated(scheme="dark")
    assert driver.execute_script(background) != light
    emulated(media="print", scheme="dark")
    assert driver.execute_script(background) == "rgb(255, 255, 255)"
    assert not driver.find_element(By.CSS_SELECTOR, ".filters").is_displayed()
    emulated(width=390)
    driver = opened(three)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= 390


def test_a_page_inside_a_notebook_draws_too(
    opened: Open, chromium: webdriver.Chrome, page: Path, tmp_path: Path
) -> None:
    cell = tmp_path / "cell.html"
    cell.write_text(f"<!doctype html>{show(RunFolder.open(page.parent / 'run').path)._repr_html_()}")
    chromium.get(cell.as_uri())
    chromium.switch_to.frame(chromium.find_element(By.TAG_NAME, "iframe"))
    WebDriverWait(chromium, PATIENCE).until(lambda d: len(d.find_elements(By.CSS_SELECTOR, ".plot svg")) > 10)
    chromium.switch_to.default_content()
    assert errors(chromium) == []
    assert json.dumps(show(page.parent / "run").page)
