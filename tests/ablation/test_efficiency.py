"""Completions until a metric stays at a bound: reached, lost again, censored, unknown, and what is said of them."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evenhand.ablation.comparison import Result, conclude
from evenhand.ablation.efficiency import Curve, Point, Reach, order, ratio_of, reach_of
from evenhand.ablation.study import Study, Trial
from evenhand.ablation.trials import State
from evenhand.config import RunConfig
from evenhand.runfolder import RunFolder
from tests.made_runs import made_evaluation

BATCH = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4}  # 32 completions an update


def made_trial(folder: Path, arm: str, seed: int, rights: Sequence[int | None], per_step: int | None = 32) -> State:
    """A finished run, evaluated every 5 steps with so many of 10 right (None: the metric was not measured).

    ``per_step`` is what its log counts; None leaves the key out, so that only the configuration tells.
    """
    run = RunFolder.create(folder, "t", folder / arm / f"seed-{seed}")
    run.write_text("config.toml", RunConfig(train=BATCH).to_toml())
    for number, right in enumerate(rights):
        step = 5 * number
        name = "answer_accuracy" if right is None else "fully_correct"
        run.append("evaluations.jsonl", made_evaluation(step, {name: ones(right or 0)}).to_json())
        counted = {} if per_step is None or step == 0 else {"completions_sampled": per_step * step}
        run.append("metrics.jsonl", {"step": step, "loss": 0.0, **counted})
    return State(Trial(arm, seed, RunConfig(train=BATCH)), run.path, "finished")


def ones(right: int) -> tuple[float, ...]:
    return tuple([1.0] * right + [0.0] * (10 - right))


def result_of(folder: Path, runs: Mapping[str, Sequence[Sequence[int | None]]], **per_step: int | None) -> Result:
    """A study of these arms, whose runs have seeds 1, 2, …; the first arm is the reference."""
    seeds = tuple(range(1, 1 + len(next(iter(runs.values())))))
    values: dict[str, Any] = {"name": "s", "question": "?", "varies": ["credit"], "seeds": seeds}
    values |= {"reference": next(iter(runs)), "arms": {arm: {} for arm in runs}, "metrics": ["fully_correct"]}
    study = Study.model_validate({**values, "until": {"metric": "fully_correct", "at_least": 0.9}})
    states = [
        made_trial(folder, arm, seed, rights, per_step.get(arm, 32))
        for arm, every in runs.items()
        for seed, rights in zip(seeds, every, strict=True)
    ]
    return conclude(study, states)


def risen(updates: int, of: int = 6) -> list[int | None]:
    """Evaluations of a run that stays at 90 % from the given one on; 0 is the first model, ``of`` never."""
    return [2] * updates + [9] * (of - updates)


def said(result: Result) -> str:
    return "\n".join(result.sentences())


def reached(result: Result, arm: str) -> list[str]:
    efficiency = result.efficiency
    assert efficiency is not None
    return [str(reach) for _, reach in sorted(efficiency.of(arm).items())]


def test_a_run_that_loses_the_bound_reaches_it_when_it_stays(tmp_path: Path) -> None:
    result = result_of(
        tmp_path, {"base": [[2, 5, 9, 10, 10], [2, 9, 8, 9, 10]], "other": [[2, 9, 10, 10, 8], [2, 3, 4, 5, 6]]}
    )
    assert reached(result, "base") == ["320", "480"]  # steps 10 and 15, with 32 completions each
    assert reached(result, "other") == ["not within 640 completions"] * 2
    before = "base/seed-2 (first at 160 completions), other/seed-1 (first at 160 completions)"
    assert f"There before, and below it again since: {before}." in said(result)


def test_the_completions_of_the_log_count_before_those_of_the_configuration(tmp_path: Path) -> None:
    result = result_of(tmp_path, {"logged": [risen(2)], "configured": [risen(2)]}, logged=40, configured=None)
    assert reached(result, "logged") == ["400"]
    assert reached(result, "configured") == ["320"]


def test_what_is_not_known_is_no_number_and_is_named(tmp_path: Path) -> None:
    result = result_of(tmp_path, {"base": [risen(2)] * 2, "other": [[2, 9, None, 9, 9], risen(2)]}, other=None)
    for path in (tmp_path / "other").glob("seed-2/config.toml"):
        path.unlink()
    result = conclude(result.study, result.states)
    assert reached(result, "other") == ["unknown", "step 10, completions unknown"]
    assert "Not known, for want of" in said(result)
    assert "other/seed-1, other/seed-2" in said(result)
    assert "whether the arms had equally many is not known" in said(result)


def test_where_every_pair_has_a_ratio_the_interval_decides(tmp_path: Path) -> None:
    base, half = [4, 6, 4, 6], [2, 3, 3, 3]
    result = result_of(tmp_path, {"base": [risen(n, 8) for n in base], "half": [risen(n, 8) for n in half]})
    assert result.efficiency is not None
    ratio = result.efficiency.ratios[0]
    logs = [math.log(b / a) for a, b in zip(base, half, strict=True)]
    limits = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    assert ratio.ratio == pytest.approx(math.exp(sum(logs) / 4))
    assert ratio.interval == pytest.approx((math.exp(limits.low), math.exp(limits.high)))
    assert (ratio.fewer, ratio.more, ratio.verdict, ratio.decided_by) == (4, 0, "better", "interval")
    assert "half beside base takes fewer: ×0.55" in said(result)
    assert "Evaluations lie every 5 steps (160 completions)" in said(result)


def test_runs_that_never_reach_it_leave_the_verdict_to_the_sign_test(tmp_path: Path) -> None:
    arms = {"base": [risen(6)] * 3 + [risen(5, 7)] * 3, "quick": [risen(2), risen(3)] * 3}
    result = result_of(tmp_path, arms)
    assert result.efficiency is not None
    ratio = result.efficiency.ratios[0]
    assert (ratio.ratios, ratio.fewer, ratio.more, ratio.decided_by) == (3, 6, 0, "sign test")
    assert ratio.sign_p == pytest.approx(2 / 2**6)
    assert ratio.verdict == "better"
    assert "not every pair has a ratio, so the sign test decides" in said(result)


def test_few_pairs_are_said_to_be_too_few_for_the_sign_test(tmp_path: Path) -> None:
    result = result_of(tmp_path, {"base": [risen(6)] * 5, "quick": [risen(2)] * 5})
    assert result.efficiency is not None
    assert result.efficiency.ratios[0].verdict == "cannot tell"
    assert "with 5 decided pair(s) that test could not have told" in said(result)


def test_the_data_cannot_tell_is_said_with_what_would_be_seen(tmp_path: Path) -> None:
    result = result_of(tmp_path, {"base": [risen(2), risen(4), risen(3)], "same": [risen(4), risen(2), risen(3)]})
    assert "the data cannot tell them apart; a true factor nearer to 1 than ×" in said(result)


def test_more_arms_widen_intervals_and_p_values() -> None:
    own = {seed: reach(completions=32 * seed) for seed in (1, 2, 3)}
    base = {seed: reach(completions=96 + 32 * seed) for seed in (1, 2, 3)}
    one, three = ratio_of("a", own, base, 1), ratio_of("a", own, base, 3)
    assert one.interval is not None
    assert three.interval is not None
    assert three.interval[0] < one.interval[0] < one.interval[1] < three.interval[1]
    assert three.p == pytest.approx(min(1, 3 * (one.p or 0)))
    assert three.sign_p == pytest.approx(min(1, 3 * (one.sign_p or 0)))


def test_one_seed_is_an_anecdote(tmp_path: Path) -> None:
    result = result_of(tmp_path, {"base": [risen(4)], "half": [risen(2)]})
    assert result.efficiency is not None
    assert result.efficiency.ratios[0].interval is None
    assert "×0.50 in 1 pair(s), without an interval" in said(result)
    assert "one seed gives no interval, so this is an anecdote" in said(result)


def test_arms_with_different_budgets_are_named(tmp_path: Path) -> None:
    result = result_of(tmp_path, {"base": [risen(2), risen(2)], "more": [risen(2), risen(3)]}, base=None, more=48)
    assert "had different budgets of completions: base 800 by its configuration, more 1200" in said(result)
    same = result_of(tmp_path / "same", {"base": [risen(2)], "more": [risen(3)]}, base=None)
    assert "budgets" not in said(same)


def test_a_run_watched_for_less_long_decides_nothing() -> None:
    late, short = reach(completions=900), reach(within=600)
    assert order(late, short) is None
    assert order(reach(completions=600), short) == 1
    assert order(short, reach(completions=500)) == -1
    assert order(short, short) == 0


def test_a_last_evaluation_that_nothing_confirms_is_named(tmp_path: Path) -> None:
    result = result_of(tmp_path, {"base": [risen(5)], "half": [risen(2)]})
    assert "no later one to confirm it: base/seed-1." in said(result)


def test_the_result_is_plain_json_with_every_run(tmp_path: Path) -> None:
    result = result_of(tmp_path, {"base": [risen(6)] * 2, "half": [risen(2), risen(3)]})
    until = result.to_json()["until"]
    assert until["runs"][0]["said"] == "not within 800 completions"
    assert until["runs"][0]["completions"] is None
    assert until["evaluations_apart"] == {"steps": [5], "completions": 160}
    assert result.to_json()["budgets"][0] == {"arm": "base", "fewest": 800, "most": 800, "source": "logs"}


def reach(completions: int | None = None, within: int = 1000) -> Reach:
    state = "censored" if completions is None else "reached"
    return Reach("a", 1, state, None if completions is None else 1, completions, within, 0)


reaches = st.one_of(
    st.integers(0, 50).map(lambda count: reach(completions=count)),
    st.integers(0, 50).map(lambda count: reach(within=count)),
    st.just(Reach("a", 1, "unknown", None, None, None, 0)),
    st.just(Reach("a", 1, "reached", 1, None, None, 0)),
)


@given(reaches, reaches)
def test_the_order_of_two_runs_is_the_other_way_round_from_the_other_side(first: Reach, second: Reach) -> None:
    forth, back = order(first, second), order(second, first)
    assert forth == (None if back is None else -back)
    if "unknown" in (first.state, second.state):
        assert forth is None


@given(st.lists(st.one_of(st.none(), st.floats(0, 1))), st.floats(0, 1))
def test_a_reached_bound_is_held_to_the_end_and_not_earlier(values: list[float | None], bound: float) -> None:
    curve = [Point(2 * number, 64 * number, value) for number, value in enumerate(values)]
    found = reach_of(Curve("a", 1, curve), bound)
    assert not found.lost or any(value is not None and value < bound for value in values[1:])
    assert (found.touched is None) == all(value is None or value < bound - 1e-9 for value in values)
    if found.state == "reached":
        place = [point.step for point in curve].index(found.step)
        assert all(value is not None and value >= bound - 1e-9 for value in values[place:])
        assert place == 0 or (values[place - 1] or 0.0) < bound
        assert (found.completions, found.later) == (64 * place, len(values) - place - 1)
    elif found.state == "censored":
        assert values[-1] is not None
        assert values[-1] < bound
    else:
        assert not values or None in values


@given(st.lists(st.tuples(reaches, reaches), max_size=8), st.integers(1, 5))
def test_every_known_pair_is_counted_once(pairs: list[tuple[Reach, Reach]], comparisons: int) -> None:
    own = {seed: pair[0] for seed, pair in enumerate(pairs)}
    base = {seed: pair[1] for seed, pair in enumerate(pairs)}
    ratio = ratio_of("a", own, base, comparisons)
    assert ratio.fewer + ratio.more + ratio.tied + ratio.undecided == len(ratio.seeds)
    assert ratio.ratios <= len(ratio.seeds)
    assert ratio.verdict == "cannot tell" or len(ratio.seeds) >= 2
