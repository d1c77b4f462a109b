"""Completions packed into the page: columns, compressed, in chunks that the page opens only when they are looked at.

The page stays below its size whatever the run: where all completions do not fit, evenly spaced steps are kept, with the
first, the last, the chosen one and those where a finding begins, and the page says how many are left out.
"""

import base64
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenhand.report.drawing import rounded
from evenhand.report.reading import RunView
from evenhand.tasks import Task

BUDGET = 3_300_000  # characters of base64; the page's own part is below a megabyte, its limit is 5 MB
ROWS_PER_CHUNK = 1600  # about 200 kB of JSON, opened in a few milliseconds
STEPS_TRIED = 20  # of each run, to see how well its completions compress
LONGEST_TEXT = 8_000  # characters; a completion limit of 2,000 tokens gives fewer
MOST_FINDINGS = 20
SAMPLED = "sampled"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some steps of one run and source, compressed: gzip of JSON, as base64."""

    run: int
    source: str
    steps: Sequence[int]
    data: str


@dataclass(slots=True)
class Columns:
    """Rows of a chunk on their way to JSON; texts and prompts that repeat are kept once."""

    texts: dict[str, int] = field(default_factory=dict)
    prompts: dict[str, int] = field(default_factory=dict)
    clipped: dict[int, int] = field(default_factory=dict)  # place of a text -> its whole length
    rows: list[list[Any]] = field(default_factory=list)
    reward_names: list[str] = field(default_factory=list)

    def add(self, row: Mapping[str, Any], task: Task | None) -> None:
        """Take up one completion or answer as the run folder keeps it; keys that are missing stay unknown."""
        rewards = row.get("rewards") if isinstance(row.get("rewards"), Mapping) else {}
        metrics = row.get("metrics") if isinstance(row.get("metrics"), Mapping) else {}
        columns = row.get("columns") if isinstance(row.get("columns"), Mapping) else {}
        text = str(row.get("text") or "")
        self.reward_names = self.reward_names or [str(name) for name in rewards or {}]
        self.rows.append(
            [
                row.get("step"),
                row.get("group", row.get("index")),
                self.place_text(text),
                place(self.prompts, prompt_of(row, task)[:LONGEST_TEXT]),
                rounded(row.get("reward")),
                rounded(row.get("advantage")),
                row.get("prediction"),
                row.get("expected", truth_of(task, columns or {})),
                goal_of(task, metrics or {}),
                line_marks(task, columns or {}, text),
                [rounded((rewards or {}).get(name)) for name in self.reward_names],
            ]
        )

    def place_text(self, text: str) -> int:
        """Where a text stands among the texts, cut if it is very long."""
        at = place(self.texts, text[:LONGEST_TEXT])
        if len(text) > LONGEST_TEXT:
            self.clipped[at] = len(text)
        return at

    def packed(self) -> str:
        """Base64 of gzip of JSON."""
        value = {
            "texts": list(self.texts),
            "prompts": list(self.prompts),
            "clipped": self.clipped,
            "rewards": self.reward_names,
            "rows": self.rows,
        }
        raw = json.dumps(value, separators=(",", ":")).encode("ascii")
        return base64.b64encode(gzip.compress(raw, 9, mtime=0)).decode("ascii")


def place(known: dict[str, int], text: str) -> int:
    """The number of a text, given at its first appearance."""
    return known.setdefault(text, len(known))


def prompt_of(row: Mapping[str, Any], task: Task | None) -> str:
    """What was asked."""
    if isinstance(row.get("prompt"), str):
        return str(row["prompt"])
    columns = row.get("columns")
    if task is None or not isinstance(columns, Mapping):
        return ""
    return "\n\n".join(message["content"] for message in task.prompt(columns))


def truth_of(task: Task | None, columns: Mapping[str, Any]) -> str | None:
    """The right answer, where it can be told."""
    known = task is not None and set(task.columns) <= set(columns)
    return task.truth(columns) if task is not None and known else None


def goal_of(task: Task | None, metrics: Mapping[str, Any]) -> Any:
    """How a completion scores on the task's goal."""
    return rounded(metrics.get(task.goal)) if task is not None else None


