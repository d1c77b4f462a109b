"""Groups without spread make room for groups of fresh prompts, reproducibly, and every completion drawn is counted."""

from collections import defaultdict, deque
from types import SimpleNamespace

import pytest
import torch

from evenhand.config import RunConfig, draft
from evenhand.errors import ConfigurationError
from evenhand.training import run
from evenhand.training.arguments import resolve
from evenhand.training.resampling import Table, check_trainer, spliced
from evenhand.training.trainer import PrefixTreeTrainer, ResumableTrainer
from models_for_tests import save_random_qwen3
from trainers_for_tests import Written, build, even_ones_vary, number_of, prompt

TIMES = {"step_time", "rollout_time"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_random_qwen3(tmp_path_factory.mktemp("random-qwen3"), seed=5)


class Plain(Written, ResumableTrainer):
    pass


class Tree(Written, PrefixTreeTrainer):
    pass


def rows_of(*numbers):
    return [{"prompt": prompt(number)} for number in numbers for _ in range(4)]


def rollout(model, output, *numbers, kind=Plain, resample=0, step=0, options=None, **changes):
    """The trainer, and what it would train on after a rollout of those prompts."""
    options = {"resample": resample, **(options or {})}
    trainer = build(kind, model, output, even_ones_vary, options=options, **changes)
    trainer.model.train()
    trainer.state.global_step = step
    return trainer, trainer._generate_and_score_completions(rows_of(*numbers))


def prompts_and_completions(made):
    """Token ids of every row, without padding."""
    pairs = [(made[f"{kind}_ids"], made[f"{kind}_mask"].bool()) for kind in ("prompt", "completion")]
    return [tuple(ids[row][mask[row]].tolist() for ids, mask in pairs) for row in range(len(made["advantages"]))]


# -- what is trained on ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Plain, Tree])
def test_a_group_without_spread_is_replaced_and_the_others_stay(tmp_path, model, kind):
    first, before = rollout(model, tmp_path, 3, 2, kind=kind)
    trainer, made = rollout(model, tmp_path, 3, 2, kind=kind, resample=8)
    assert before["advantages"].view(2, 4).abs().sum(dim=1).ne(0).tolist() == [False, True]
    assert made["advantages"].view(2, 4).abs().sum(dim=1).ne(0).all()
    assert prompts_and_completions(made)[4:] == prompts_and_completions(before)[4:]
    numbers = [number_of(text) for text in trainer._logs["prompt"]]
    assert numbers[0] in {4, 6, 8}
    assert numbers == [numbers[0]] * 4 + [2] * 4
    assert made["num_items_in_batch"] == made["completion_mask"].sum()
    assert made["num_items_in_batch"].dtype == before["num_items_in_batch"].dtype
    rounds, rest = divmod(trainer.completions_sampled - first.completions_sampled, 4)
    assert 1 <= rounds <= 8
    assert rest == 0


def test_the_table_of_completions_is_what_is_trained_on(tmp_path, model):
    trainer, made = rollout(model, tmp_path, 3, 2, resample=8)
    tokenizer, logs = trainer.processing_class, trainer._logs
    for row, (asked, written) in enumerate(prompts_and_completions(made)):
        assert tokenizer.decode(asked, skip_special_tokens=True).strip() == logs["prompt"][row].strip()
        assert tokenizer.decode(written, skip_special_tokens=True) == logs["completion"][row]
    assert list(logs["advantages"]) == pytest.approx(made["advantages"].tolist())
    assert list(logs["rewards"]["even_ones_vary"]) == [0.0, 1.0, 2.0, 3.0] * 2
    assert list(logs["extra"]["number"]) == [number_of(text) for text in logs["prompt"]]


def test_log_rows_tell_of_the_first_round_and_of_all_tokens(tmp_path, model):
    first, _ = rollout(model, tmp_path, 3, 2)
    trainer, _ = rollout(model, tmp_path, 3, 2, resample=8)
    ours, theirs = (dict(held._metrics["train"]) for held in (trainer, first))
    assert ours.pop("frac_trained_zero_std") == [0.0]
    assert ours.pop("num_tokens")[0] > theirs.pop("num_tokens")[0]
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - {"rollout_time"}:
        assert ours[name] == theirs[name], name
    assert len(ours["rollout_time"]) == 1


def test_a_batch_whose_groups_all_vary_draws_nothing(tmp_path, model):
    trainer, made = rollout(model, tmp_path, 4, 2, resample=8)
    _, before = rollout(model, tmp_path, 4, 2)
    assert trainer.completions_sampled == 8
    assert prompts_and_completions(made) == prompts_and_completions(before)


def test_what_has_no_spread_after_the_last_round_stays(tmp_path, model):
    trainer, made = rollout(model, tmp_path, 1, 3, resample=2, numbers=range(1, 20, 2))
    assert trainer.completions_sampled == 8 * 3
    assert not made["advantages"].any()
    assert [number_of(text) for text in trainer._logs["prompt"]] == [1] * 4 + [3] * 4


def test_only_prompts_outside_the_batch_are_drawn_each_once(tmp_path, model):
    trainer, made = rollout(model, tmp_path, 1, 2, resample=5, numbers=[1, 2, 2, 1])
    assert trainer.completions_sampled == 8
    trainer, made = rollout(model, tmp_path, 1, 3, resample=9, numbers=[1, 3, 5, 7])
    assert trainer.completions_sampled == 8 + 8
    assert not made["advantages"].any()


def test_the_draw_depends_on_seed_and_step_alone(tmp_path, model):
    def replaced(step, seed=1):
        torch.manual_seed(step)  # the state of sampling does not count
        trainer, _ = rollout(model, tmp_path, 3, 2, resample=8, step=step, seed=seed, numbers=range(1, 40))
        return number_of(trainer._logs["prompt"][0])

    assert [replaced(step) for step in (0, 1, 2)] == [replaced(step) for step in (0, 1, 2)]
    assert len({replaced(step) for step in range(4)}) > 1
    assert len({replaced(0, seed) for seed in range(4)}) > 1


def test_advantages_of_tokens_are_replaced_too(tmp_path, model):
    class OfEveryToken:
        def check(self, trainer):
            pass

        def token_advantages(self, trainer, inputs, made):
            return made["advantages"][:, None].repeat(1, made["completion_ids"].shape[1])

    _, plain = rollout(model, tmp_path, 3, 2, resample=8)
    _, made = rollout(model, tmp_path, 3, 2, resample=8, options={"line_credit": OfEveryToken()})
    assert made["advantages"].shape == made["completion_ids"].shape
    torch.testing.assert_close(made["advantages"][:, 0], plain["advantages"])


def test_both_engines_draw_the_same_prompts(tmp_path, model):
    drawn = [rollout(model, tmp_path, 3, 2, kind=kind, resample=8)[0]._logs["prompt"] for kind in (Plain, Tree)]
    assert list(drawn[0]) == list(drawn[1])


def test_the_batch_is_that_of_one_rollout_of_its_prompts(tmp_path, model):
    options = {"num_iterations": 2, "beta": 0.1}  # with the log-probabilities of the old and the reference policy
    trainer, made = rollout(model, tmp_path, 3, 2, resample=8, **options)
    numbers = [number_of(trainer._logs["prompt"][row]) for row in (0, 4)]
    _, again = rollout(model, tmp_path, *numbers, **options)
    assert made.keys() == again.keys()
    assert prompts_and_completions(made) == prompts_and_completions(again)
    torch.testing.assert_close(made["advantages"], again["advantages"])
    written = [held["completion_mask"].bool() for held in (made, again)]
    for name in ("old_per_token_logps", "ref_per_token_logps"):
        torch.testing.assert_close(made[name][written[0]], again[name][written[1]], atol=1e-5, rtol=1e-5)


# -- pieces ----------------------------------------------------------------------------------------------------------


def test_rows_of_different_widths_are_spliced_where_each_kind_is_padded():
    one = {
        "prompt_ids": torch.tensor([[7, 7], [9, 7]]),
        "prompt_mask": torch.tensor([[1, 1], [0, 1]]),
        "completion_ids": torch.tensor([[1, 2, 3], [1, 9, 9]]),
        "completion_mask": torch.tensor([[1, 1, 1], [1, 0, 0]]),
        "old_per_token_logps": torch.tensor([[-1.0, -2.0, -3.0], [-1.0, 0.0, 0.0]]),
        "advantages": torch.tensor([0.0, 0.0]),
        "num_items_in_batch": torch.tensor(4),
    }
    other = {
        "prompt_ids": torch.tensor([[5, 5, 5]]),
        "prompt_mask": torch.tensor([[1, 1, 1]]),
        "completion_ids": torch.tensor([[4, 4]]),
        "completion_mask": torch.tensor([[1, 1]]),
        "old_per_token_logps": torch.tensor([[-5.0, -6.0]]),
        "advantages": torch.tensor([1.5]),
        "num_items_in_batch": torch.tensor(2),
    }
    merged = spliced(one, other, {1: 0}, pad=9)
    assert merged["prompt_ids"].tolist() == [[9, 7, 7], [5, 5, 5]]
    assert merged["prompt_mask"].tolist() == [[0, 1, 1], [1, 1, 1]]
    assert merged["completion_ids"].tolist() == [[1, 2, 3], [4, 4, 9]]
    assert merged["completion_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert merged["old_per_token_logps"].tolist() == [[-1.0, -2.0, -3.0], [-5.0, -6.0, 0.0]]
    assert merged["advantages"].tolist() == [0.0, 1.5]
    assert merged["num_items_in_batch"] == 5
    assert one["advantages"].tolist() == [0.0, 0.0], "the given batch stays"


def test_a_column_that_only_one_rollout_has_is_filled_up():
    extra = defaultdict(lambda: deque(maxlen=2), {"old": deque(["a", "b"], maxlen=2)})
    logs = {"prompt": deque(["p", "q"], maxlen=2), "images": deque(maxlen=2), "extra": extra}
    with Table(logs, 2) as table:
        assert not logs["prompt"], "the next round has the table to itself"
        logs["prompt"].extend(["r", "s"])
        logs["extra"]["new"].extend([1, 2])
        table.moves = {0: 1}
    assert list(logs["prompt"]) == ["s", "q"]
    assert list(logs["images"]) == []
    assert list(logs["extra"]["old"]) == [None, "b"]
    assert list(logs["extra"]["new"]) == [2, None]


# -- a whole run -----------------------------------------------------------------------------------------------------


def logged(kind, model, output, resume_from=None, resample=0, **changes):
    trainer = build(
        kind, model, output, by_first_letters, numbers=range(1, 30), options={"resample": resample},
        learning_rate=1e-2, save_strategy="steps", save_steps=1, max_completion_length=4, **changes,
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=resume_from)
    rows = [row for row in trainer.state.log_history if "loss" in row]
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def by_first_letters(prompts, completions, **_):
    return [
        1.0 if number_of(text) % 3 else float(sum(map(ord, completion[:2])) % 5)
        for text, completion in zip(prompts, completions, strict=True)
    ]


@pytest.mark.parametrize("kind", [ResumableTrainer, PrefixTreeTrainer])
def test_a_resumed_run_with_resampling_equals_the_unbroken_one(tmp_path, model, kind):
    unbroken = logged(kind, model, tmp_path, resample=2, max_steps=4)
    resumed = logged(kind, model, tmp_path, str(tmp_path / "checkpoint-2"), resample=2, max_steps=4)
    assert resumed == unbroken
    assert unbroken[-1]["completions_sampled"] > 4 * 8


def test_every_row_counts_the_completions_drawn_so_far_also_after_a_resume(tmp_path, model):
    changes = {"num_iterations": 2, "max_steps": 5}
    unbroken = logged(ResumableTrainer, model, tmp_path, **changes)
    assert [row["completions_sampled"] for row in unbroken] == [8, 8, 16, 16, 24]
    resumed = logged(ResumableTrainer, model, tmp_path, str(tmp_path / "checkpoint-3"), **changes)
    assert [row["completions_sampled"] for row in resumed] == [8, 8, 16, 16, 24]


# -- bad input -------------------------------------------------------------------------------------------------------


def test_several_processes_are_refused_before_the_model_is_looked_for(monkeypatch):
    monkeypatch.setattr(run, "PartialState", lambda: SimpleNamespace(num_processes=2))
    with pytest.raises(ConfigurationError, match="one process only"):
        run.check_names(RunConfig(resample=1, model="no such model"))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"accelerator": SimpleNamespace(num_processes=2)}, "several processes"),
        ({"use_vllm": True}, "use_vllm"),
        ({"tools": [print]}, "tools"),
        ({"train_dataset": SimpleNamespace(column_names=["prompt", "image"], __len__=lambda: 1)}, "images"),
        ({"train_dataset": iter([])}, "streamed"),
    ],
)
def test_what_cannot_be_replaced_is_refused(changes, named):
    fine = {"accelerator": SimpleNamespace(num_processes=1), "use_vllm": False, "tools": None, "train_dataset": []}
    check_trainer(SimpleNamespace(**fine))
    with pytest.raises(ConfigurationError, match=named):
        check_trainer(SimpleNamespace(**{**fine, **changes}))


@pytest.mark.parametrize(
    "settings", [{"scale_rewards": "batch"}, {"multi_objective_aggregation": "normalize_then_sum"}, {"use_vllm": True}]
)
def test_settings_that_rule_it_out_are_refused_before_a_model_is_looked_for(settings):
    (name,) = settings
    with pytest.raises(ConfigurationError, match=f"resample does not go with {name}"):
        resolve(draft(None, {"resample": 1, "model": "nowhere", **settings}))


def test_a_negative_number_of_rounds_is_refused():
    with pytest.raises(ValueError, match="resample"):
        RunConfig(resample=-1)
