"""The notebook runs from a fresh kernel, as a reader would run it."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "stepwise-parity.ipynb"


def read_kept() -> nbformat.NotebookNode:
    """The notebook as it lies in the repository."""
    kept: nbformat.NotebookNode = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    return kept


def output_of(cell: nbformat.NotebookNode) -> str:
    """Everything that a cell printed or returned as text."""
    printed = [str(output.get("text", "")) for output in cell.outputs]
    return "".join(printed + [str(output.get("data", {}).get("text/plain", "")) for output in cell.outputs])


def test_it_trains_watches_selects_and_shows_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = read_kept()
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    train, watch, texts, select, see = [cell for cell in notebook.cells if cell.cell_type == "code"][1:]
    assert "step  0:" in output_of(train)
    assert "step 20:" in output_of(train)
    assert "ok   loss-zero-is-normal" in output_of(watch)
    assert "Answer: " in output_of(texts)
    assert "is chosen: fully_correct" in output_of(select)
    page = see.outputs[-1]["data"]["text/html"]
    assert page.startswith("<iframe")
    assert "data-figure=&#34;scores-0&#34;" in page


def test_it_is_kept_without_outputs() -> None:
    notebook = read_kept()
    assert not [cell for cell in notebook.cells if cell.get("outputs")]
