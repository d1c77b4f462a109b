"""Line credit in TRL's loss: plain GRPO where all parts are worth the same, each part its own advantage elsewhere."""

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig

from evenhand.credit import Parts, part_advantages
from evenhand.errors import ConfigurationError, TaskError
from evenhand.rewards import Grader
from evenhand.tasks import Span, integer_count
from evenhand.tasks.stepwise_parity import StepwiseParity
from evenhand.training.line_credit import LineCredit
from evenhand.training.trainer import PrefixTreeTrainer, ResumableTrainer
from models_for_tests import save_random_qwen3

GROUP = 4
WEIGHTS = {"item": 1.0, "answer": 1.0, "consistency": 0.5}
TASK = StepwiseParity()
PROBLEMS = TASK.draw("train")[:8]


class EqualParts(StepwiseParity):
    """Every line is worth what the whole completion earns."""

    def spans(self, columns, text):
        rewards = self.score(columns, text).rewards
        return [Span(span.start, span.end, span.name, rewards) for span in super().spans(columns, text)]


class Gapped(StepwiseParity):
    def spans(self, columns, text):
        return list(super().spans(columns, text))[1:]


def written(columns, index):
    """Completions of a group, all eleven lines long: gold, a wrong count, a wrong label, both."""
    text = TASK.gold(columns)
    if index % 4 in (1, 3):
        text = text.rsplit(" ", 1)[0] + (" 1" if columns["answer"] != 1 else " 2")
    if index % 4 in (2, 3):
        text = text.replace(": odd", ": even", 1) if ": odd" in text else text.replace(": even", ": odd", 1)
    return text


class Written:
    def _generate_single_turn(self, prompt_ids, *_, **__):
        tokenizer, made = self.processing_class, []
        for index, ids in enumerate(prompt_ids):
            asked = tokenizer.decode(ids)
            (columns,) = [row for row in PROBLEMS if f"Numbers: {row['numbers']}" in asked]
            text = written(columns, index)
            made.append([*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id])
        return made, None


class Plain(Written, ResumableTrainer):
    pass


class Tree(Written, PrefixTreeTrainer):
    pass


class Keep(TrainerCallback):
    def __init__(self):
        self.gradients = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        self.gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_random_qwen3(tmp_path_factory.mktemp("random-qwen3"), seed=5)


def build(kind, model, output, task, credit=True, **changes):
    rows = [{"prompt": [dict(m) for m in TASK.prompt(columns)], **columns} for columns in PROBLEMS]
    keep = Keep()
    args = {
        "output_dir": str(output), "max_steps": 2, "num_generations": GROUP, "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 2, "max_completion_length": 96, "learning_rate": 1e-4, "beta": 0.02,
        "bf16": False, "gradient_checkpointing": False, "use_cpu": True, "report_to": "none", "save_strategy": "no",
        "logging_steps": 1, "disable_tqdm": True, "seed": 1, "reward_weights": [1.0, 1.0, 0.5], **changes,
    }  # fmt: skip
    trainer = kind(
        model=AutoModelForCausalLM.from_pretrained(model, dtype="float32"),
        reward_funcs=Grader(task).reward_functions(),
        args=GRPOConfig(**args),
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
        callbacks=[keep],
        line_credit=LineCredit(task) if credit else None,
    )
    return trainer, keep


def train(*given, **changes):
    trainer, keep = build(*given, **changes)
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    return keep.gradients, losses


def difference(one, other):
    assert one.keys() == other.keys()
    error = sum((one[name] - other[name]).square().sum() for name in one).sqrt()
    return float(error / sum(one[name].square().sum() for name in one).sqrt())


@pytest.mark.parametrize("kind", [Plain, Tree])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"scale_rewards": "batch"},
        {"scale_rewards": "none"},
        {"num_iterations": 2, "max_steps": 3},
        {"steps_per_generation": 4, "max_steps": 3},
        *({"loss_type": loss} for loss in ("grpo", "bnpo", "dr_grpo", "cispo", "luspo", "sapo")),
        {"importance_sampling_level": "sequence"},
    ],
    ids=str,
)
def test_where_all_parts_are_worth_the_same_the_objective_is_plain_grpos(tmp_path, model, kind, changes):
    task = EqualParts()
    plain, plain_losses = train(kind, model, tmp_path / "plain", task, credit=False, **changes)
    lines, losses = train(kind, model, tmp_path / "lines", task, **changes)
    for one, other in zip(plain, lines, strict=True):
        assert difference(one, other) < 1e-5
    assert losses == pytest.approx(plain_losses, rel=1e-4, abs=2e-5)  # a sum over tokens, near 0
    assert len(plain) == changes.get("max_steps", 2)


def test_tokens_carry_their_own_parts_advantage_and_wrong_lines_in_good_company_are_pushed_down(tmp_path, model):
    trainer, _ = build(Tree, model, tmp_path, TASK)
    rows = [row for row in trainer.train_dataset for _ in range(GROUP)]
    trainer.model.train()
    made = trainer._generate_and_score_completions(rows)
    advantages = made["advantages"]
    assert advantages.shape == made["completion_ids"].shape
    tokenizer = trainer.processing_class
    for first in range(0, len(rows), GROUP):
        columns = rows[first]
        texts = [written(columns, first + i) for i in range(GROUP)]
        values = [Parts.of(TASK.spans(columns, text), WEIGHTS).values for text in texts]
        expected = part_advantages(values, GROUP)
        for i in range(GROUP):
            ids = made["completion_ids"][first + i].tolist()
            lines = tokenizer.decode(ids, skip_special_tokens=True).split("\n")
            row = advantages[first + i].tolist()
            place = 0
            for name, line in zip(expected[i], lines, strict=True):
                count = len(tokenizer(line, add_special_tokens=False)["input_ids"]) + 1  # its line break, or the end
                assert row[place : place + count] == pytest.approx([expected[i][name]] * count, abs=1e-5)
                place += count


def test_a_gap_in_the_spans_ends_the_run_with_a_sentence(tmp_path, model):
    trainer, _ = build(Plain, model, tmp_path, Gapped())
    with pytest.raises(TaskError, match="leaves a gap after character 0"):
        trainer.train()


def test_a_task_without_parts_is_refused():
    with pytest.raises(ConfigurationError, match="credit = 'line' needs spans"):
        LineCredit(integer_count.TASK)


@pytest.mark.parametrize("changes", [{"loss_type": "vespo"}, {"off_policy_mask_threshold": 0.5}])
def test_losses_that_know_completions_only_are_refused(tmp_path, model, changes):
    with pytest.raises(ConfigurationError, match=next(iter(changes))):
        build(Plain, model, tmp_path, TASK, **changes)


def test_buffered_advantages_of_tokens_survive_a_checkpoint(tmp_path, model):
    changes = {"steps_per_generation": 4, "max_steps": 4, "save_strategy": "steps", "save_steps": 1}
    whole, _ = build(Tree, model, tmp_path, TASK, **changes)
    whole.train()
    again, _ = build(Tree, model, tmp_path, TASK, **changes)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    weights = zip(whole.model.state_dict().values(), again.model.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in weights)
