"""The checks before a cold start: silent on the embedded model, and each says what it is for."""

from dataclasses import replace

import pytest
import torch

from evenhand.config import draft
from evenhand.preflight.cold_start import COLD_START_CHECKS, EXAMPLES, preflight_cold_start, without_model
from evenhand.preflight.report import examine
from evenhand.training.arguments import resolve


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("preflight")


def configuration(folder, **chosen):
    places = {"data": str(folder / "data"), "runs": str(folder / "runs"), "device": "cpu", "coldstart.examples": 16}
    return resolve(draft("embedded", {**places, **chosen}))


@pytest.fixture(scope="module")
def report(folder):
    before = torch.random.get_rng_state()
    made = preflight_cold_start(configuration(folder))
    assert torch.equal(before, torch.random.get_rng_state())
    return made


def test_the_shipped_configuration_raises_no_alarm(report):
    assert [finding.code for finding in report.findings if finding.severity in {"warn", "stop"}] == []
    assert report.unknown == ()


def test_the_probe_makes_supervised_steps_at_the_cold_start_s_rate(report):
    (updates,) = (finding for finding in report.findings if finding.code == "updates-swallowed")
    assert updates.severity == "ok"
    assert "learning rate 0.0001" in updates.message


def test_bf16_weights_that_would_not_move_are_a_stop(folder):
    half = {"precision.body": "bfloat16", "precision.norms": "bfloat16", "coldstart.learning_rate": 1e-7}
    report = preflight_cold_start(configuration(folder, **half))
    assert "updates-swallowed" in {finding.code for finding in report.stops}


def test_examples_are_looked_at_beside_the_splits(folder):
    setup = without_model(configuration(folder))
    assert list(setup.data.splits) == [EXAMPLES, "train", "test", "dev"]
    shared = replace(setup.data, splits={**setup.data.splits, EXAMPLES: setup.data.splits["test"][:2]})
    found = {finding.code for finding in examine(replace(setup, data=shared), COLD_START_CHECKS).findings}
    assert "split-overlap" in found
