"""A step on the prefix tree is TRL's step in gradient and metrics; what the tree does not know takes TRL's path."""

import copy
import inspect
import logging

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOTrainer

import trainers_for_tests
from evenhand.config import Precision
from evenhand.models.precision import apply_precision
from evenhand.prefixtree import memory
from evenhand.training.trainer import PrefixTreeTrainer, with_merged_micro_batches
from models_for_tests import save_random_qwen3

FP32 = Precision(body="float32", norms="float32")
# Differ between two runs of the same computation, or between paths by design.
TIMES = {"step_time", "rollout_time", "train_runtime", "train_samples_per_second", "train_steps_per_second"}
TIMES |= {"total_flos", "train_loss", "completions_sampled"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_random_qwen3(tmp_path_factory.mktemp("random-qwen3"), seed=5)


def alike(index, end):
    """Completions of a group agree for a while; two are equal, one ends at once."""
    stem = [10 + k % 7 for k in range(6)]
    return [
        [*stem, 20, 21, end],
        [*stem, 20, 21, end],
        [*stem[:3], 25 + index % 3, 26, 27, 28, 29],
        [end],
    ][index % 4]


def apart(index, end):
    """No two completions share a token's place."""
    return [*(30 + (index + 5 * k) % 40 for k in range(3 + index % 4)), end]


class FixedCompletions:
    """Completion i of a generation batch is always the same."""

    write = staticmethod(alike)

    def _generate_single_turn(self, prompt_ids, *_, **__):
        end = self.processing_class.eos_token_id
        return [self.write(index, end) for index in range(len(prompt_ids))], None


class FixedStock(FixedCompletions, GRPOTrainer):
    pass


class FixedTree(FixedCompletions, PrefixTreeTrainer):
    pass


class KeepGradients(TrainerCallback):
    def __init__(self):
        self.steps = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        self.steps.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})


def settings(output, **changes):
    regularised = {"learning_rate": 1e-3, "beta": 0.02, "entropy_coef": 0.01}
    return trainers_for_tests.settings(output, **{**regularised, **changes})


def build(kind, model, output, options=None, precision=FP32, **changes):
    keeper = KeepGradients()
    policy = AutoModelForCausalLM.from_pretrained(model, dtype="float32")
    apply_precision(policy, precision)
    trainer = kind(
        model=policy,
        reward_funcs=lambda completions, **_: [float(i % 3) for i, _ in enumerate(completions)],
        args=settings(output, **changes),
        train_dataset=Dataset.from_list([{"prompt": "Numbers: " + "1 " * i} for i in range(1, 9)]),
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
        callbacks=[keeper],
        **(options or {}),
    )
    return trainer, keeper


def train(kind, model, output, options=None, **changes):
    trainer, keeper = build(kind, model, output, options, **changes)
    trainer.train()
    rows = [row for row in trainer.state.log_history if "loss" in row]
    return trainer, keeper.steps, [{k: v for k, v in row.items() if k not in TIMES} for row in rows]


def relative_error(one, other):
    assert one.keys() == other.keys()
    difference = sum((one[name].float() - other[name].float()).square().sum() for name in one).sqrt()
    return float(difference / sum(one[name].float().square().sum() for name in one).sqrt())


def assert_same_training(stock, tree, tolerance=1e-4):
    _, stock_gradients, stock_rows = stock
    trainer, tree_gradients, tree_rows = tree
    assert len(stock_gradients) == len(tree_gradients) > 0
    for one, other in zip(stock_gradients, tree_gradients, strict=True):
        assert relative_error(one, other) < tolerance
    for one, other in zip(stock_rows, tree_rows, strict=True):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-5)
    assert trainer.tokens_computed["scoring"] > 0, "took TRL's path"
    return trainer


