"""The only file that subclasses TRL. Every override is a small seam; ``tests/training/test_trainer.py`` watches their
signatures, so that a new TRL that moves one of them is noticed before a run is.
"""

from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Sampler
from trl import GRPOTrainer
from trl.trainer.utils import RepeatSampler

GENERATION_CYCLE = "generation_cycle"


class EpochSampler(RepeatSampler):  # type: ignore[misc]  # TRL's types are not followed
    """TRL's sampler, whose order in epoch e is the same whether the run reached e or was resumed in it.

    TRL's own draws one permutation per iteration from a generator that a resumed run starts anew, so that it would
    see epoch 0's order again.
    """

    def __init__(self, sampler: RepeatSampler, trainer: GRPOTrainer) -> None:
        self.__dict__.update(sampler.__dict__)
        self._trainer = trainer

    def __iter__(self) -> Any:
        """Indices of the epoch in which the trainer stands."""
        if self.shuffle and self.seed is not None:
            self.generator.manual_seed(self.seed)
            # 1e-6: the state holds epochs as a sum of fractions
            for _ in range(int((self._trainer.state.epoch or 0.0) + 1e-6)):
                torch.randperm(self.num_samples, generator=self.generator)
        return super().__iter__()


class ResumableTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL's types are not followed
    """``GRPOTrainer`` whose resumed run equals the run that was never stopped (CPU, same seed).

    Departures from TRL: the data's order after an epoch's end, and the place in the generation cycle with its buffered
    completions, both survive a checkpoint. Nothing else changes.
    """

    def _get_train_sampler(self, dataset: Any = None) -> Sampler[int]:
        sampler = super()._get_train_sampler(dataset)
        return EpochSampler(sampler, self) if isinstance(sampler, RepeatSampler) else sampler

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        folder = Path(self._get_output_dir(trial)) / f"checkpoint-{self.state.global_step}"
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(self._generation_cycle(), folder / self._generation_cycle_name())

    def _generation_cycle(self) -> dict[str, Any]:
        """The micro-step, and the completions still to be used where a cycle is not at its end."""
        cycle = self.args.steps_per_generation * self.num_iterations
        return {"step": self._step, "inputs": self._buffered_inputs if self._step % cycle else None}

    def _generation_cycle_name(self) -> str:
        return f"{GENERATION_CYCLE}-{self.accelerator.process_index}.pt"

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        path = Path(checkpoint or "") / self._generation_cycle_name()
        if checkpoint is not None and path.is_file():
            saved = torch.load(path, map_location=self.accelerator.device, weights_only=True)
            self._step, self._buffered_inputs = saved["step"], saved["inputs"]
