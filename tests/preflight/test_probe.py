"""Three real steps: which share of each parameter group moves, predicted and measured."""

import pytest
import torch

from evenhand.config import draft
from evenhand.preflight.checks.norm_weights_frozen import CHECK as NORM_WEIGHTS_FROZEN
from evenhand.preflight.checks.updates_swallowed import CHECK as UPDATES_SWALLOWED
from evenhand.preflight.setup import Setup
from evenhand.preflight.update_probe import probe_updates, read_answer
from evenhand.training.arguments import resolve
from evenhand.training.probe import asdict, count_stale, half_gap, probe


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


def settings(folder, body="bfloat16", norms="bfloat16", rate=1e-5):
    chosen = {"precision.body": body, "precision.norms": norms, "train.learning_rate": rate}
    return resolve(draft("embedded", {**chosen, "data": str(folder), "device": "cpu"}))


def measured(config):
    updates = read_answer(asdict(probe(config)))
    return updates, {group.name: group for group in updates.groups}


def test_at_1e_6_bf16_swallows_nearly_everything(folder):
    updates, groups = measured(settings(folder, rate=1e-6))
    assert all(group.moved < 0.02 for group in groups.values())
    assert all(group.finite == 1.0 and group.nonzero > 0.99 for group in groups.values())
    found = UPDATES_SWALLOWED.answer(Setup(updates=updates))
    assert found.severity == "stop"
    assert "--set precision" in found.remedy


@pytest.mark.parametrize("rate", [1e-5, 3e-5])
def test_bf16_norms_never_move_and_matrices_move_as_predicted(folder, rate):
    updates, groups = measured(settings(folder, rate=rate))
    assert (groups["norms"].moved, groups["norms"].predicted) == (0.0, 0.0)
    for name in ("attention", "MLP"):
        assert groups[name].moved == pytest.approx(groups[name].predicted, rel=0.25)
        assert groups[name].moved > 0.02
    assert NORM_WEIGHTS_FROZEN.answer(Setup(updates=updates)).severity == "stop"


def test_fp32_norms_move_wholly_in_a_bf16_body(folder):
    updates, groups = measured(settings(folder, norms="float32"))
    assert groups["norms"].moved > 0.995
    assert groups["norms"].predicted == 1.0
    assert NORM_WEIGHTS_FROZEN.answer(Setup(updates=updates)) is None


def test_the_child_process_gives_the_same_shares_and_all_move_in_fp32(folder):
    updates = probe_updates(settings(folder, "float32", "float32", 1e-4))
    assert all(group.moved > 0.99 for group in updates.groups)
    assert (updates.steps, updates.stale, updates.completions) == (3, 0, 32)
    assert UPDATES_SWALLOWED.answer(Setup(updates=updates)).severity == "ok"


@pytest.mark.parametrize(("value", "gap"), [(1.0, 2**-7), (0.5, 2**-8), (1.5, 2**-7), (0.27, 2**-9)])
def test_half_the_gap_of_a_bf16_weight(value, gap):
    assert half_gap(torch.tensor([value, -value], dtype=torch.bfloat16)).tolist() == [gap / 2] * 2


def test_tensors_that_the_model_no_longer_has_are_counted():
    model = torch.nn.Linear(2, 2)
    optimiser = torch.optim.AdamW(model.parameters())
    assert count_stale(optimiser, model) == 0
    model.weight = torch.nn.Parameter(model.weight.detach().bfloat16())
    assert count_stale(optimiser, model) == 1
