"""What is measured side by side is the same work, and what is printed is what other programs rely on."""

import random

import pytest

from evenhand.bench import PHASES, Shape, bench, made_completions, prepare, ratios, sizes
from evenhand.errors import ConfigurationError
from evenhand.models.loading import load_tokenizer
from models_for_tests import save_random_qwen3


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"grop": 4}, "grop"),
        ({"group": 1}, "too small"),
        ({"prompts": "four"}, "too small"),
        ({"micro_batch": 5}, "micro-batches of 5"),
        ({"overlap": 1.5}, "too small"),
        ({"dtype": "int8"}, "int8"),
        ({"completions": "invented"}, "invented"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_by_name(changes, named):
    with pytest.raises(ConfigurationError, match=named):
        Shape.of(changes)


@pytest.mark.parametrize("overlap", [0.0, 0.5, 1.0])
def test_made_completions_agree_for_their_overlap_and_then_part(tmp_path, overlap):
    tokenizer = load_tokenizer(save_random_qwen3(tmp_path))
    shape = Shape.of({"completions": "made", "overlap": overlap, "group": 4})
    rows = made_completions(shape, 21, tokenizer, random.Random(0))
    common = round(overlap * 20)
    assert all(len(row) == 21 and row[-1] == tokenizer.eos_token_id for row in rows)
    assert len({tuple(row[:common]) for row in rows}) == 1
    if common < 20:
        assert len({row[common] for row in rows}) == 4


def test_recorded_completions_overlap_and_are_counted(tmp_path):
    model = save_random_qwen3(tmp_path)
    given = prepare(Shape.of({"model": str(model), "prompts": 2, "group": 4}))
    assert [len(rows) for rows in given["completions"]] == [4, 4]
    counted = sizes(given)
    assert counted["distinct_positions"] < counted["distinct_positions_by_group"] < counted["positions"] / 2


def test_ratios_are_medians_over_pairs():
    def run(seconds):
        return {"seconds": dict.fromkeys(PHASES, seconds), "peak_memory": 1}

    runs = {"stock": [run(4.0), run(100.0), run(6.0)], "evenhand": [run(1.0), run(1.0), run(2.0)]}
    assert ratios(runs)["step"] == 4.0


def test_both_are_measured_and_agree(tmp_path):
    model = save_random_qwen3(tmp_path)
    shape = Shape.of({"model": str(model), "device": "cpu", "prompts": 2, "group": 4, "micro_batch": 4})
    said = []
    result = bench(shape, 1, evaluation=False, say=said.append)
    assert len(said) == 2
    assert set(result["ratio"]) == {*PHASES, "peak_memory"}
    assert result["gradient_relative_error"] < 1e-4
    assert result["logprob_max_error"] < 1e-4
    stock, tree = result["stock"]["positions"], result["evenhand"]["positions"]
    assert all(tree[phase] < stock[phase] / 3 for phase in ("rollout", "score", "update"))