def line_marks(task: Task | None, columns: Mapping[str, Any], text: str) -> str:
    """One character per line of the text: r right, w wrong, p partly; a space where the task does not say."""
    if task is None or not set(task.columns) <= set(columns):
        return ""
    spans = task.spans(columns, text[:LONGEST_TEXT])
    if not spans:
        return ""
    verdicts = {text.count("\n", 0, span.start): span.rewards for span in spans}
    last = max(verdicts)
    return "".join(verdict(verdicts.get(line)) for line in range(last + 1))


def verdict(rewards: Mapping[str, float] | None) -> str:
    """What a span earns, as a character."""
    if not rewards:
        return " "
    low, high = min(rewards.values()), max(rewards.values())
    return "r" if low >= 1 else "w" if high <= 0 else "p"


# -- packing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Packed:
    """All chunks of the page, and what had to be left out."""

    chunks: Sequence[Chunk]
    gaps: Sequence[str]

    @property
    def size(self) -> int:
        """Characters of base64."""
        return sum(len(chunk.data) for chunk in self.chunks)


def pack(runs: Sequence[RunView], budget: int = BUDGET) -> Packed:
    """Pack the completions of all runs into ``budget`` characters."""
    stride = first_stride(runs, budget)
    while True:
        packed = pack_every(runs, stride)
        if packed.size <= budget or not packed.chunks or stride > longest(runs):
            return packed
        # Aimed a little below the budget, since chunks of fewer steps compress less well.
        stride = max(stride + 1, round(stride * packed.size / budget * 1.05))


def first_stride(runs: Sequence[RunView], budget: int) -> int:
    """A stride that is likely to fit, from packing a few steps of each run; too small rather than too large."""
    coarse = longest(runs) // STEPS_TRIED
    if coarse <= 1:
        return 1
    return max(1, int(pack_every(runs, coarse).size * coarse / max(budget, 1)))


def longest(runs: Sequence[RunView]) -> int:
    """Steps of the longest run."""
    return max((len(run.folder.completion_steps()) for run in runs), default=0)


def pack_every(runs: Sequence[RunView], stride: int) -> Packed:
    """Pack every ``stride``-th step of each run, and the steps that matter."""
    chunks: list[Chunk] = []
    gaps: list[str] = []
    for run in runs:
        steps = run.folder.completion_steps()
        kept = kept_steps(run, steps, stride)
        if len(kept) < len(steps):
            where = f"{run.folder.path.name}/completions"
            gaps.append(
                f"{run.name}: completions of {len(kept)} of {len(steps)} steps are in this page; all are in {where}."
            )
        chunks += chunked(run, SAMPLED, (row for step in kept for row in run.folder.completions(step)))
        chunks += chunked(run, "evaluated", evaluated_rows(run))
    return Packed(chunks, gaps)


def kept_steps(run: RunView, steps: Sequence[int], stride: int) -> list[int]:
    """Evenly spaced steps, and the first, the last, the chosen one and those where a finding begins."""
    findings = [finding.step for finding in run.findings if finding.step is not None][:MOST_FINDINGS]
    matter = {run.chosen_step, *findings, *steps[:1], *steps[-1:]}
    return [step for i, step in enumerate(steps) if i % stride == 0 or step in matter]


def evaluated_rows(run: RunView) -> Iterator[dict[str, Any]]:
    """The answers of the evaluation before training and of the shown one."""
    for step, evaluation in sorted({e.step: e for e in (run.first_evaluation, run.shown_evaluation) if e}.items()):
        for row in run.folder.answers(evaluation.split, step):
            yield {**row, "step": step}


def chunked(run: RunView, source: str, rows: Iterable[Mapping[str, Any]]) -> list[Chunk]:
    """Rows, which come in order of steps, in chunks; a step is never divided."""
    chunks: list[Chunk] = []
    columns, steps = Columns(), dict[int, None]()
    for row in rows:
        step = row.get("step")
        if not isinstance(step, int):
            continue
        if len(columns.rows) >= ROWS_PER_CHUNK and step not in steps:
            chunks.append(Chunk(run.index, source, list(steps), columns.packed()))
            columns, steps = Columns(), {}
        columns.add(row, run.task)
        steps[step] = None
    if columns.rows:
        chunks.append(Chunk(run.index, source, list(steps), columns.packed()))
    return chunks