CASES = {
    "plain": {},
    "no reference": {"beta": 0.0},
    "two iterations": {"num_iterations": 2, "max_steps": 3},
    "generation longer than an update": {"steps_per_generation": 4, "max_steps": 3},
    "groups split over micro-batches": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4},
    "gradient checkpointing": {"gradient_checkpointing": True},
    "temperature": {"temperature": 0.7},
    "grpo loss": {"loss_type": "grpo"},
    "sequence ratios": {"importance_sampling_level": "sequence"},
    "truncated completions masked": {"mask_truncated_completions": True},
    "high-entropy tokens only": {"top_entropy_quantile": 0.5},
}


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
def test_a_step_in_the_same_micro_batches_has_trls_gradient_and_metrics(tmp_path, model, changes):
    stock = train(FixedStock, model, tmp_path / "stock", **changes)
    tree = train(FixedTree, model, tmp_path / "tree", {"merge_micro_batches": False}, **changes)
    trainer = assert_same_training(stock, tree)
    assert trainer.tokens_computed["scoring"] < trainer.tokens_computed["scoring_without_sharing"]


def test_completions_that_share_nothing_have_trls_gradient_too(tmp_path, model, monkeypatch):
    monkeypatch.setattr(FixedCompletions, "write", staticmethod(apart))
    stock = train(FixedStock, model, tmp_path / "stock")
    assert_same_training(stock, train(FixedTree, model, tmp_path / "tree", {"merge_micro_batches": False}))


def test_merged_micro_batches_leave_the_gradient_as_it_was_but_for_the_entropy_bonus(tmp_path, model):
    stock = train(FixedStock, model, tmp_path / "stock", entropy_coef=0.0)
    tree = train(FixedTree, model, tmp_path / "tree", entropy_coef=0.0)
    assert relative_error(stock[1][0], tree[1][0]) < 1e-4
    assert tree[0].args.per_device_train_batch_size == 8
    assert tree[0].args.gradient_accumulation_steps == 1


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "dr_grpo", "cispo", "luspo", "sapo"])
@pytest.mark.parametrize("steps_per_generation", [4, 8])
def test_a_window_of_many_distinct_tokens_is_cut_into_parts_and_the_gradient_stays(
    tmp_path, model, monkeypatch, loss_type, steps_per_generation
):
    monkeypatch.setattr(FixedCompletions, "write", staticmethod(apart))
    changes = {
        "loss_type": loss_type,
        "entropy_coef": 0.0,
        "gradient_accumulation_steps": 4,
        "steps_per_generation": steps_per_generation,
        "max_steps": 2,
        "learning_rate": 1e-5,  # so that rounding is not what the second step shows
    }
    stock = train(FixedStock, model, tmp_path / "stock", **changes)
    parts = []
    cut = PrefixTreeTrainer._parts
    monkeypatch.setattr(PrefixTreeTrainer, "_parts", lambda *given: parts.append(cut(*given)) or parts[-1])
    tree = train(FixedTree, model, tmp_path / "tree", **changes)
    for one, other in zip(stock[1], tree[1], strict=True):
        assert relative_error(one, other) < 1e-4
    for one, other in zip(stock[2], tree[2], strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-6)
        assert one["kl"] == pytest.approx(other["kl"], rel=0.05, abs=1e-6)  # logged as a mean of parts
    assert {len(found) for found in parts} == {2}, "whole groups in two halves"
    for part in (part for found in parts for part in found if steps_per_generation == 4):
        assert len({tuple(prompt) for prompt in part["prompt_ids"].tolist()}) == 2
    assert tree[0].args.steps_per_generation == steps_per_generation // 4


def test_a_window_that_shares_much_stays_whole(tmp_path, model, monkeypatch):
    parts = []
    cut = PrefixTreeTrainer._parts
    monkeypatch.setattr(PrefixTreeTrainer, "_parts", lambda *given: parts.append(cut(*given)) or parts[-1])
    train(FixedTree, model, tmp_path)
    assert [len(found) for found in parts] == [1]


