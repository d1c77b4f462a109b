"""How a cold start ended: the model it leaves, why it ended, and what to do next."""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.config import RunConfig
from evenhand.errors import RunFolderError
from evenhand.runfolder import COLD_START_FILE, COMPLETE, RunFolder, weight_hashes
from evenhand.selection import choose, save
from evenhand.training.coldstart.callbacks import STATE_FOR_RESUMING
from evenhand.training.outcome import Outcome

MODEL_FOLDER = "model"
NOT_OF_THE_MODEL = {*STATE_FOR_RESUMING, COMPLETE, "training_args.bin", "trainer_state.json"}


@dataclass(frozen=True)
class ColdStartOutcome(Outcome):
    """A finished or interrupted cold start; ``record`` is what stands in ``coldstart.json``."""

    record: Mapping[str, Any] | None = None

    @property
    def model(self) -> Path:
        """The directory of the final model."""
        return self.folder.path / MODEL_FOLDER

    def to_json(self) -> dict[str, Any]:
        """For ``coldstart --json``."""
        own = {**(self.record or {}), "model": None if self.interrupted else str(self.model)}
        return {**super().to_json(), "coldstart": own}

    def next_steps(self) -> list[str]:
        """Why it ended, and the commands that go on from here."""
        path, record = self.folder.path, self.record or {}
        if self.interrupted:
            return [f"Interrupted. Go on with: evenhand coldstart --resume {path}"]
        gain = [] if self.selection is None else list(self.selection.sentences()[1:])
        return [
            f"Ended after {record.get('examples')} examples: {record.get('ended_because')}.",
            *gain,
            "Next:",
            f"  evenhand evaluate {path} --show 3     look at its answers",
            f"  evenhand train {path / 'config.toml'} --model {self.model}     reinforcement from here",
        ]


def conclude(folder: RunFolder, config: RunConfig) -> ColdStartOutcome:
    """Write ``model/``, ``selection.json`` and how it ended, and close the run folder.

    The model is the last checkpoint, file by file, so its weights are bit for bit those that training ended with.

    Raises:
        RunFolderError: no evaluated step was saved, or the disk refuses.
    """
    selection = choose(folder)
    model = folder.path / MODEL_FOLDER
    copy_model(folder.checkpoint(selection.step).path, model)
    save(folder, selection)
    plan = config.coldstart
    ended_by_rule = plan.stop_metric is not None and selection.value >= plan.stop_at
    told = f"{selection.metric} reached {selection.value:.1%}" if ended_by_rule else "all were shown"
    if plan.stop_metric is not None and not ended_by_rule:
        told += f", and {selection.metric} stands at {selection.value:.1%} instead of {plan.stop_at:.1%}"
    record = {
        **(folder.read_json(COLD_START_FILE) or {}),
        "step": selection.step,
        "examples": selection.step * plan.batch_size,
        "ended_by_rule": ended_by_rule,
        "ended_because": told,
        "model_sha256": weight_hashes(model),
        "tokens_computed": total(folder, "tokens_computed"),
        "tokens_without_sharing": total(folder, "tokens_without_sharing"),
    }
    folder.write_json(COLD_START_FILE, record)
    folder.write_status("finished", step=selection.step, max_steps=selection.step)
    return ColdStartOutcome(folder, False, None, folder.evaluations(), selection, record=record)


def total(folder: RunFolder, key: str) -> int:
    """The sum of a logged key over all steps."""
    return int(sum(row.values.get(key) or 0 for row in folder.metrics()))


def copy_model(checkpoint: Path, target: Path) -> None:
    """A checkpoint's model and tokenizer under another name, in one step."""
    try:
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            for path in sorted(checkpoint.iterdir()):
                if path.name not in NOT_OF_THE_MODEL:
                    shutil.copy2(path, scratch / path.name)
            shutil.rmtree(target, ignore_errors=True)
            scratch.chmod(0o755)  # mkdtemp makes folders that only their owner can read
            scratch.rename(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise RunFolderError(
            f"{target} cannot be written: {error.strerror}.",
            f"Free space, then: evenhand coldstart --resume {target.parent}",
        ) from error
