"""What a training run shows in the terminal: a progress bar, and every evaluation as a row. All of it on stderr."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from evenhand.records import Evaluation, Finding

# Log keys shown beside the bar, and their short names.
SHOWN = {"reward": "reward", "frac_reward_zero_std": "groups alike", "entropy": "entropy", "grad_norm": "gradient"}
ANSWERS_SHOWN = 13
CELL = 16  # characters of a column


class TrainingDisplay:
    """The terminal of one run. Silent on processes other than the main one; no bar where stderr is no terminal."""

    def __init__(self, console: Console, enabled: bool = True) -> None:
        self.console = console
        self.enabled = enabled
        self._header_shown = False

    def say(self, text: str) -> None:
        """A line of plain text."""
        if self.enabled:
            self.console.print(text, markup=False, highlight=False)

    def show_evaluation(self, evaluation: Evaluation) -> None:
        """One row: the metrics with their 95 % intervals, then the most frequent predictions."""
        names = list(evaluation.metrics)
        if not self._header_shown:
            self._header_shown = True
            self.say(f"{evaluation.split}, {evaluation.n} problems, greedy (95 % interval)")
            self.say("step  " + "  ".join(f"{name:>{CELL}}" for name in names))
        cells = [rate_cell(evaluation.metrics[name], evaluation.intervals[name]) for name in names]
        self.say(f"{evaluation.step:4d}  " + "  ".join(f"{cell:>{CELL}}" for cell in cells))
        self.say(f"      answers {distribution(evaluation.predictions)}")

    def show_finding(self, finding: Finding) -> None:
        """A finding, then what to do."""
        where = "" if finding.step is None else f" (step {finding.step})"
        self.say(f"{finding.severity.upper()} {finding.code}{where}: {finding.message}")
        if finding.remedy:
            self.say(f"  → {finding.remedy}")


def rate_cell(value: float, interval: tuple[float, float]) -> str:
    """``66.0% (52–78)``."""
    return f"{value:.1%} ({interval[0] * 100:.0f}–{interval[1] * 100:.0f})"


def distribution(predictions: Mapping[str, int]) -> str:
    """``0×4 1×6 …``: how often each answer was given, in order; the most frequent ones where there are many."""
    most = sorted(predictions, key=lambda answer: -predictions[answer])[:ANSWERS_SHOWN]
    ordered = sorted(most, key=lambda answer: (not answer.isdecimal(), len(answer), answer))
    rest = len(predictions) - len(most)
    return " ".join(f"{answer}×{predictions[answer]}" for answer in ordered) + (f" and {rest} others" if rest else "")


class ProgressCallback(TrainerCallback):
    """The progress bar over optimiser steps, with the newest figures beside it: log keys and their short names."""

    def __init__(self, display: TrainingDisplay, shown: Mapping[str, str] = SHOWN) -> None:
        self._shown = shown
        self.progress = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
            console=display.console,
            disable=not (display.enabled and display.console.is_terminal),
        )
        self._bar = self.progress.add_task("training", figures="")

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Show the bar."""
        del args, control
        self.progress.start()
        self.progress.update(self._bar, total=state.max_steps, completed=state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Move it."""
        del args, control
        self.progress.update(self._bar, completed=state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Show the newest figures."""
        del args, state, control
        figures = [f"{name} {logs[key]:.3g}" for key, name in self._shown.items() if logs and is_number(logs.get(key))]
        if figures:
            self.progress.update(self._bar, figures=", ".join(figures))

    def stop(self) -> None:
        """Leave the terminal as it was."""
        self.progress.stop()


def is_number(value: Any) -> bool:
    """Whether a log value can be shown; TRL logs None where nothing valid was seen."""
    return isinstance(value, int | float)