def test_what_takes_trls_path_keeps_the_micro_batches_that_were_planned(tmp_path, model, monkeypatch):
    monkeypatch.setattr("evenhand.prefixtree.support.ARCHITECTURES", ("llama",))
    sizes = []
    score = GRPOTrainer._get_per_token_logps_and_entropies

    def watched(self, *arguments, **options):
        if torch.is_grad_enabled():
            sizes.append(len(arguments[1]))
        return score(self, *arguments, **options)

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", watched)
    stock = train(FixedStock, model, tmp_path / "stock")
    expected, sizes[:] = list(sizes), []
    tree = train(FixedTree, model, tmp_path / "tree", entropy_coef=0.01)
    assert sizes == expected == [4, 4]
    assert stock[2][0]["loss"] == pytest.approx(tree[2][0]["loss"], abs=1e-4)


def test_merging_keeps_the_global_batch_and_leaves_bnpo_alone(tmp_path):
    args = settings(tmp_path, per_device_train_batch_size=4, gradient_accumulation_steps=4, steps_per_generation=8)
    merged = with_merged_micro_batches(copy.copy(args))
    assert (merged.per_device_train_batch_size, merged.gradient_accumulation_steps) == (16, 1)
    assert merged.steps_per_generation == 2
    assert merged.generation_batch_size == args.generation_batch_size
    assert args.per_device_train_batch_size == 4, "the caller's own arguments stay"
    for whole in ({"loss_type": "bnpo"}, {"top_entropy_quantile": 0.5}):
        kept = settings(tmp_path, **whole)
        assert with_merged_micro_batches(kept).gradient_accumulation_steps == kept.gradient_accumulation_steps


def test_an_adapter_is_trained_on_the_tree_and_the_reference_is_the_model_without_it(tmp_path, model):
    adapter = {"peft_config": LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)}
    torch.manual_seed(0)
    stock = train(FixedStock, model, tmp_path / "stock", dict(adapter))
    torch.manual_seed(0)
    tree = train(FixedTree, model, tmp_path / "tree", {**adapter, "merge_micro_batches": False})
    assert_same_training(stock, tree)
    assert all("lora" in name for name in tree[1][0])


@pytest.mark.parametrize("norms", ["bfloat16", "float32"])
def test_in_bf16_the_tree_is_as_near_to_fp32_as_trls_own_path(tmp_path, norms):
    precision = Precision(body="bfloat16", norms=norms)
    plain_error, tree_error = 0.0, 0.0
    for seed in range(4):  # one model's ratio of rounding errors varies by a quarter
        model = save_random_qwen3(tmp_path / f"model-{seed}", seed=seed)
        exact = train(FixedStock, model, tmp_path)[1][0]
        plain = train(FixedStock, model, tmp_path, precision=precision)[1][0]
        tree = train(FixedTree, model, tmp_path, {"merge_micro_batches": False}, precision=precision)[1][0]
        plain_error += relative_error(exact, plain)
        tree_error += relative_error(exact, tree)
    assert tree_error < 1.2 * plain_error


def test_rollouts_repeat_with_the_seed_and_fill_whole_batches(tmp_path, model):
    rows = [train(PrefixTreeTrainer, model, tmp_path / str(i), max_steps=2, learning_rate=1e-2)[2] for i in range(2)]
    assert rows[0] == rows[1]
    trainer, _, _ = train(PrefixTreeTrainer, model, tmp_path / "once")
    assert trainer.tokens_computed["rollout"] > 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"generation_kwargs": {"no_repeat_ngram_size": 2}}, "no_repeat_ngram_size"),
        ({"max_completion_length": 100_000}, "context"),
    ],
)
def test_what_the_rollout_does_not_know_is_trls_and_said_once(tmp_path, model, caplog, changes, reason):
    trainer, _ = build(PrefixTreeTrainer, model, tmp_path, **changes)
    ids = [[5, 6, 7]] * 4
    decoding = trainer._decoding(ids, None, {})
    assert isinstance(decoding, str)
    assert reason in decoding
    with caplog.at_level(logging.WARNING):
        trainer._say("rollout", decoding)
        trainer._say("rollout", decoding)
    assert sum(reason in record.message for record in caplog.records) == 1


