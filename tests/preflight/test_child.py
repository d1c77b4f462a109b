"""A child process that crashes is reported in words; a device is tried in one."""

import sys

import pytest

from evenhand.preflight.child import run_child, run_to_end
from evenhand.preflight.device_trial import try_device


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os; os.abort()", "was ended by signal 6 (SIGABRT)"),
        ("import sys; sys.exit(3)", "failed with exit code 3"),
        ("raise ValueError('no such kernel')", "ValueError: no such kernel"),
        ("import time; time.sleep(30)", "did not end within 1 s"),
    ],
)
def test_an_end_that_is_not_well_is_told(code, words):
    assert words in run_to_end([sys.executable, "-c", code], 1.0 if "sleep" in code else 60.0)


def test_a_child_that_fails_gives_no_answer():
    end = run_child("evenhand.training.probe", {"task": 1}, 120.0)
    assert end.answer is None
    assert "exit code 1" in end.failure


def test_the_processor_survives_generate_forward_and_backward():
    assert try_device("cpu") == ""
    assert "exit code" in try_device("no-such-device")
