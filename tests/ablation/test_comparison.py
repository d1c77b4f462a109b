"""Arms are compared over seeds, with a correction, and what the data cannot tell is said."""

from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from evenhand.ablation.comparison import Result, conclude
from evenhand.ablation.study import Study, Trial
from evenhand.ablation.trials import State
from evenhand.config import RunConfig
from evenhand.runfolder import RunFolder
from tests.made_runs import made_evaluation


def result_of(folder: Path, right: dict[str, list[int]], **changes: object) -> Result:
    """A study whose arms have so many of 50 problems right, seed by seed; -1 stands for a failed trial."""
    arms: dict[str, Any] = {arm: {} for arm in right}
    seeds = tuple(range(1, 1 + len(next(iter(right.values())))))
    values = {"name": "s", "question": "?", "varies": ["train.beta"], "seeds": seeds, "reference": next(iter(arms))}
    study = Study.model_validate({**values, "arms": arms, **changes})
    states = []
    for arm, counts in right.items():
        for seed, count in zip(seeds, counts, strict=True):
            run = RunFolder.create(folder, "t", folder / arm / f"seed-{seed}")
            for step, share in ((0, 5), (10, count)):
                outcomes = {"fully_correct": tuple([1.0] * max(share, 0) + [0.0] * (50 - max(share, 0)))}
                outcomes["answer_accuracy"] = outcomes["fully_correct"]
                run.append("evaluations.jsonl", made_evaluation(step, outcomes).to_json())
            task = str(study.arms[arm].get("task", "stepwise-parity"))
            name = "failed" if count < 0 else "finished"
            states.append(
                State(Trial(arm, seed, RunConfig(task=task)), run.path, name, "out of memory" if count < 0 else "")
            )
    return conclude(study, states)


def test_a_clear_difference_over_seeds(tmp_path: Path) -> None:
    result = result_of(tmp_path, {"base": [20, 22, 21], "more": [40, 41, 43]})
    contrast = result.contrasts[0]
    test = stats.ttest_rel([0.8, 0.82, 0.86], [0.4, 0.44, 0.42])
    assert contrast.verdict == "better"
    assert contrast.difference == pytest.approx(0.4066667)
    assert contrast.interval == pytest.approx(tuple(test.confidence_interval(0.95)))
    assert contrast.p == pytest.approx(test.pvalue)
    assert "more beside base is better" in result.sentences()[0]


def test_many_arms_widen_every_interval(tmp_path: Path) -> None:
    two = result_of(tmp_path / "two", {"base": [20, 22, 21], "a": [26, 25, 29]})
    four = result_of(tmp_path / "four", {"base": [20, 22, 21], "a": [26, 25, 29], "b": [20, 21, 23], "c": [19, 22, 20]})
    narrow, wide = two.contrasts[0], four.contrasts[0]
    assert narrow.interval is not None
    assert wide.interval is not None
    assert wide.interval[0] < narrow.interval[0]
    assert wide.p == pytest.approx(3 * (narrow.p or 0))


def test_what_the_data_cannot_tell_is_said_with_how_much_would_be_seen(tmp_path: Path) -> None:
    result = result_of(tmp_path, {"base": [20, 30, 25], "same": [26, 25, 24]})
    assert result.contrasts[0].verdict == "cannot tell"
    assert "cannot tell them apart" in result.sentences()[0]
    assert "would not be seen with so few seeds" in result.sentences()[0]


def test_one_seed_gives_no_interval(tmp_path: Path) -> None:
    result = result_of(tmp_path, {"base": [20], "more": [45]})
    assert result.contrasts[0].interval is None
    assert "no interval is possible" in result.sentences()[0]
    assert "anecdote" in result.sentences()[1]


def test_failed_trials_are_named_and_only_common_seeds_are_paired(tmp_path: Path) -> None:
    result = result_of(tmp_path, {"base": [20, 22, 21], "more": [40, -1, 43]})
    assert result.contrasts[0].seeds == (1, 3)
    assert [state.trial.name for state in result.failed] == ["more/seed-2"]
    assert result.sentences()[-1] == "Not finished: more/seed-2."
    assert result.to_json()["trials"][4]["reason"] == "out of memory"


def test_equal_differences_are_no_certainty(tmp_path: Path) -> None:
    result = result_of(tmp_path, {"base": [20, 20, 20], "more": [25, 25, 25]})
    assert result.contrasts[0].verdict == "cannot tell"


def test_goals_of_different_tasks_are_never_subtracted(tmp_path: Path) -> None:
    arms = {"lines": {"task": "stepwise-parity"}, "integer": {"task": "integer-count"}}
    right = {"lines": [20, 21, 22], "integer": [10, 11, 13]}
    result = result_of(tmp_path, right, arms=arms, metrics=("goal", "answer_accuracy"))
    goal, shared = result.contrasts
    assert (goal.verdict, goal.difference) == ("not comparable", None)
    assert shared.verdict == "worse"
    assert result.values("lines", "goal")[1] == 0.4


def test_how_fast_an_arm_learns_is_the_mean_over_its_evaluations(tmp_path: Path) -> None:
    result = result_of(tmp_path, {"base": [20, 22], "more": [40, 41]}, metrics=("mean:fully_correct", "unmeasured"))
    assert result.values("base", "mean:fully_correct") == {1: 0.4, 2: 0.44}  # step 0 does not count
    assert result.values("base", "unmeasured") == {}
