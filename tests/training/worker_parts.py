"""What the workers under torchrun share: one update by a trainer, its gradient saved to a file."""

import os
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig

from evenhand.training.run import leave_together


class SaveGradient(TrainerCallback):
    """The first process saves the gradient, before anything is done to it."""

    def __init__(self, path):
        self.path = path

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        gradients = {name.removeprefix("module."): p.grad.clone() for name, p in model.named_parameters()}
        if state.is_world_process_zero:
            torch.save(gradients, self.path)


def settings(output, **changes):
    """One update, on the CPU, its gradient not clipped."""
    chosen = {
        "output_dir": str(output.parent / "out"),
        "max_steps": 1,
        "max_completion_length": 8,
        "bf16": False,
        "gradient_checkpointing": False,
        "use_cpu": True,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "max_grad_norm": 0.0,
        "seed": 1,
    }
    return GRPOConfig(**{**chosen, **changes})


def one_update(kind, model, output, **parts):
    """Train one step and leave with the other processes; returns the trainer."""
    trainer = kind(
        model=AutoModelForCausalLM.from_pretrained(model, dtype="float32"),
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
        callbacks=[SaveGradient(output)],
        **parts,
    )
    trainer.train()
    leave_together()
    return trainer


def run(main):
    """Call ``main`` with the command line: ``[KIND] MODEL OUTPUT PROCESSES``."""
    *kind, model, output, processes = sys.argv[1:]
    main(*kind, Path(model), Path(output), int(processes))
    sys.stdout.flush()
    os._exit(0)  # threads that served the other process may abort one that shuts down as usual
