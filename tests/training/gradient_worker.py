"""Run by test_processes.py, alone or under torchrun: one update on fixed completions, its gradient saved to a file."""

from datasets import Dataset
from worker_parts import one_update, run, settings

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


def main(model, output, processes):
    one_update(
        FixedCompletions, model, output,
        args=settings(output, num_generations=GROUP_SIZE, per_device_train_batch_size=2,
                      gradient_accumulation_steps=COMPLETIONS_PER_UPDATE // 2 // processes, beta=0.02),
        reward_funcs=lambda completions, **_: [float(len(set(text)) % 5) for text in completions],
        train_dataset=Dataset.from_list([{"prompt": f"Numbers: {i}"} for i in range(4)]),
    )  # fmt: skip


if __name__ == "__main__":
    run(main)
