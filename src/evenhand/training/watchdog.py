"""Watches a run from inside, with the rules that read logs afterwards.

In a script of one's own, two lines::

    from evenhand import Watchdog
    Watchdog().attach(trainer)
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from rich.console import Console
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from evenhand.diagnosis.live import LiveDiagnosis, evaluated
from evenhand.diagnosis.rules.weights_are_nan import RULE as WEIGHTS_ARE_NAN
from evenhand.errors import RunStopped
from evenhand.records import Finding
from evenhand.runfolder import CHECKPOINT_PREFIX, RunFolder, append_line

STOP_ON = ("weights-are-nan", "collapsed-identical-rollouts")
# What sampling from non-finite logits raises: torch.multinomial on CPU and MPS, its assertion on CUDA.
BROKEN_SAMPLING = ("probability tensor contains", "device-side assert", "invalid multinomial distribution")

Say = Callable[[Finding], None]


class WatchdogCallback(TrainerCallback):
    """Judges every log row as it comes, warns in the terminal and in ``findings.jsonl``, and ends a run that is lost.

    For a finding named in ``stop_on`` the run is saved and ended. Weights that are NaN are the exception: they end it
    without a checkpoint, which would only be taken for the newest good one.

    Args:
        stop_on: Codes on which to end the run; empty for warnings alone.
        folder: Where ``findings.jsonl`` goes: a run folder, or None for the trainer's output folder.
        settings: What the trainer's arguments do not tell, such as the highest reward.
        say: Called with each finding on the main process; None prints to stderr.
    """

    def __init__(
        self,
        stop_on: Sequence[str] = STOP_ON,
        folder: RunFolder | None = None,
        settings: Mapping[str, Any] | None = None,
        say: Say | None = None,
    ) -> None:
        self.stop_on = tuple(stop_on)
        self.folder = folder
        self.settings = dict(settings or {})
        self.say: Say = say or print_finding
        self.ended_by: Finding | None = None
        self._live = LiveDiagnosis({}, self.stop_on)
        self._output: Path | None = None
        self._speaks = True  # on the main process
        self._lengths: set[float] = set()

    def attach(self, trainer: Trainer) -> "WatchdogCallback":
        """Add this callback to a trainer, and see what its steps raise, which callbacks are not told.

        With an enormous learning rate the next generation fails before a single broken row is logged.
        """
        trainer.add_callback(self)
        step = trainer.training_step

        def watched_step(*arguments: Any, **keywords: Any) -> Any:
            try:
                return step(*arguments, **keywords)
            except RuntimeError as error:
                self.failed(error, trainer.state.global_step)
                raise

        vars(trainer)["training_step"] = watched_step  # this trainer alone, not its class
        return self

    @property
    def seconds(self) -> float:
        """Seconds spent judging and looking at the weights so far."""
        return self._live.seconds

    def failed(self, error: RuntimeError, step: int) -> None:
        """Record an exception that means broken weights, and raise RunStopped for it; do nothing about any other."""
        if not any(words in str(error) for words in BROKEN_SAMPLING):
            return
        if self.ended_by is None:
            self._report(broken_weights(step + 1, "sampling failed", str(error).splitlines()[0]))
        raise RunStopped(
            f"The run ended at step {step + 1}: its logits are NaN or infinite, so nothing can be sampled.",
            "Lower the learning rate or clip the gradient, and start from the last checkpoint before.",
        ) from error

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start anew; a resumed run brings its earlier rows."""
        del control
        self._output = Path(args.output_dir or ".")
        self._speaks = state.is_world_process_zero
        self.ended_by = None
        known = {key: value for key, value in args.to_dict().items() if isinstance(value, bool | int | float | str)}
        settings = {"num_processes": args.world_size, "device": str(args.device), **known, **self.settings}
        self._live = LiveDiagnosis(settings, self.stop_on)
        earlier = [row.to_json() for row in self.folder.metrics()] if self.folder is not None else state.log_history
        for row in earlier:
            if row.get("step", math.inf) <= state.global_step:
                self._live.add(int(row["step"]), {key: value for key, value in row.items() if key != "step"})
        self._look_around()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Look at the weights themselves: a log row may come ten steps later, or hide a NaN behind a loss of 0.0."""
        del args
        start = time.perf_counter()
        sound = model is None or weights_are_finite(model)
        self._live.seconds += time.perf_counter() - start
        if any_process(not sound):  # a shard of the weights may be broken on one process alone
            finding = broken_weights(state.global_step, "weights", "not finite")
            self._report(finding)
            self._end([finding], control)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Take the row and ask the rules."""
        if not logs or "train_runtime" in logs:
            return
        self._live.add(state.global_step, {**logs, **self._memory(args, logs)})
        if evaluated(logs):
            self._look_around()
        self._act(self._live.new_findings(), control)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Ask every rule once more, those included that the run had not paid for yet."""
        del args, state, control
        for finding in self._live.new_findings(final=True):
            self._report(finding)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Know the new checkpoint."""
        del args, state, control
        self._look_around()

    def _look_around(self) -> None:
        """Evaluations and checkpoints on the disk."""
        output = self._output or Path()
        numbers = [path.name.removeprefix(CHECKPOINT_PREFIX) for path in output.glob(f"{CHECKPOINT_PREFIX}*")]
        kept = tuple(sorted(int(name) for name in numbers if name.isdigit()))
        evaluations = tuple(self.folder.evaluations()) if self.folder is not None else None
        self._live.tell(evaluations=evaluations, checkpoints=kept)

    def _memory(self, args: TrainingArguments, logs: Mapping[str, Any]) -> dict[str, float]:
        """On MPS, the driver's memory and the distinct lengths so far: its cache grows with them."""
        if args.device.type != "mps":
            return {}
        self._lengths |= {float(logs[key]) for key in ("completions/max_length",) if key in logs}
        driver = torch.mps.driver_allocated_memory() / 2**30
        return {"memory/driver": driver, "memory/distinct_lengths": float(len(self._lengths))}

    def _act(self, findings: Sequence[Finding], control: TrainerControl) -> None:
        """Report, and end the run where told to; all processes do the same."""
        for finding in findings:
            self._report(finding)
        ends = [finding for finding in findings if finding.severity == "stop" and finding.code in self.stop_on]
        if any_process(bool(ends)):
            self._end(ends, control)

    def _end(self, findings: Sequence[Finding], control: TrainerControl) -> None:
        """Stop after this step, with a checkpoint unless the weights are broken; nothing where it was not asked to."""
        ends = [finding for finding in findings if finding.code in self.stop_on]
        if findings and not ends:
            return
        self.ended_by = self.ended_by or next(iter(ends), None)
        control.should_training_stop = True
        control.should_save = not any(finding.code == WEIGHTS_ARE_NAN.code for finding in ends)

    def _report(self, finding: Finding) -> None:
        if finding.code == WEIGHTS_ARE_NAN.code and finding.evidence.get("key") in {"weights", "sampling failed"}:
            if not self._live.told(finding):
                return
            finding = self._live.complete(finding)
        if not self._speaks:
            return
        line = json.dumps(finding.to_json(), ensure_ascii=False, default=str)
        if self.folder is not None:
            self.folder.append("findings.jsonl", finding.to_json())
        elif self._output is not None:
            self._output.mkdir(parents=True, exist_ok=True)
            append_line(self._output / "findings.jsonl", line)
        self.say(finding)


def broken_weights(step: int, key: str, value: str) -> Finding:
    """The finding for weights that are seen, rather than logged, to be broken."""
    return WEIGHTS_ARE_NAN.finding(
        f"The weights are broken since the update of step {step} ({key}: {value}): nothing after it means anything.",
        step=step,
        evidence={"key": key, "value": value},
        remedy="Lower the learning rate or clip the gradient harder before going on.",
    )


def weights_are_finite(model: Any) -> bool:
    """Whether every weight is a number. One pass over them, one wait for the device."""
    weights = [weight.detach() for weight in model.parameters() if weight.requires_grad]
    return not weights or bool(torch.isfinite(torch.nn.utils.get_total_norm(weights, norm_type=math.inf)))


def any_process(here: bool) -> bool:
    """Whether the answer is yes on any process: ending a run is for all of them or for none."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return here
    return any(gather_object([here]))


def print_finding(finding: Finding) -> None:
    """Two lines on stderr."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    where = "" if finding.step is None else f" (step {finding.step})"
    console.print(f"{finding.severity.upper()} {finding.code}{where}: {finding.message}", markup=False)
    if finding.remedy:
        console.print(f"  {finding.remedy}", markup=False)
