"""The supervised loss: the same value and the same gradients on the prefix tree as on the plain path."""

import random

import pytest
import torch
from torch.nn.functional import cross_entropy

from evenhand.config import RunConfig
from evenhand.errors import RunStopped
from evenhand.models import resolve
from evenhand.models.loading import load
from evenhand.prefixtree.support import differs
from evenhand.tasks.stepwise_parity import TASK
from evenhand.training.coldstart.examples import encode
from evenhand.training.coldstart.run import training_arguments
from evenhand.training.coldstart.trainer import SupervisedTrainer, collate, plain_loss
from models_for_tests import save_random_qwen3


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return load(save_random_qwen3(tmp_path_factory.mktemp("random")))


@pytest.fixture(scope="module")
def batch(loaded):
    generator = random.Random(5)
    return collate(encode(TASK, [TASK.problem(i, TASK.fresh(generator)) for i in range(6)], loaded.tokenizer))["batch"]


def trainer_of(loaded, tmp_path, on_tree=True):
    config = RunConfig(device="cpu")
    return SupervisedTrainer(loaded, training_arguments(config, tmp_path, 1), [], on_tree)


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: weights.grad.clone() for name, weights in model.named_parameters()}


def test_loss_and_gradients_are_those_of_the_plain_path(loaded, batch, tmp_path):
    model, trainer = loaded.model, trainer_of(loaded, tmp_path)
    assert differs(model) is None
    on_tree = trainer.compute_loss(model, {"batch": batch})
    plain = plain_loss(model, batch, torch.device("cpu"))
    assert on_tree.item() == pytest.approx(plain.item(), rel=1e-6)
    expected = gradients(model, plain)
    for name, gradient in gradients(model, trainer.compute_loss(model, {"batch": batch})).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-7)


def test_the_plain_loss_is_the_mean_over_completion_tokens_row_by_row(loaded, batch):
    total, count = 0.0, 0
    for prompt, completion in zip(batch.prompts, batch.completions, strict=True):
        logits = loaded.model(input_ids=torch.tensor([prompt + completion])).logits[0]
        total += cross_entropy(logits[len(prompt) - 1 : -1], torch.tensor(completion), reduction="sum").item()
        count += len(completion)
    assert plain_loss(loaded.model, batch, torch.device("cpu")).item() == pytest.approx(total / count, rel=1e-5)


def test_the_shared_prompt_is_computed_once(loaded, batch, tmp_path):
    trainer = trainer_of(loaded, tmp_path)
    trainer.compute_loss(loaded.model, {"batch": batch})
    row = {name: values[-1] for name, values in trainer._metrics["train"].items()}
    assert row["examples"] == 6
    assert row["tokens_without_sharing"] == batch.positions()
    shared = next(place for place, ids in enumerate(zip(*batch.prompts, strict=False)) if len(set(ids)) > 1)
    assert shared > 100
    assert row["tokens_computed"] <= batch.positions() - 5 * shared


def test_the_plain_engine_shares_nothing(loaded, batch, tmp_path):
    trainer = trainer_of(loaded, tmp_path, on_tree=False)
    trainer.compute_loss(loaded.model, {"batch": batch})
    assert trainer._metrics["train"]["tokens_computed"] == [batch.positions()]


def test_a_model_that_the_tree_refuses_takes_the_plain_path_and_says_so(loaded, batch, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("evenhand.training.coldstart.trainer.refusal", lambda model: "of a trial")
    trainer = trainer_of(loaded, tmp_path)
    for _ in range(2):
        trainer.compute_loss(loaded.model, {"batch": batch})
    assert [record.message for record in caplog.records].count(
        "Prefix tree: the cold start takes the plain path, because of a trial."
    ) == 1
    assert trainer._metrics["train"]["tokens_computed"] == [batch.positions()] * 2


def test_a_loss_that_is_no_number_ends_the_run(batch, tmp_path):
    spoilt = load(resolve("embedded"))
    with torch.no_grad():
        spoilt.model.model.norm.weight.fill_(torch.nan)
    with pytest.raises(RunStopped, match="step 1 is nan"):
        trainer_of(spoilt, tmp_path).compute_loss(spoilt.model, {"batch": batch})


def test_a_step_that_runs_out_of_memory_is_made_again_with_less_at_a_time(loaded, batch, tmp_path, monkeypatch):
    trainer = trainer_of(loaded, tmp_path)
    backward, tried = trainer.accelerator.backward, []

    def scarce(loss, **options):
        tried.append(loss.item())
        if len(tried) == 1:
            raise torch.OutOfMemoryError("a trial")
        backward(loss, **options)

    monkeypatch.setattr(trainer.accelerator, "backward", scarce)
    trainer.current_gradient_accumulation_steps = 1
    loss = trainer.training_step(loaded.model, {"batch": batch})
    assert tried == pytest.approx([loss.item()] * 2)
    assert trainer._frugality.recompute
    assert len(trainer._metrics["train"]["step_time"]) == 1
