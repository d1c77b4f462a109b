"""How many completions a run had sampled: by its log, else by its configuration, else unknown."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.ablation.budgets import Sampling, budget_of, budget_sentences, cycle_of, whole
from evenhand.runfolder import RunFolder

TRAIN = "[train]\nper_device_train_batch_size = 8\ngradient_accumulation_steps = 4\n"


def run_of(folder: Path, config: str, rows: list[dict[str, object]], processes: int | None = None) -> RunFolder:
    run = RunFolder.create(folder, "t", folder / f"run-{len(list(folder.glob('run-*')))}")
    run.write_text("config.toml", config)
    if processes is not None:
        run.write_json("environment.json", {"processes": processes})
    for row in rows:
        run.append("metrics.jsonl", row)
    return run


@pytest.mark.parametrize(
    ("config", "step", "completions"),
    [
        (TRAIN, 10, 320),
        (TRAIN + "num_iterations = 2\n", 10, 160),
        (TRAIN + "num_iterations = 2\n", 9, 160),  # the fifth batch is used by step 9 and 10
        (TRAIN + "steps_per_generation = 8\n", 3, 128),  # a batch of 64 for two steps
        (TRAIN + "generation_batch_size = 64\n", 3, 128),
        (TRAIN, 0, 0),
    ],
)
def test_the_generation_cycle_as_configured(config: str, step: int, completions: int) -> None:
    cycle = cycle_of(config, 1)
    assert cycle is not None
    assert cycle.sampled(step) == completions


@pytest.mark.parametrize(
    "config",
    ["", "train = 3", "broken = ", "resample = 2\n" + TRAIN, "[train]\nper_device_train_batch_size = 8\n",
     TRAIN.replace("8", "0"), TRAIN.replace("8", "true"), TRAIN + "steps_per_generation = 0\n"],
)  # fmt: skip
def test_a_configuration_that_does_not_tell_leaves_it_unknown(config: str) -> None:
    assert cycle_of(config, 1) is None


def test_several_processes_sample_as_many_times(tmp_path: Path) -> None:
    assert Sampling.of(run_of(tmp_path, TRAIN, [], processes=2)).at(10) == 640
    assert Sampling.of(run_of(tmp_path, TRAIN, [])).at(10) == 320


def test_resampled_rounds_are_known_from_the_log_alone(tmp_path: Path) -> None:
    resampled = "resample = 2\n" + TRAIN
    rows = [{"step": 1, "completions_sampled": 40}, {"step": 2, "loss": 0.5}, {"step": 3, "completions_sampled": 120}]
    sampling = Sampling.of(run_of(tmp_path, resampled, rows))
    assert [sampling.at(step) for step in range(4)] == [0, 40, None, 120]


def test_the_budgets_of_arms(tmp_path: Path) -> None:
    plain = [run_of(tmp_path, TRAIN, [{"step": 10}]) for _ in range(2)]
    more = [run_of(tmp_path, TRAIN, [{"step": 10, "completions_sampled": count}]) for count in (352, 400)]
    nothing = run_of(tmp_path, TRAIN, [])
    budgets = [budget_of("plain", plain), budget_of("more", more)]
    text = budget_sentences(budgets)[0]
    assert "had different budgets of completions: plain 320 by its configuration, more 352 to 400" in text
    assert budget_sentences([budgets[0], budget_of("again", plain)]) == []
    assert "empty unknown" in budget_sentences([budgets[0], budget_of("empty", [nothing])])[0]
    assert budget_sentences([budget_of("a", []), budget_of("b", [nothing])]) == []


@given(st.one_of(st.none(), st.booleans(), st.text(), st.floats(), st.integers()))
def test_a_count_is_a_whole_number_from_zero_up(value: object) -> None:
    found = whole(value)
    assert found is None or (found == value and found >= 0 and not isinstance(value, bool))