def test_another_architecture_trains_on_trls_path_and_says_so(tmp_path, model, caplog, monkeypatch):
    monkeypatch.setattr("evenhand.prefixtree.support.ARCHITECTURES", ("llama",))
    stock = train(FixedStock, model, tmp_path / "stock")
    with caplog.at_level(logging.WARNING):
        trainer, gradients, _ = train(FixedTree, model, tmp_path / "tree", {"merge_micro_batches": False})
    assert relative_error(stock[1][0], gradients[0]) == 0
    assert not trainer.tokens_computed
    assert sum("qwen3 has not been tested" in record.message for record in caplog.records) == 1


def test_dropout_keeps_trls_path(tmp_path, model, caplog):
    adapter = {"peft_config": LoraConfig(r=4, target_modules=["q_proj"], lora_dropout=0.1)}
    with caplog.at_level(logging.WARNING):
        trainer, _, _ = train(FixedTree, model, tmp_path, adapter)
    assert not trainer.tokens_computed["scoring"]
    assert any("dropout" in record.message for record in caplog.records)


def test_out_of_memory_tries_less_at_once_says_so_and_keeps_the_gradient(tmp_path, model, caplog, monkeypatch):
    stock = train(FixedStock, model, tmp_path / "stock", entropy_coef=0.0)
    score, failures = memory.score, iter([True, True])

    def failing(*arguments, **options):
        if torch.is_grad_enabled() and next(failures, False):
            raise torch.OutOfMemoryError("no memory")
        return score(*arguments, **options)

    monkeypatch.setattr(memory, "score", failing)
    monkeypatch.setattr(memory, "SMALLEST_PACK", 8)
    with caplog.at_level(logging.WARNING):
        trainer, gradients, _ = train(FixedTree, model, tmp_path / "tree", entropy_coef=0.0)
    assert relative_error(stock[1][0], gradients[0]) < 1e-4
    assert trainer._frugality.recompute
    assert trainer._frugality.token_budget < memory.TOKEN_BUDGET
    assert sum("out of memory" in record.message for record in caplog.records) == 2


def test_memory_that_runs_out_in_the_backward_pass_repeats_the_step_on_the_same_completions(
    tmp_path, model, monkeypatch
):
    stock = train(FixedStock, model, tmp_path / "stock", entropy_coef=0.0)
    trainer, keeper = build(FixedTree, model, tmp_path / "tree", entropy_coef=0.0)
    backward, failures = trainer.accelerator.backward, iter([True])

    def failing(loss, **options):
        backward(loss, **options)
        if next(failures, False):
            raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(trainer.accelerator, "backward", failing)
    trainer.train()
    assert relative_error(stock[1][0], keeper.steps[0]) < 1e-4
    assert trainer._frugality.recompute


@pytest.mark.parametrize(
    ("method", "names"),
    [
        (
            "_get_per_token_logps_and_entropies",
            [
                "model",
                "input_ids",
                "attention_mask",
                "logits_to_keep",
                "batch_size",
                "compute_entropy",
                "compute_aux_loss",
            ],
        ),
        ("_generate_single_turn", ["prompt_ids", "images", "multimodal_fields"]),
        ("_generate_and_score_completions", ["inputs"]),
        ("_prepare_inputs", ["generation_batch"]),
        ("training_step", ["model", "inputs", "num_items_in_batch"]),
        ("compute_loss", ["model", "inputs", "return_outputs", "num_items_in_batch"]),
        ("_compute_loss", ["model", "inputs"]),
        ("_calculate_rewards", ["inputs", "prompts", "completions", "completion_ids_list"]),
        ("log", ["logs", "start_time"]),
    ],
)
def test_the_overridden_methods_of_trl_take_what_they_took(method, names):
    parameters = list(inspect.signature(getattr(GRPOTrainer, method)).parameters)[1:]
    if method == "_get_per_token_logps_and_entropies" and "args" in parameters:  # TRL 1.14 passes them on
        parameters = ["model", *list(inspect.signature(GRPOTrainer._full_logits_logps).parameters)[2:]]
    assert [name for name in parameters if name in names] == names
    seams = {"_get_per_token_logps_and_entropies": "_log_probabilities"}  # the first hands on to the second
    ours = list(inspect.signature(getattr(PrefixTreeTrainer, seams.get(method, method))).parameters)[1:]
    assert ours[: len(names)] == names
