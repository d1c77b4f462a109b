"""Run by test_prefix_tree_processes.py under torchrun: the gradient of one update on fixed completions, to a file."""

from datasets import Dataset
from trl import GRPOTrainer
from worker_parts import one_update, run, settings

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


def main(kind, model, output, processes):
    trainer = one_update(
        Tree if kind == "tree" else Stock, model, output,
        args=settings(output, num_generations=4, per_device_train_batch_size=4,
                      gradient_accumulation_steps=2 // processes, beta=0.02),
        reward_funcs=lambda completion_ids, **_: [float(len(ids) % 3) for ids in completion_ids],
        train_dataset=Dataset.from_list([{"prompt": f"Numbers: {i}"} for i in range(4)]),
    )  # fmt: skip
    if kind == "tree" and not trainer.tokens_computed["scoring"]:
        raise SystemExit("took TRL's path")


if __name__ == "__main__":
    run(main)
