"""``explain`` shows the numbers of the installed TRL."""

from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trl import GRPOTrainer
from trl.trainer.utils import nanstd

from evenhand.errors import ConfigurationError
from evenhand.preflight.explanation import NORMALISERS, LossOptions, bar, explain_group

OUTLIER = [-114514, -6, -5, -4, -3, -2, -1, 0]


def test_the_reference_s_outlier_group():
    explained = explain_group(OUTLIER, LossOptions())
    shown = [f"{member.advantage:+.5f}" for member in explained.members]
    assert shown[0].startswith("-2.4749") or shown[0] == "-2.47487"
    assert (shown[1], shown[-1]) == ("+0.35348", "+0.35363")
    assert [member.push for member in explained.members] == ["down", *["up"] * 7]
    assert "nothing about right and wrong" in explained.sentences[0]


def test_four_at_two_and_a_half_and_four_at_one():
    explained = explain_group([2.5] * 4 + [1.0] * 4, LossOptions())
    assert explained.deviation == pytest.approx(0.802, abs=5e-4)
    assert explained.members[0].advantage == pytest.approx(0.935, abs=5e-4)
    assert explained.members[-1].advantage == pytest.approx(-0.935, abs=5e-4)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=12))
def test_a_scaled_group_equals_trl_s_tensor_arithmetic(rewards):
    """TRL's lines: nanmean, nanstd, (r - mean) / (std + 1e-4); in float64, where TRL has float32."""
    values = torch.tensor([rewards], dtype=torch.float64)
    expected = (values - values.nanmean(dim=1, keepdim=True)) / (nanstd(values, dim=1).unsqueeze(1) + 1e-4)
    got = [member.advantage for member in explain_group(rewards, LossOptions()).members]
    assert got == pytest.approx(expected[0].tolist(), abs=1e-6)


@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dapo", "dr_grpo"])
def test_the_printed_loss_is_trl_s(loss_type):
    """TRL's own ``_compute_loss`` at ratio 1 on equally long completions gives minus the mean advantage."""
    explained = explain_group([0.0, 1.0, 2.0, 2.0], LossOptions(loss_type=loss_type))
    advantages = torch.tensor([member.advantage for member in explained.members])
    assert trl_loss(advantages, loss_type) == pytest.approx(explained.to_json()["loss"], abs=1e-6)
    assert trl_loss(advantages[:1], loss_type) == pytest.approx(explained.to_json()["token_loss"][0], abs=1e-6)


def trl_loss(advantages, loss_type, tokens=5):
    """The loss of completions of five tokens each, by TRL's method on a stand-in for its trainer."""
    count = len(advantages)
    probabilities = torch.zeros(count, tokens, requires_grad=True)
    accelerator = SimpleNamespace(
        num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x, sync_gradients=True
    )
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (probabilities, torch.zeros(count, tokens), None),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="token",
        beta=0.0,
        epsilon_low=0.2,
        epsilon_high=0.2,
        loss_type=loss_type,
        args=SimpleNamespace(delta=None, steps_per_generation=1, use_bias_correction_kl=False),
        use_vllm=False,
        model=SimpleNamespace(training=True),
        current_gradient_accumulation_steps=1,
        max_completion_length=tokens,
        accelerator=accelerator,
        _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list)},
    )
    inputs = {
        "prompt_ids": torch.ones(count, 2, dtype=torch.long),
        "prompt_mask": torch.ones(count, 2, dtype=torch.long),
        "completion_ids": torch.ones(count, tokens, dtype=torch.long),
        "completion_mask": torch.ones(count, tokens, dtype=torch.long),
        "advantages": advantages,
        "num_items_in_batch": torch.tensor(float(count * tokens)),
    }
    return GRPOTrainer._compute_loss(trainer, None, inputs).item()


def test_equal_rewards_teach_nothing():
    explained = explain_group([1.0, 1.0], LossOptions())
    assert [member.push for member in explained.members] == ["none", "none"]
    assert "teaches nothing" in explained.sentences[0]


def test_options_are_explained():
    sentences = " ".join(explain_group([0.0, 1.0], LossOptions("none", "dr_grpo", 0.3, 0.04)).sentences)
    for said in ("not divided by anything", "1.3", "0.7", "0.04 × KL", NORMALISERS["dr_grpo"], "Every token"):
        assert said in sentences


@pytest.mark.parametrize(("rewards", "loss"), [([1.0], "dapo"), ([1.0, 2.0], "ppo")])
def test_what_cannot_be_explained_is_refused(rewards, loss):
    with pytest.raises(ConfigurationError):
        explain_group(rewards, LossOptions(loss_type=loss))


def test_bars_point_down_and_up_and_never_vanish():
    assert bar(-2.0, 2.0) == "-" * 24 + "|" + " " * 24
    assert bar(0.001, 2.0).rstrip() == " " * 24 + "|+"
    assert bar(0.0, 0.0).strip() == "|"
