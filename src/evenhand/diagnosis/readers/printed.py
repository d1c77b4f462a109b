"""Rows printed to a terminal: Python dicts between progress bars, verl's ``step:3 - key:value``, Markdown, tables."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07")
BRACES = re.compile(r"\{[^{}]{3,20000}\}")
PAIR = re.compile(
    r"""['"]([^'"\n]{1,200})['"]\s*:\s*(?:(?:np\.|numpy\.)?(?:float\d*|int\d*|tensor)\()?\s*"""
    r"""(?:'([^'\n]*)'|"([^"\n]*)"|([-+]?[\w.+-]+%?))"""
)
# tqdm: " 12%|█▏        | 12/100 [02:11<16:03, 10.9s/it]"
PROGRESS = re.compile(r"(\d+)/(\d+) \[\d*:?\d+:\d+<")
ASSIGNMENT = re.compile(r"([A-Za-z_][\w./@()\-]*)\s?[:=]\s?([-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|nan|inf|NaN))(?![\w.])")
MLX_PAIR = re.compile(r"((?:Val |Train )?[A-Za-z][\w ]*?) ([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf))(?=[,\s]|$)")
SETTING = re.compile(r"^\s*#?\s*([a-z_]+)\s*[:=]\s*([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s*$", re.M)


def cleaned(text: str) -> str:
    """Without colour codes; a carriage return ends a line as a line feed does."""
    return ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")


def printed_rows(text: str) -> list[dict[str, Any]]:
    """Rows of any printed form, in order; empty where there are none."""
    for reader in (dictionaries, tables, braceless, assignments, sentences):
        rows = list(reader(text))
        if rows:
            return rows
    return []


def dictionaries(text: str) -> Iterator[dict[str, Any]]:
    """Printed dicts and JSON objects wherever they stand; a wrapped line inside one is joined again.

    Where no dict numbers its step, the last progress bar before it does, if those numbers rise.
    """
    matches = list(BRACES.finditer(text))
    read = read_dictionaries([match.group() for match in matches])
    rows, shown, end = [], [], 0
    for match, row in zip(matches, read, strict=True):
        if row:
            rows.append(row)
            shown.append(progress_before(text, max(end, match.start() - 2000), match.start()))
            end = match.end()
    steps = [step for step in shown if step is not None]
    rising = len(steps) == len(rows) > 1 and all(a < b for a, b in pairwise(steps))
    if rising and not any("step" in key.lower() for row in rows for key in row):
        rows = [{**row, "step": step} for row, step in zip(rows, steps, strict=True)]
    yield from rows


def progress_before(text: str, start: int, end: int) -> int | None:
    """The step that the last progress bar in a stretch of text shows."""
    if end - start < 5:
        return None
    bars = PROGRESS.findall(text, start, end)
    return int(bars[-1][0]) if bars else None


def read_dictionaries(texts: list[str]) -> list[dict[str, Any] | None]:
    """Printed dicts as JSON, all at once where that works."""
    joined = as_json("\x1e".join(texts).replace("\n", ""))
    try:
        rows = json.loads(f"[{joined.replace(chr(30), ',')}]")
    except (ValueError, RecursionError):
        return [dictionary(text) for text in texts]
    return [row if isinstance(row, dict) else None for row in rows]


def as_json(text: str) -> str:
    """A printed Python dict as JSON. Values follow ``": "``, so that a name such as ``finance`` keeps its letters."""
    plain = text.replace("'", '"').replace(": nan", ": NaN").replace(": None", ": null")
    return plain.replace(": inf", ": Infinity").replace(": -inf", ": -Infinity")


def dictionary(text: str) -> dict[str, Any] | None:
    """One printed dict, or None where it holds no pair of a key and a number."""
    try:
        row = json.loads(as_json(text.replace("\n", "")))
    except (ValueError, RecursionError):
        row = None
    if isinstance(row, dict):
        return row
    found: dict[str, Any] = {}
    for key, single, double, bare in PAIR.findall(text.replace("\n", "")):
        found[key] = None if bare == "None" else (single or double or bare)
    return found or None


def tables(text: str) -> Iterator[dict[str, Any]]:
    """A Markdown table, or columns parted by tabs, as copied from a notebook."""
    header: list[str] | None = None
    for line in text.splitlines():
        cells = split_cells(line)
        if cells is None:
            continue
        if all(re.fullmatch(r":?-{1,}:?", cell) for cell in cells if cell) and any(cells):
            continue  # the rule under a Markdown header
        if header is None or len(cells) != len(header):
            words = [cell for cell in cells if re.search(r"[A-Za-z]", cell)]
            header = cells if len(words) >= 2 and len(words) == len(cells) else header
            continue
        if cells == header:
            continue
        row = {key: value for key, value in zip(header, cells, strict=True) if key}
        if any(re.search(r"\d|nan", value, re.I) for value in row.values()):
            yield row


def split_cells(line: str) -> list[str] | None:
    """The cells of a line of a table, or None where it is none."""
    if line.count("|") >= 2 and "%|" not in line:
        return [cell.strip().strip("*`") for cell in line.strip().strip("|").split("|")]
    if line.count("\t") >= 2:
        return [cell.strip() for cell in line.strip("\n").split("\t")]
    return None


def braceless(text: str) -> Iterator[dict[str, Any]]:
    """Lines of quoted keys whose braces were lost in copying."""
    for line in text.splitlines():
        row = dictionary(line[:20000]) if line.count("'") + line.count('"') >= 6 else None
        if row and len(row) >= 3:
            yield row


def assignments(text: str) -> Iterator[dict[str, Any]]:
    """Lines of ``key:value`` or ``key=value`` pairs, as verl and OpenRLHF print them."""
    for line in text.splitlines():
        row = dict(ASSIGNMENT.findall(line[:20000]))
        if len(row) >= 3:
            yield row


def sentences(text: str) -> Iterator[dict[str, Any]]:
    """Lines such as ``Iter 10: Total loss 0.01, Total rewards mean 0.3``, as MLX trainers print them."""
    for line in text.splitlines():
        match = re.match(r"^Iter (\d+): (.*)$", line[:5000])
        if match:
            pairs = {key.strip(): value for key, value in MLX_PAIR.findall(match.group(2))}
            yield {"step": match.group(1), **pairs}


def printed_settings(text: str) -> dict[str, float]:
    """Settings that stand beside the rows, one a line: ``beta: 0.04``."""
    named = {"beta", "num_generations", "per_device_train_batch_size", "gradient_accumulation_steps", "num_iterations"}
    named |= {"max_steps", "max_completion_length"}
    return {key: float(value) for key, value in SETTING.findall(text) if key in named}
