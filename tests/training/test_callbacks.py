"""Three lines in anybody's TRL script write a run folder that everything else here can read."""

import pytest
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from evenhand import RunFolder, RunFolderCallback
from models_for_tests import save_random_qwen3

SCRIPT_STEPS = 3


def vowels(completions, **_):
    return [float(sum(letter in "aeiou" for letter in text)) for text in completions]


def length(completions, **_):
    return [float(len(text)) for text in completions]


def own_script(model, output, **arguments):
    args = GRPOConfig(
        output_dir=str(output), max_steps=SCRIPT_STEPS, save_steps=2, logging_steps=1, num_generations=2,
        per_device_train_batch_size=4, max_completion_length=6, reward_weights=[1.0, 0.5], bf16=False, use_cpu=True,
        gradient_checkpointing=False, report_to="none", **arguments,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype="float32"),
        reward_funcs=[vowels, length],
        args=args,
        train_dataset=Dataset.from_list([{"prompt": f"Numbers: {i}"} for i in range(6)]),
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
    )
    callback = RunFolderCallback(trainer)
    trainer.add_callback(callback)
    trainer.train()
    return trainer, callback.folder


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return save_random_qwen3(tmp_path / "model")


def test_a_stock_trainer_leaves_a_run_folder(tmp_path, model):
    trainer, folder = own_script(model, tmp_path / "output")
    assert folder.path.parent == RunFolder.open(folder.path).path.parent
    logged = [row for row in trainer.state.log_history if "loss" in row]
    assert [row.values["loss"] for row in folder.metrics()] == [row["loss"] for row in logged]
    assert folder.read_json("status.json")["state"] == "finished"
    assert [checkpoint.step for checkpoint in folder.checkpoints()] == [2, 3]
    assert folder.read_json("trainer_state.json")["global_step"] == SCRIPT_STEPS


def test_every_completion_can_be_followed_from_its_reward_to_its_text(tmp_path, model):
    _, folder = own_script(model, tmp_path / "output")
    for step in range(1, SCRIPT_STEPS + 1):
        rows = list(folder.completions(step))
        assert [row["group"] for row in rows] == [0, 0, 1, 1]
        for row in rows:
            assert row["rewards"] == {"vowels": vowels([row["text"]])[0], "length": length([row["text"]])[0]}
            assert row["reward"] == pytest.approx(row["rewards"]["vowels"] + 0.5 * row["rewards"]["length"])
        assert sum(row["advantage"] for row in rows) == pytest.approx(0.0, abs=1e-4)
        mean = sum(row["reward"] for row in rows) / len(rows)
        assert folder.metrics()[step - 1].values["reward"] == pytest.approx(mean, rel=1e-5)


def test_a_step_of_several_rollouts_keeps_all_of_them(tmp_path, model):
    _, folder = own_script(model, tmp_path / "output", gradient_accumulation_steps=2, steps_per_generation=1)
    assert [row["group"] for row in folder.completions(1)] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_completions_are_written_once_a_rollout(tmp_path, model):
    _, folder = own_script(model, tmp_path / "output", num_iterations=2)
    assert sorted({row["step"] for row in folder.completions()}) == [1, 3]
