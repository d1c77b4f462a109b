"""JSON documents: ``trainer_state.json``, lists of rows, columns by name, notebooks, tracker exports."""

import html
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from evenhand.diagnosis.history import History
from evenhand.diagnosis.readers.printed import cleaned, printed_rows
from evenhand.diagnosis.readers.rows import WANTED, history_from_rows
from evenhand.errors import LogError

LISTS = ("log_history", "history", "logs", "rows", "data", "metrics", "train", "records")
SETTINGS = ("settings", "config", "args", "hyperparameters", "training_args", "hparams")
STATE_SETTINGS = ("max_steps", "num_train_epochs", "logging_steps", "save_steps", "eval_steps", "train_batch_size")


def history_from_document(document: Any, source: str, **known: Any) -> History:
    """Any JSON document that holds log rows.

    Raises:
        LogError: it holds none.
    """
    if isinstance(document, list):
        return from_list(document, source, **known)
    if not isinstance(document, dict):
        raise LogError(f"{source} is JSON, but holds no log rows.", WANTED)
    if isinstance(document.get("cells"), list):
        return from_notebook(document, source, **known)
    settings = {**document_settings(document), **known.pop("settings", {})}
    for name in LISTS:
        rows = document.get(name)
        if isinstance(rows, list) and any(isinstance(row, dict) for row in rows):
            kind = "trainer state" if name == "log_history" else f"JSON rows under {name}"
            plain = [row for row in rows if isinstance(row, dict)]
            return history_from_rows(long_rows(plain) or plain, source, kind, settings=settings, **known)
    columns = {key: value for key, value in document.items() if isinstance(value, list | dict)}
    rows = column_rows(columns)
    if rows:
        return history_from_rows(rows, source, "JSON columns", settings=settings, **known)
    if any(not isinstance(value, list | dict) for value in document.values()) and "reward" in document:
        return history_from_rows([document], source, "one JSON row", settings=settings, **known)
    if "num_generations" in settings:
        return History(source=source, kind="settings without rows", settings=settings, **known)
    raise LogError(f"{source} is JSON, but holds no log rows.", WANTED)


def from_list(document: list[Any], source: str, **known: Any) -> History:
    """A list of rows, or TensorBoard's list of ``[time, step, value]``."""
    rows = [row for row in document if isinstance(row, dict)]
    if rows:
        return history_from_rows(long_rows(rows) or rows, source, "JSON rows", **known)
    if document and all(isinstance(row, list) and len(row) == 3 for row in document):
        raise LogError(
            f"{source} is one curve of a tracker, without its name.", "Export all metrics of the run into one file."
        )
    raise LogError(f"{source} is JSON, but holds no log rows.", WANTED)


def document_settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that a document tells beside its rows."""
    found: dict[str, Any] = {}
    about = document.get("_about")
    for holder in (document, about if isinstance(about, dict) else {}):
        for name in SETTINGS:
            table = holder.get(name)
            if isinstance(table, dict):
                found.update({key: value for key, value in table.items() if not isinstance(value, list | dict)})
    state = {key: document[key] for key in STATE_SETTINGS if document.get(key) is not None}
    return {**state, **found}


def column_rows(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows from ``{key: [values]}`` or pandas' ``{key: {row: value}}``."""
    rows: dict[str, dict[str, Any]] = defaultdict(dict)
    for key, values in columns.items():
        pairs = values.items() if isinstance(values, dict) else enumerate(values)
        for index, value in pairs:
            if not isinstance(value, list | dict):
                rows[str(index)][key] = value
    return [row for row in rows.values() if len(row) >= 2]


def long_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Rows of one value each (metric, step, value), as MLflow and pandas export them, joined by step; else None."""
    names = {key.lower(): key for key in rows[0] if isinstance(key, str)}
    metric = next((names[name] for name in ("metric", "key", "tag", "name", "metric_name") if name in names), None)
    if metric is None or "value" not in names or "step" not in names:
        return None
    joined: dict[Any, dict[str, Any]] = {}
    for row in rows:
        step = row.get(names["step"])
        joined.setdefault(str(step), {"step": step})[str(row.get(metric))] = row.get(names["value"])
    return list(joined.values())


def from_notebook(document: Mapping[str, Any], source: str, **known: Any) -> History:
    """The printed rows or the progress table among a notebook's outputs: the longest of them."""
    found: list[list[dict[str, Any]]] = []
    printed: list[str] = []
    for cell in document["cells"]:
        outputs = cell.get("outputs", []) if isinstance(cell, dict) else []
        for output in outputs if isinstance(outputs, list) else []:
            if not isinstance(output, dict):
                continue
            printed.append(joined_text(output.get("text")))
            data = output.get("data")
            if isinstance(data, dict):
                found.append(html_rows(joined_text(data.get("text/html"))))
    found.append(printed_rows(cleaned("\n".join(printed))))
    rows = max(found, key=len, default=[])
    if not rows:
        raise LogError(f"{source} is a notebook whose outputs hold no log rows.", WANTED)
    return history_from_rows(rows, source, "notebook", **known)


def joined_text(value: Any) -> str:
    """A notebook's text: one string or a list of lines."""
    return "".join(str(line) for line in value) if isinstance(value, list) else str(value or "")


def html_rows(page: str) -> list[dict[str, Any]]:
    """The rows of an HTML table whose first row is its header."""
    rows = [
        [
            html.unescape(re.sub(r"<[^>]+>", "", cell)).strip()
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)
        ]
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.S)
    ]
    if len(rows) < 2:
        return []
    header = rows[0]
    return [dict(zip(header, cells, strict=True)) for cells in rows[1:] if len(cells) == len(header)]
