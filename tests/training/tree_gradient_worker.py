"""Run by test_prefix_tree_processes.py under torchrun: the gradient of one update on fixed completions, to a file."""

import os
import sys
from pathlib import Path

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from evenhand.training.run import leave_together
from evenhand.training.trainer import PrefixTreeTrainer


class Fixed:
    """Completion i of the global batch is the same, whichever process holds it; neighbours agree for a while."""

    def _generate_single_turn(self, prompt_ids, *_, **__):
        first = self.accelerator.process_index * len(prompt_ids)
        end = self.processing_class.eos_token_id
        rows = range(first, first + len(prompt_ids))
        return [[10, 11, 12, *(13 + (i + k) % 9 for k in range(1 + i % 3)), end] for i in rows], None


class Stock(Fixed, GRPOTrainer):
    pass


class Tree(Fixed, PrefixTreeTrainer):
    pass


class SaveGradient(TrainerCallback):
    def __init__(self, path):
        self.path = path

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        if state.is_world_process_zero:
            torch.save({n.removeprefix("module."): p.grad.clone() for n, p in model.named_parameters()}, self.path)


def main(kind, model, output, processes):
    args = GRPOConfig(
        output_dir=str(output.parent / "out"), max_steps=1, num_generations=4, max_completion_length=8,
        per_device_train_batch_size=4, gradient_accumulation_steps=2 // processes, beta=0.02, bf16=False,
        gradient_checkpointing=False, use_cpu=True, report_to="none", save_strategy="no", disable_tqdm=True,
        max_grad_norm=0.0, seed=1,
    )  # fmt: skip
    trainer = (Tree if kind == "tree" else Stock)(
        model=AutoModelForCausalLM.from_pretrained(model, dtype="float32"),
        reward_funcs=lambda completion_ids, **_: [float(len(ids) % 3) for ids in completion_ids],
        args=args,
        train_dataset=Dataset.from_list([{"prompt": f"Numbers: {i}"} for i in range(4)]),
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
        callbacks=[SaveGradient(output)],
    )
    trainer.train()
    leave_together()
    if kind == "tree" and not trainer.tokens_computed["scoring"]:
        raise SystemExit("took TRL's path")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
    os._exit(0)  # threads that served the other process may abort one that shuts down as usual
