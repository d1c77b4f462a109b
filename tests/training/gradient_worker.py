"""Run by test_processes.py, alone or under torchrun: one update on fixed completions, its gradient saved to a file."""

import os
import sys
from pathlib import Path

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig

from evenhand.training.run import leave_together
from evenhand.training.trainer import ResumableTrainer

COMPLETIONS_PER_UPDATE = 8
GROUP_SIZE = 4


class FixedCompletions(ResumableTrainer):
    """Completion i of the global batch is the same, whichever process holds it."""

    def _generate_single_turn(self, prompt_ids, *_, **__):
        first = self.accelerator.process_index * len(prompt_ids)
        end = self.processing_class.eos_token_id
        return [[10 + (7 * (first + i) + 3 * k) % 20 for k in range(3 + (first + i) % 3)] + [end]
                for i in range(len(prompt_ids))], None  # fmt: skip


class SaveGradient(TrainerCallback):
    def __init__(self, path):
        self.path = path

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        gradients = {name.removeprefix("module."): p.grad.clone() for name, p in model.named_parameters()}
        if state.is_world_process_zero:
            torch.save(gradients, self.path)


def main(model, output, processes):
    args = GRPOConfig(
        output_dir=str(output.parent / "out"), max_steps=1, num_generations=GROUP_SIZE, max_completion_length=8,
        per_device_train_batch_size=2, gradient_accumulation_steps=COMPLETIONS_PER_UPDATE // 2 // processes,
        beta=0.02, bf16=False, gradient_checkpointing=False, use_cpu=True, report_to="none", save_strategy="no",
        disable_tqdm=True, max_grad_norm=0.0, seed=1,
    )  # fmt: skip
    trainer = FixedCompletions(
        model=AutoModelForCausalLM.from_pretrained(model, dtype="float32"),
        reward_funcs=lambda completions, **_: [float(len(set(text)) % 5) for text in completions],
        args=args,
        train_dataset=Dataset.from_list([{"prompt": f"Numbers: {i}"} for i in range(4)]),
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
        callbacks=[SaveGradient(output)],
    )
    trainer.train()
    leave_together()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    os._exit(0)  # threads that served the other process may abort one that shuts down as usual
