"""Read any GRPO log: a folder, a file of whatever form, or standard input."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

from evenhand.diagnosis.history import History
from evenhand.diagnosis.readers.document import history_from_document, long_rows
from evenhand.diagnosis.readers.folder import history_from_folder
from evenhand.diagnosis.readers.printed import as_json, cleaned, printed_rows, printed_settings
from evenhand.diagnosis.readers.rows import WANTED, history_from_rows
from evenhand.errors import LogError

__all__ = ["read_history", "read_text"]

STANDARD_INPUT = "-"
# A hundred thousand rows take 90 MB as JSON lines. Beyond this a file is no log of steps, or its end is enough.
LARGEST = 1 << 30


def read_history(path: str | Path) -> History:
    """One history from a folder, a file, or ``-`` for standard input.

    Raises:
        LogError: nothing is there, it is too large, binary, empty, cut in half, or no log of GRPO.
    """
    if str(path) == STANDARD_INPUT:
        if sys.stdin is None:
            raise LogError("Standard input is closed.", "Pipe a log into it, or name a file.")
        return read_text(decoded(sys.stdin.buffer.read(LARGEST + 1), "standard input"), "standard input")
    place = Path(path)
    try:
        if place.is_dir():
            return history_from_folder(place)
        size = place.stat().st_size
        if size > LARGEST:
            raise too_large(str(place))
        content = place.read_bytes()
    except FileNotFoundError as error:
        raise LogError(f"There is no {place}.", "Name a run folder or a log file, or - for standard input.") from error
    except OSError as error:
        raise LogError(f"{place} cannot be read: {error.strerror or error}.", "Check its permissions.") from error
    return read_text(decoded(content, str(place)), str(place))


def too_large(source: str) -> LogError:
    """The refusal of a file that is no log of steps."""
    return LogError(f"{source} is larger than 1 GiB.", f"Give its end: tail -n 100000 {source} | evenhand diagnose -")


def decoded(content: bytes, source: str) -> str:
    """Text of a log. Raises LogError where it is empty, too large or binary."""
    if len(content) > LARGEST:
        raise too_large(source)
    if not content.strip():
        raise LogError(f"{source} is empty.", WANTED)
    for mark, encoding in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig")):
        if content.startswith(mark):
            return content.decode(encoding, errors="replace")
    sample = content[:65536]
    strange = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in sample)
    text = content.decode("utf-8", errors="replace")
    if strange > 0.02 * len(sample) or text[:65536].count("\ufffd") > 0.05 * len(sample):
        raise LogError(f"{source} is binary, not a log.", WANTED)
    return text


def read_text(text: str, source: str) -> History:
    """One history from text of whatever form.

    Raises:
        LogError: no form fits, or the text is no log of GRPO.
    """
    stripped = text.strip()
    if not stripped:
        raise LogError(f"{source} is empty.", WANTED)
    cut = None
    if stripped[0] in "{[":
        lines = json_lines(stripped)
        if lines is not None:
            return history_from_rows(lines, source, "JSON lines")
        lines = json_lines(as_json(stripped)) if stripped.startswith("{'") else None
        if lines is not None:
            return history_from_rows(lines, source, "printed rows")
        document, cut = json_document(stripped)
        if document is not None:
            return history_from_document(document, source)
        if cut is not None and stripped[0] == "{" and "log_history" in stripped[:20000]:
            raise LogError(
                f"{source} ends in the middle of its JSON ({cut}).", "Copy it again, or take an earlier checkpoint's."
            )
    rows = comma_separated(stripped)
    if rows:
        return history_from_rows(long_rows(rows) or rows, source, "CSV")
    shown = cleaned(stripped)
    rows = printed_rows(shown)
    if rows:
        return history_from_rows(rows, source, "printed rows", settings=printed_settings(shown[:200_000]))
    if cut is not None:
        raise LogError(f"{source} is broken JSON ({cut}).", "Copy it again, or take an earlier checkpoint's.")
    raise LogError(f"{source} holds no log rows.", WANTED)


def json_lines(text: str) -> list[dict[str, Any]] | None:
    """Objects one a line, the last perhaps cut short by a killed process; None where this is another form."""
    lines = text.splitlines()
    if not lines[0].rstrip().endswith("}"):
        return None
    try:
        first = json.loads(lines[0])
    except (ValueError, RecursionError):
        return None
    if not isinstance(first, dict) or any(isinstance(value, list | dict) for value in first.values()):
        return None
    rows, bad = [], 0
    try:  # all lines at once is twice as fast as one by one
        rows = json.loads(f"[{','.join(line for line in lines if line.strip())}]")
    except (ValueError, RecursionError):
        for line in lines:
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError):
                bad += bool(line.strip())
    objects = [row for row in rows if isinstance(row, dict)]
    return objects if bad <= max(1, len(lines) // 10) else None


def json_document(text: str) -> tuple[Any, str | None]:
    """The document, or what is wrong with it."""
    try:
        return json.loads(text), None
    except ValueError as error:
        return None, str(error)
    except RecursionError:
        return None, "nested too deeply"


def comma_separated(text: str) -> list[dict[str, Any]]:
    """Rows of a CSV file with a header, or nothing where it is none."""
    head = text[:20000].splitlines()[0]
    separator = max(",;\t", key=head.count)
    names = [name.strip().strip('"') for name in head.split(separator)]
    if head.count(separator) < 1 or head[0] in "{[|" or not all(name and not name[0].isdigit() for name in names):
        return []
    if any(":" in name or "=" in name for name in names):
        return []
    try:
        table = list(csv.reader(io.StringIO(text), delimiter=separator))
    except csv.Error:
        return []
    header = [name.strip() for name in table[0]]
    rows = [dict(zip(header, cells, strict=True)) for cells in table[1:] if len(cells) == len(header)]
    return rows if len(rows) >= 0.5 * max(1, len(table) - 1) else []
