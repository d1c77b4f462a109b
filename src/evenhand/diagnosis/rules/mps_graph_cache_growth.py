"""``mps-graph-cache-growth``."""

from typing import ClassVar

import numpy as np

from evenhand.diagnosis.history import NOTHING, History, Series, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.diagnosis.statistics import trend_of
from evenhand.records import Severity

# Process memory must have grown by half beyond its first level. A trainer's own memory settles in its first ten steps;
# the reports have growth by factors within a few hundred lengths.
GROWTH = 1.5
# ... and follow the count of distinct lengths this closely (share of variance explained).
FOLLOWS = 0.8
MEMORY_KEYS = ("memory/process", "memory/driver")


class MpsGraphCacheGrowth(Rule):
    """On MPS, process memory grows with the number of distinct sequence lengths, not with live tensors.

    ## Why it matters

    Metal compiles one graph per tensor shape and keeps it. GRPO makes a new length nearly every step, so memory climbs
    for hundreds of steps until the process is killed, while the allocator's own number stays flat.

    ## Example

    Driver memory 9 MB at the start and 13.7 GB after 315 distinct shapes; 52 MB after the cache was cleared.

    ## Remedy

    Set `torch_empty_cache_steps` to 1, or pad lengths to a few sizes.
    """

    code: ClassVar[str] = "mps-graph-cache-growth"
    severity: ClassVar[Severity] = "warn"

    def judge(self, history: History) -> Verdict:
        """Memory rises beyond noise and by half, in step with the distinct lengths seen so far."""
        memory = next((history.get(key).finite for key in MEMORY_KEYS if len(history.get(key))), NOTHING)
        device = str(history.settings.get("device", ""))
        driver = len(history.get("memory/driver")) > 0
        if not len(memory):
            return self.unknown("no process memory was logged")
        if not (device.startswith("mps") or (driver and not device)):
            return None if device else self.unknown("the device is not known")
        lengths = self.distinct_lengths(history, memory)
        trend = trend_of(memory)
        if trend is None or len(lengths) != len(memory):
            return self.unknown("too few rows of memory, or no lengths beside them")
        first = float(memory.values[: max(1, len(memory) // 10)].mean())
        grown = float(memory.values[-1]) / max(first, 1e-9)
        follows = float(np.corrcoef(lengths, memory.values)[0, 1] ** 2) if np.ptp(lengths) > 0 else 0.0
        if not trend.rises or grown < GROWTH or follows < FOLLOWS:
            return None
        return self.finding(
            f"Memory grew from {first:.3g} to {memory.values[-1]:.3g} in step with {lengths[-1]:.0f} distinct lengths: "
            "MPS keeps one compiled graph per length.",
            step=memory.steps[int(np.argmax(memory.values > 1.1 * first))],
            evidence={
                "memory": [first, memory.values[-1]], "distinct_lengths": lengths[-1], "variance_explained": follows,
                "torch_empty_cache_steps": history.settings.get("torch_empty_cache_steps"),
            },
            remedy="Set torch_empty_cache_steps = 1, or pad lengths to a few sizes.",
        )  # fmt: skip

    def distinct_lengths(self, history: History, memory: Series) -> np.ndarray:
        """Distinct lengths seen up to each row of memory, shape (rows,): the logged count, else from the lengths."""
        counted = history.get("memory/distinct_lengths")
        if len(counted):
            return counted.values[np.isin(counted.steps, memory.steps)]
        for name in ("completions/max_length", "completions/mean_length"):
            series = history.get(name).finite
            values = series.values[np.isin(series.steps, memory.steps)]
            if len(values) == len(memory):
                _, first_seen = np.unique(values, return_index=True)
                new = np.zeros(len(values))
                new[first_seen] = 1
                return np.cumsum(new)
        return np.empty(0)

    def sick(self) -> History:
        """A new length on every row, memory in step with it."""
        rows = 40
        return history_of(
            {
                "memory/process": [3.0 + 0.2 * row for row in range(rows)],
                "completions/max_length": [100.0 + 3 * row for row in range(rows)], "reward": [0.5, 0.6] * (rows // 2),
                "grad_norm": [1.0] * rows,
            },
            settings={"device": "mps"},
        )  # fmt: skip


RULE = MpsGraphCacheGrowth()
