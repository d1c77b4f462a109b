"""The same rules while a run goes on: each thing once, in time, and never of a sound run."""

import json

import pytest

from evenhand.diagnosis.live import LiveDiagnosis
from tests.diagnosis.logs import LOGS, SOUND, learning, recorded


def rows_of(name):
    lines = (LOGS / name / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def called(name, urgent=("collapsed-identical-rollouts", "weights-are-nan")):
    """Step at which each code was first called, and the onset that was named."""
    live = LiveDiagnosis(recorded(name).settings, urgent)
    told = {}
    for row in rows_of(name):
        step = row.pop("step")
        live.add(step, row)
        for finding in live.new_findings():
            assert finding.code not in told
            told[finding.code] = (step, finding.step)
    return told


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_run_is_left_alone(name):
    assert called(name) == {}


def test_a_collapse_is_called_within_ten_steps_of_its_start():
    step, onset = called("collapsed")["collapsed-identical-rollouts"]
    assert onset <= step <= onset + 10


def test_a_collapse_that_is_logged_every_ten_steps_is_called_at_the_next_row():
    """The reference's: dead from step 30."""
    live = LiveDiagnosis({}, ("collapsed-identical-rollouts",))
    reference = {10: (3.1, 0.125, 0.875, -2.9), 20: (0.8, 0.0214, 0.975, -3.1)}
    reference |= {step: (0.0, 0.00039, 1.0, -3.0 - (step // 10) % 3) for step in range(30, 101, 10)}
    told = {}
    for step, (gradient, entropy, uniform, reward) in reference.items():
        row = {"grad_norm": gradient, "entropy": entropy, "frac_reward_zero_std": uniform, "reward": reward}
        live.add(step, row | {"loss": 0.0 if gradient == 0 else 0.01})
        told |= {finding.code: (step, finding.step) for finding in live.new_findings()}
    assert told["collapsed-identical-rollouts"] == (40, 30)


def test_a_nan_is_called_on_its_row():
    assert called("nan")["weights-are-nan"] == (2, 2)


def test_what_a_told_finding_explains_is_not_told_later():
    told = called("collapsed")
    assert "groups-uniform" not in told
    assert "reward-flat" not in told


def test_a_resumed_run_replaces_what_it_ran_again():
    live = LiveDiagnosis({})
    for step, reward in [(1, 0.1), (2, 0.2), (3, 0.3), (2, 0.9)]:
        live.add(step, {"reward": reward, "loss": 0.1})
    assert live.history().get("reward").values.tolist() == [0.1, 0.9]


def test_the_history_grows_as_the_one_that_is_read_afterwards():
    live = LiveDiagnosis(recorded("healthy").settings)
    for row in rows_of("healthy"):
        live.add(row.pop("step"), row)
    read, grown = recorded("healthy"), live.history()
    assert grown.steps.tolist() == read.steps.tolist()
    for name in ("reward", "kl", "rewards/answer/mean", "grad_norm"):
        assert grown.get(name).values.tolist() == read.get(name).values.tolist()


def test_judging_a_run_takes_less_than_a_hundredth_of_the_time_that_its_steps_took():
    live = LiveDiagnosis(recorded("healthy").settings, ("collapsed-identical-rollouts", "weights-are-nan"))
    steps = [row for row in rows_of("healthy") if "step_time" in row]
    for row in steps:
        live.add(row.pop("step"), row)
        live.new_findings()
    assert live.seconds < 0.01 * sum(row["step_time"] for row in steps)


def test_a_row_of_a_long_run_costs_no_more_than_one_of_a_short_run():
    live = LiveDiagnosis({}, ("collapsed-identical-rollouts", "weights-are-nan"))
    history = learning(rows=2000)
    for row in range(2000):
        live.add(row + 1, {name: series.values[row] for name, series in history.series.items()})
        live.new_findings()
    assert live.seconds / 2000 < 0.003
