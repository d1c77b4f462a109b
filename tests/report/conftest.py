"""A real browser without a screen, shared by the tests that look at pages."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
)
PATIENCE = 30  # seconds; a page is drawn in one or two


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Chromium, with a profile of its own."""
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    yield driver
    driver.quit()


@pytest.fixture
def opened(chromium: webdriver.Chrome) -> Callable[[Path], webdriver.Chrome]:
    """Open a page from disk and wait until its figures and its first completions are there."""

    def ready(driver: webdriver.Chrome) -> bool:
        script = """return document.querySelector('.cards').dataset.shown !== undefined
            && [...document.querySelectorAll('.plots')].every((holder) => holder.dataset.drawn !== undefined)"""
        return bool(driver.execute_script(script))

    def go(page: Path) -> webdriver.Chrome:
        chromium.get_log("browser")  # type: ignore[no-untyped-call]  # what an earlier page said is not this one's
        chromium.get(page.as_uri())
        WebDriverWait(chromium, PATIENCE).until(ready)
        return chromium

    return go
