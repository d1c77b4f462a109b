"""Run by test_prefix_tree_processes.py under torchrun: the gradient of one update with credit per line, to a file."""

import os
import sys
from pathlib import Path

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig

from evenhand.rewards import Grader
from evenhand.tasks.stepwise_parity import TASK
from evenhand.training.line_credit import LineCredit
from evenhand.training.run import leave_together
from evenhand.training.trainer import PrefixTreeTrainer, ResumableTrainer

PROBLEMS = TASK.draw("train")[:4]


class Written:
    """Completion i of the global batch is the same, whichever process holds it: gold with up to two labels flipped."""

    def _generate_single_turn(self, prompt_ids, *_, **__):
        tokenizer, made = self.processing_class, []
        for place, ids in enumerate(prompt_ids):
            index = self.accelerator.process_index * len(prompt_ids) + place
            asked = tokenizer.decode(ids)
            (columns,) = [row for row in PROBLEMS if f"Numbers: {row['numbers']}" in asked]
            lines = TASK.gold(columns).split("\n")
            for line in {index % 4, 2 * index % 5} - {0}:
                lines[line] = lines[line].replace("odd", "EVEN").replace("even", "odd").replace("EVEN", "even")
            made.append([*tokenizer("\n".join(lines), add_special_tokens=False)["input_ids"], tokenizer.eos_token_id])
        return made, None


class Plain(Written, ResumableTrainer):
    pass


class Tree(Written, PrefixTreeTrainer):
    pass


class SaveGradient(TrainerCallback):
    def __init__(self, path):
        self.path = path

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        if state.is_world_process_zero:
            torch.save({n.removeprefix("module."): p.grad.clone() for n, p in model.named_parameters()}, self.path)


def main(kind, model, output, processes):
    args = GRPOConfig(
        output_dir=str(output.parent / "out"), max_steps=1, num_generations=8, max_completion_length=96,
        per_device_train_batch_size=2, gradient_accumulation_steps=4 // processes, bf16=False, seed=1,
        gradient_checkpointing=False, use_cpu=True, report_to="none", save_strategy="no", disable_tqdm=True,
        max_grad_norm=0.0, reward_weights=[reward.weight for reward in TASK.rewards],
    )  # fmt: skip
    trainer = (Tree if kind == "tree" else Plain)(
        model=AutoModelForCausalLM.from_pretrained(model, dtype="float32"),
        reward_funcs=Grader(TASK).reward_functions(),
        args=args,
        train_dataset=Dataset.from_list([{"prompt": [dict(m) for m in TASK.prompt(row)], **row} for row in PROBLEMS]),
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
        callbacks=[SaveGradient(output)],
        line_credit=LineCredit(TASK),
    )
    trainer.train()
    leave_together()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
    os._exit(0)  # threads that served the other process may abort one that shuts down as usual
