"""Run by test_prefix_tree_processes.py under torchrun: the gradient of one update with credit per line, to a file."""

from datasets import Dataset
from worker_parts import one_update, run, settings

from evenhand.rewards import Grader
from evenhand.tasks.stepwise_parity import TASK
from evenhand.training.line_credit import LineCredit
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


def main(kind, model, output, processes):
    one_update(
        Tree if kind == "tree" else Plain, model, output,
        args=settings(output, num_generations=8, max_completion_length=96, per_device_train_batch_size=2,
                      gradient_accumulation_steps=4 // processes,
                      reward_weights=[reward.weight for reward in TASK.rewards]),
        reward_funcs=Grader(TASK).reward_functions(),
        train_dataset=Dataset.from_list([{"prompt": [dict(m) for m in TASK.prompt(row)], **row} for row in PROBLEMS]),
        line_credit=LineCredit(TASK),
    )  # fmt: skip


if __name__ == "__main__":
    run(main)
