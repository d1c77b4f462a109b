"""The watchdog inside real runs of a small trainer."""

import json
import time

import pytest
import torch
from datasets import Dataset
from tests.models_for_tests import save_random_qwen3
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from evenhand.errors import RunStopped
from evenhand.models import resolve
from evenhand.runfolder import RunFolder
from evenhand.tasks.stepwise_parity import TASK
from evenhand.training.watchdog import WatchdogCallback, weights_are_finite


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_random_qwen3(tmp_path_factory.mktemp("model"))


def length_reward(completions, **_):
    return [float(len(completion[-1]["content"]) % 7) for completion in completions]


def trainer_for(model, output, reward=length_reward, **changes):
    options = {
        "max_steps": 6,
        "per_device_train_batch_size": 4,
        "num_generations": 4,
        "max_completion_length": 4,
        "learning_rate": 1e-4,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "bf16": False,
        "gradient_checkpointing": False,
        "use_cpu": True,
        "disable_tqdm": True,
    }
    rows = [{"prompt": list(TASK.prompt(columns))} for columns in TASK.draw("dev")[:12]]
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
        reward_funcs=reward,
        args=GRPOConfig(output_dir=str(output), **(options | changes)),
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(model),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def said_in(folder):
    path = folder / "findings.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class BreakWeights(TrainerCallback):
    """Puts a NaN into one weight at the end of a step."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, model=None, **_):
        if state.global_step == self.step:
            with torch.no_grad():
                next(model.parameters())[0, 0] = float("nan")


class InflateWeights(TrainerCallback):
    """As an enormous learning rate does: weights still finite, logits no more. No broken row is ever logged."""

    def on_step_end(self, args, state, control, model=None, **_):
        with torch.no_grad():
            model.model.norm.weight.fill_(3e38)
            model.lm_head.weight.mul_(1e5)


def test_a_sound_run_goes_to_its_end_in_silence(tmp_path):
    """The embedded model, whose completions end by themselves."""
    trainer = trainer_for(resolve("embedded"), tmp_path, max_completion_length=64)
    watchdog = WatchdogCallback().attach(trainer)
    trainer.train()
    assert trainer.state.global_step == 6
    assert watchdog.ended_by is None
    assert said_in(tmp_path) == []


def test_looking_at_every_weight_takes_less_than_a_hundredth_of_a_step():
    """The embedded model's step takes 0.3 s and more; larger models' steps grow with their weights."""
    model = AutoModelForCausalLM.from_pretrained(resolve("embedded"))
    assert weights_are_finite(model)
    start = time.perf_counter()
    for _ in range(20):
        weights_are_finite(model)
    assert (time.perf_counter() - start) / 20 < 0.003


def test_broken_weights_end_the_run_at_their_step_even_between_two_log_rows(tmp_path, model):
    trainer = trainer_for(model, tmp_path, logging_steps=100)
    trainer.add_callback(BreakWeights(2))
    watchdog = WatchdogCallback().attach(trainer)
    trainer.train()
    assert trainer.state.global_step == 2
    assert watchdog.ended_by.code == "weights-are-nan"
    assert ("weights-are-nan", 2) in {(one["code"], one["step"]) for one in said_in(tmp_path)}


def test_no_checkpoint_of_broken_weights_is_saved(tmp_path, model):
    trainer = trainer_for(model, tmp_path)
    trainer.add_callback(BreakWeights(2))
    WatchdogCallback().attach(trainer)
    trainer.train()
    assert not list(tmp_path.glob("checkpoint-*"))


def test_weights_that_are_finite_but_too_large_to_sample_from_are_told_by_what_generation_raises(tmp_path, model):
    trainer = trainer_for(model, tmp_path)
    trainer.add_callback(InflateWeights())
    WatchdogCallback().attach(trainer)
    with pytest.raises(RunStopped, match="logits are NaN"):
        trainer.train()
    assert ("weights-are-nan", 2) in {(one["code"], one["step"]) for one in said_in(tmp_path)}


def test_another_failure_of_a_step_is_left_as_it_is(tmp_path, model):
    def failing_reward(completions, **_):
        raise RuntimeError("the reward's own fault")

    trainer = trainer_for(model, tmp_path, failing_reward)
    WatchdogCallback().attach(trainer)
    with pytest.raises(RuntimeError, match="own fault"):
        trainer.train()
    assert said_in(tmp_path) == []


def test_a_finding_that_it_is_told_to_act_on_saves_a_checkpoint_and_ends_the_run(tmp_path, model):
    """Every completion hits the limit of four tokens and earns nothing."""
    trainer = trainer_for(model, tmp_path, lambda completions, **_: [0.0] * len(completions), max_steps=20)
    watchdog = WatchdogCallback(stop_on=("truncated-before-answer",)).attach(trainer)
    trainer.train()
    ended = watchdog.ended_by
    assert ended is not None
    assert trainer.state.global_step < 20
    assert (tmp_path / f"checkpoint-{trainer.state.global_step}").is_dir()


def test_with_nothing_to_act_on_it_only_warns(tmp_path, model):
    trainer = trainer_for(model, tmp_path, lambda completions, **_: [0.0] * len(completions), max_steps=8)
    heard = []
    WatchdogCallback(stop_on=(), say=heard.append).attach(trainer)
    trainer.train()
    assert trainer.state.global_step == 8
    assert [finding.code for finding in heard] == ["truncated-before-answer"]
    assert heard[0].stage == "training"


def test_in_a_run_folder_it_writes_beside_the_metrics(tmp_path, model):
    folder = RunFolder.create(tmp_path, "t", tmp_path / "run")
    trainer = trainer_for(model, tmp_path / "out")
    trainer.add_callback(BreakWeights(1))
    WatchdogCallback(folder=folder).attach(trainer)
    trainer.train()
    assert "weights-are-nan" in {finding.code for finding in folder.findings()}
