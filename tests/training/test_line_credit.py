"""Line credit in TRL's loss: plain GRPO where all parts are worth the same, each part its own advantage elsewhere."""

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig

from evenhand.config import draft
from evenhand.credit import Parts, part_advantages
from evenhand.errors import ConfigurationError, TaskError
from evenhand.rewards import Grader, text_of
from evenhand.tasks import Span, integer_count
from evenhand.tasks.stepwise_parity import StepwiseParity
from evenhand.training.arguments import resolve
from evenhand.training.callbacks import sampled_completions
from evenhand.training.effective import settle
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


def build(kind, model, output, task, credit=True, rewards=None, **changes):
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
        reward_funcs=rewards or Grader(task).reward_functions(),
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


def test_a_gap_in_the_spans_is_refused_before_training(tmp_path, model):
    with pytest.raises(TaskError, match="leaves a gap after character 0"):
        build(Plain, model, tmp_path, Gapped())


def test_a_gap_in_a_sampled_text_ends_the_run_with_a_sentence(tmp_path, model):
    task = StepwiseParity()
    trainer, _ = build(Plain, model, tmp_path, task)
    task.spans = Gapped().spans  # it fits every text that was tried
    with pytest.raises(TaskError, match="leaves a gap after character 0"):
        trainer.train()


def test_a_task_without_parts_is_refused():
    with pytest.raises(ConfigurationError, match="credit = 'line' needs spans"):
        LineCredit(integer_count.TASK)


REFUSED = [
    {"loss_type": "vespo"},
    {"off_policy_mask_threshold": 0.5},
    {"importance_sampling_level": "sequence"},
    {"multi_objective_aggregation": "normalize_then_sum"},
]


@pytest.mark.parametrize("changes", REFUSED, ids=str)
def test_losses_that_know_completions_only_are_refused(tmp_path, model, changes):
    with pytest.raises(ConfigurationError, match=next(iter(changes))):
        build(Plain, model, tmp_path, TASK, **changes)


@pytest.mark.parametrize(
    ("overrides", "what"),
    [*((changes, next(iter(changes))) for changes in REFUSED), ({"task": "integer-count"}, "has none")],
    ids=str,
)
def test_a_configuration_that_cannot_have_it_is_refused_before_a_model_is_looked_for(overrides, what):
    drafted = draft(None, {"credit": "line", "model": "nowhere", **overrides})
    with pytest.raises(ConfigurationError, match=what):
        resolve(drafted)
    assert what in settle(drafted).refused, "preflight says it"


def test_rewards_that_are_not_the_task_s_are_refused(tmp_path, model):
    def foreign(completions, **_):
        return [0.0 for _ in completions]

    with pytest.raises(ConfigurationError, match="uses none of them"):
        build(Plain, model, tmp_path, TASK, rewards=[foreign], reward_weights=None)


class Parsed(Plain):
    """As where a chat template's parser takes away what stands before the answer."""

    seen = staticmethod(lambda text: text.removeprefix("1: odd\n"))

    def _generate_single_turn(self, *arguments, **options):
        made, other = super()._generate_single_turn(*arguments, **options)
        before = self.processing_class("1: odd\n", add_special_tokens=False)["input_ids"]
        return [[*before, *ids] for ids in made], other

    def _calculate_rewards(self, inputs, prompts, completions, ids):
        parsed = [[{"role": "assistant", "content": self.seen(text_of(one))}] for one in completions]
        return super()._calculate_rewards(inputs, prompts, parsed, ids)


def batch(trainer):
    """The rows of one generation batch."""
    return [trainer.train_dataset[i] for i in range(4) for _ in range(GROUP)]


def sampled(kind, model, output):
    trainer, _ = build(kind, model, output, TASK)
    trainer.model.train()
    return trainer, trainer._generate_and_score_completions(batch(trainer))


def test_the_text_that_rewards_saw_is_found_in_what_was_sampled(tmp_path, model):
    _, plain = sampled(Plain, model, tmp_path)
    trainer, parsed = sampled(Parsed, model, tmp_path)
    before = len(trainer.processing_class("1: odd\n", add_special_tokens=False)["input_ids"])
    assert torch.equal(parsed["advantages"][:, before:], plain["advantages"])
    wholes = torch.tensor(list(trainer._logs["advantages"]))
    torch.testing.assert_close(parsed["advantages"][:, :before], wholes[:, None].expand(-1, before))


def test_a_text_that_was_not_sampled_is_refused(tmp_path, model):
    class Rewritten(Parsed):
        seen = staticmethod(str.upper)

    with pytest.raises(ConfigurationError, match="finds no tokens for '1: ODD"):
        sampled(Rewritten, model, tmp_path)


def test_the_table_of_completions_tells_every_part_s_advantage(tmp_path, model):
    trainer, made = sampled(Plain, model, tmp_path)
    rows = sampled_completions(trainer, step=1)
    assert [list(row.line_advantages) for row in rows] == [[*(f"line {i}" for i in range(1, 11)), "answer"]] * 16
    last = made["completion_mask"].sum(dim=1) - 1
    ends = made["advantages"].gather(1, last[:, None]).squeeze(1).tolist()
    assert [row.line_advantages["answer"] for row in rows] == pytest.approx(ends)
    plain, _ = build(Plain, model, tmp_path, TASK, credit=False)
    plain.model.train()
    plain._generate_and_score_completions(batch(plain))
    assert not any(row.line_advantages for row in sampled_completions(plain, step=1))


def test_buffered_advantages_of_tokens_survive_a_checkpoint(tmp_path, model):
    changes = {"steps_per_generation": 4, "max_steps": 4, "save_strategy": "steps", "save_steps": 1}
    whole, _ = build(Tree, model, tmp_path, TASK, **changes)
    whole.train()
    again, _ = build(Tree, model, tmp_path, TASK, **changes)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    weights = zip(whole.model.state_dict().values(), again.model.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in weights)
