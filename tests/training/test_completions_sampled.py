"""Every log row counts the completions drawn since the run began, further rounds included."""

from types import SimpleNamespace

import pytest

from evenhand.config import RunConfig
from evenhand.errors import ConfigurationError
from evenhand.training import run
from evenhand.training.trainer import PrefixTreeTrainer, ResumableTrainer
from models_for_tests import save_random_qwen3
from trainers_for_tests import Written, build, even_ones_vary, number_of, prompt


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_random_qwen3(tmp_path_factory.mktemp("random-qwen3"), seed=5)


class Plain(Written, ResumableTrainer):
    pass


def rollout(model, output, *numbers, resample, data=range(1, 9), **options):
    """A trainer after one rollout of those prompts, and what it would train on."""
    trainer = build(Plain, model, output, even_ones_vary, data, {"resample": resample, **options})
    trainer.model.train()
    return trainer, trainer._generate_and_score_completions([{"prompt": prompt(n)} for n in numbers for _ in range(4)])


def counts(kind, model, output, resume_from=None, **changes):
    changes = {"save_strategy": "steps", "save_steps": 1, "max_completion_length": 4, **changes}
    trainer = build(kind, model, output, even_ones_vary, range(1, 30), **changes)
    trainer.train(resume_from_checkpoint=resume_from)
    return [row["completions_sampled"] for row in trainer.state.log_history if "loss" in row]


@pytest.mark.parametrize("kind", [ResumableTrainer, PrefixTreeTrainer])
def test_rows_of_steps_without_a_rollout_have_the_count_too_also_after_a_resume(tmp_path, model, kind):
    changes = {"num_iterations": 2, "max_steps": 5}
    assert counts(kind, model, tmp_path, **changes) == [8, 8, 16, 16, 24]
    assert counts(kind, model, tmp_path, str(tmp_path / "checkpoint-3"), **changes) == [8, 8, 16, 16, 24]


def test_an_evaluation_draws_nothing_that_counts(tmp_path, model):
    trainer = build(Plain, model, tmp_path, even_ones_vary)
    trainer.model.eval()
    trainer._generate_and_score_completions([{"prompt": prompt(2)} for _ in range(4)])
    assert trainer.completions_sampled == 0


def test_a_batch_whose_groups_all_vary_draws_no_others(tmp_path, model):
    trainer, _ = rollout(model, tmp_path, 2, 4, resample=8)
    assert trainer.completions_sampled == 8


def test_a_round_draws_as_many_groups_as_are_wanted_until_prompts_run_out(tmp_path, model):
    trainer, made = rollout(model, tmp_path, 1, 3, resample=2, data=range(1, 40, 2))
    assert trainer.completions_sampled == 8 * 3
    assert not made["advantages"].any()
    assert [number_of(text) for text in trainer._logs["prompt"]] == [1] * 4 + [3] * 4, "what has no spread stays"
    trainer, _ = rollout(model, tmp_path, 1, 3, resample=9, data=[1, 3, 5, 7, 7, 5])
    assert trainer.completions_sampled == 8 + 8, "a prompt is drawn once"
    trainer, _ = rollout(model, tmp_path, 1, 2, resample=9, data=[1, 2, 2, 1])
    assert trainer.completions_sampled == 8, "prompts of the batch are not drawn"


def test_the_table_of_completions_is_what_is_trained_on_in_every_column(tmp_path, model):
    trainer, made = rollout(model, tmp_path, 3, 2, resample=8)
    logs, tokenizer = trainer._logs, trainer.processing_class
    written = [ids[mask.bool()] for ids, mask in zip(made["completion_ids"], made["completion_mask"], strict=True)]
    assert list(logs["completion"]) == tokenizer.batch_decode(written, skip_special_tokens=True)
    assert list(logs["advantages"]) == pytest.approx(made["advantages"].tolist())
    assert list(logs["rewards"]["even_ones_vary"]) == [0.0, 1.0, 2.0, 3.0] * 2
    assert list(logs["extra"]["number"]) == [number_of(text) for text in logs["prompt"]]


def test_advantages_of_tokens_are_those_of_the_groups_that_came_in(tmp_path, model):
    class OfEveryToken:
        def check(self, trainer):
            pass

        def token_advantages(self, trainer, inputs, made):
            return made["advantages"][:, None].repeat(1, made["completion_ids"].shape[1])

    _, plain = rollout(model, tmp_path, 3, 2, resample=8)
    _, made = rollout(model, tmp_path, 3, 2, resample=8, line_credit=OfEveryToken())
    assert made["advantages"].shape == made["completion_ids"].shape
    assert made["advantages"][:, 0].tolist() == pytest.approx(plain["advantages"].tolist())


def test_log_rows_say_what_share_without_spread_was_left_to_train_on(tmp_path, model):
    trainer, _ = rollout(model, tmp_path, 3, 2, resample=8)
    logged = trainer._metrics["train"]
    assert (logged["frac_reward_zero_std"], logged["frac_trained_zero_std"]) == ([0.5], [0.0])
    trainer, _ = rollout(model, tmp_path, 1, 3, resample=1, data=range(1, 40, 2))
    assert trainer._metrics["train"]["frac_trained_zero_std"] == [1.0]
    trainer, _ = rollout(model, tmp_path, 3, 2, resample=0)
    assert "frac_trained_zero_std" not in trainer._metrics["train"]


# -- bad input -------------------------------------------------------------------------------------------------------


def test_several_processes_are_refused_before_the_model_is_looked_for(monkeypatch):
    monkeypatch.setattr(run, "PartialState", lambda: SimpleNamespace(num_processes=2))
    with pytest.raises(ConfigurationError, match="one process only"):
        run.check_names(RunConfig(resample=1, model="no such model"))


def test_a_negative_number_of_rounds_is_refused():
    with pytest.raises(ValueError, match="resample"):
        RunConfig(resample=-1)
