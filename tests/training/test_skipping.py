"""Completions without a gradient are left out of an update's passes, and nothing else changes."""

import pytest
import torch
from peft import LoraConfig
from trl import GRPOTrainer

from evenhand.training import trainer as trainers
from evenhand.training.skipping import Taught, taught_rows
from evenhand.training.trainer import PrefixTreeTrainer, ResumableTrainer
from models_for_tests import save_random_qwen3
from trainers_for_tests import KeepGradients, Written, build

LOSSES = ["dapo", "grpo", "bnpo", "dr_grpo", "cispo", "luspo"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_random_qwen3(tmp_path_factory.mktemp("random-qwen3"), seed=5)


class Stock(Written, GRPOTrainer):
    pass


class Plain(Written, ResumableTrainer):
    pass


class Tree(Written, PrefixTreeTrainer):
    pass


def half_alike(completions, **_):
    """The completions of a rollout's first group are all paid alike."""
    return [1.0 if row < 4 else float(row % 3) for row, _ in enumerate(completions)]


def gradients(kind, model, output, reward=half_alike, **changes):
    keeper = KeepGradients()
    changes = {"optim": "sgd", "learning_rate": 1e-2, **changes}  # Adam would make rounding large
    trainer = build(kind, model, output, reward, options={"callbacks": [keeper]}, **changes)
    trainer.train()
    return keeper.steps, trainer


@pytest.fixture
def without_skipping(monkeypatch):
    """A way to train without it."""

    def train(*arguments, **options):
        with monkeypatch.context() as patched:
            patched.setattr(trainers, "taught_rows", lambda *_: None)
            return gradients(*arguments, **options)

    return train


def relative_error(one, other):
    assert one.keys() == other.keys()
    difference = sum((one[name] - other[name]).square().sum() for name in one).sqrt()
    return float(difference / sum(one[name].square().sum() for name in one).sqrt())


# -- gradients -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Plain, Tree])
@pytest.mark.parametrize("loss_type", LOSSES)
def test_the_gradient_is_that_of_all_completions(tmp_path, model, without_skipping, kind, loss_type):
    changes = {"loss_type": loss_type, "num_iterations": 2, "max_steps": 3}
    expected, _ = without_skipping(kind, model, tmp_path / "all", **changes)
    found, trainer = gradients(kind, model, tmp_path / "skipping", **changes)
    assert len(found) == len(expected) == 3
    for one, other in zip(expected, found, strict=True):
        assert all(gradient.abs().max() > 0 for gradient in one.values())
        assert relative_error(one, other) < 1e-6
    assert kind is Plain or trainer.tokens_computed["scoring"] > 0


def test_the_gradient_and_the_metrics_are_trls(tmp_path, model):
    (expected,), stock = gradients(Stock, model, tmp_path / "stock")
    (found,), plain = gradients(Plain, model, tmp_path / "plain")
    assert relative_error(expected, found) < 1e-6
    ours, theirs = plain.state.log_history[0], stock.state.log_history[0]
    own = {"rollout_time", "step_time", "entropy", "completions_sampled"}
    assert {name: ours[name] for name in ours.keys() - own} == pytest.approx(
        {name: theirs[name] for name in theirs.keys() - own}, rel=1e-5, abs=1e-6
    )


@pytest.mark.parametrize("kind", [Plain, Tree])
def test_without_any_spread_momentum_and_decay_move_the_weights_as_without_skipping(
    tmp_path, model, without_skipping, kind
):
    def first_step_only():
        calls = []

        def reward(completions, **_):
            calls.append(len(completions))
            return [float(i % 4) if len(calls) == 1 else 1.0 for i, _ in enumerate(completions)]  # none at the mean

        return reward

    changes = {"optim": "adamw_torch", "weight_decay": 0.1, "max_steps": 3}
    _, everything = without_skipping(kind, model, tmp_path / "all", first_step_only(), **changes)
    found, skipping = gradients(kind, model, tmp_path / "skipping", first_step_only(), **changes)
    for one, other in zip(everything.model.parameters(), skipping.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)
    assert [any(gradient.abs().max() > 0 for gradient in step.values()) for step in found] == [True, False, False]
    assert found[0].keys() == found[2].keys(), "gradients are there, as zeros"


def test_the_last_steps_of_a_run_without_spread_are_trls_own(tmp_path, model):
    constant = {"reward": lambda completions, **_: [1.0] * len(completions), "optim": "adamw_torch", "max_steps": 2}
    _, stock = gradients(Stock, model, tmp_path / "stock", weight_decay=0.1, **constant)
    _, plain = gradients(Plain, model, tmp_path / "plain", weight_decay=0.1, **constant)
    for one, other in zip(stock.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(one, other)


# -- what is left out ------------------------------------------------------------------------------------------------


def positions(trainer):
    return trainer.tokens_computed["scoring_without_sharing"]


def test_the_tree_computes_less(tmp_path, model, without_skipping):
    _, everything = without_skipping(Tree, model, tmp_path / "all", max_steps=4)
    _, skipping = gradients(Tree, model, tmp_path / "skipping", max_steps=4)
    assert positions(skipping) < 0.8 * positions(everything)
    assert skipping.tokens_computed["scoring"] < everything.tokens_computed["scoring"]


@pytest.mark.parametrize(
    "changes",
    [{"beta": 0.02}, {"entropy_coef": 0.01}, {"top_entropy_quantile": 0.5}, {"off_policy_mask_threshold": 0.5}],
    ids=lambda changes: next(iter(changes)),
)
def test_with_another_term_in_the_loss_nothing_is_left_out(tmp_path, model, without_skipping, changes):
    _, everything = without_skipping(Tree, model, tmp_path / "all", **changes)
    _, skipping = gradients(Tree, model, tmp_path / "skipping", **changes)
    assert positions(skipping) == positions(everything) > 0


def test_dropout_and_images_keep_all_completions(tmp_path, model):
    inputs = micro_batch([0.0, 1.0])
    trainer = build(Plain, model, tmp_path, half_alike)
    trainer.model.train()
    assert taught_rows(trainer, inputs) is not None
    assert taught_rows(trainer, {**inputs, "num_images": [1, 1]}) is None
    adapter = {"peft_config": LoraConfig(r=4, target_modules=["q_proj"], lora_dropout=0.1)}
    dropping = build(Plain, model, tmp_path, half_alike, options=adapter)
    dropping.model.train()
    assert taught_rows(dropping, inputs) is None


# -- rows ------------------------------------------------------------------------------------------------------------


def micro_batch(advantages, lengths=(3, 2), **more):
    width = max(lengths)
    mask = torch.tensor([[1] * length + [0] * (width - length) for length in lengths])
    held = {"prompt_mask": torch.ones(len(lengths), 2, dtype=torch.long), "completion_mask": mask}
    return {**held, "advantages": torch.tensor(advantages), **more}


def test_rows_with_an_advantage_are_kept():
    assert Taught.of(micro_batch([0.5, -0.5])) is None
    assert Taught.of(micro_batch([0.0, -0.5])).rows.tolist() == [1]
    per_token = [[0.0, 0.0, 0.0], [0.0, 0.3, 0.0], [0.0, 0.0, 0.3]]
    assert Taught.of(micro_batch(per_token, (3, 2, 2))).rows.tolist() == [1], "the third one's stands behind its end"


def test_a_completion_that_is_masked_has_no_gradient_and_what_tools_wrote_has_none():
    assert Taught.of(micro_batch([0.5, 0.5], (3, 0))).rows.tolist() == [0]
    tools = torch.tensor([[1, 1, 1], [0, 0, 1]])
    assert Taught.of(micro_batch([0.5, 0.5], tool_mask=tools)).rows.tolist() == [0]


@pytest.mark.parametrize(("lengths", "kept"), [((3, 2, 4), 1), ((3, 0, 2), 2), ((0, 0, 0), 0)])
def test_where_no_row_has_an_advantage_the_shortest_with_a_token_stays(lengths, kept):
    assert Taught.of(micro_batch([0.0, 0.0, 0.0], lengths)).rows.tolist() == [kept]


def test_a_row_left_out_has_the_old_log_probabilities_and_the_mean_entropy():
    old = torch.tensor([[-1.0, -2.0, -3.0], [-4.0, -5.0, 0.0]])
    taught = Taught.of(micro_batch([0.0, 1.0], old_per_token_logps=old))
    computed = torch.tensor([[-4.5, -5.5, -9.0]], requires_grad=True)
    filled = taught.log_probabilities(computed)
    assert filled.tolist() == [[-1.0, -2.0, -3.0], [-4.5, -5.5, -9.0]]
    filled.sum().backward()
    assert computed.grad.tolist() == [[1.0, 1.0, 1.0]]
    assert taught.entropies(torch.tensor([[1.0, 2.0, 9.0]])).tolist() == [[1.5, 1.5, 1.5], [1.0, 2.0, 9.0]]
    on_policy = Taught.of(micro_batch([0.0, 1.0]))
    assert on_policy.log_probabilities(computed)[0].tolist() == [0.0, 0.0, 0.0]
