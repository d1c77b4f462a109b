"""Whatever somebody's file, function or data does, it becomes a finding or one sentence."""

import math
import sys

import pytest

from evenhand.errors import ConfigurationError, DataError
from evenhand.preflight.foreign import import_file, read_rows
from evenhand.preflight.reward_call import Batch, call

BATCH = Batch(["p", "p"], ["a", "b"], {})


def leaves(completions, **_):
    sys.exit(3)


def interrupts(completions, **_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("function", [leaves, interrupts])
def test_a_function_that_ends_the_process_has_raised(function):
    assert call(function, BATCH).fault.kind == "raised"


def test_a_single_number_is_no_list_of_numbers():
    fault = call(lambda completions, **_: 1.0, BATCH).fault
    assert "returned a float, not a list of numbers" in fault.message


@pytest.mark.parametrize("value", [10**400, 1e308])
def test_what_fp32_cannot_hold_is_infinite_as_in_trl_s_tensor(value):
    assert call(lambda completions, **_: [value, -1.0], BATCH).values == (math.inf, -1.0)


def test_a_file_that_ends_the_process_when_imported_is_one_sentence(tmp_path):
    (tmp_path / "r.py").write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(ConfigurationError, match="line 2: SystemExit"):
        import_file(tmp_path / "r.py")


def test_a_syntax_error_is_named_with_its_own_line(tmp_path):
    (tmp_path / "r.py").write_text("x = 1\n\ndef reward(:\n")
    with pytest.raises(ConfigurationError, match="line 3: SyntaxError"):
        import_file(tmp_path / "r.py")


def test_line_separators_inside_a_string_and_blank_lines_are_read(tmp_path):
    (tmp_path / "d.jsonl").write_text('{"prompt": "a\u2028b"}\n   \n{"prompt": "c\u0085"}\n', encoding="utf-8")
    assert [row["prompt"] for row in read_rows(tmp_path / "d.jsonl")] == ["a\u2028b", "c\u0085"]


def test_nesting_without_end_is_one_sentence(tmp_path):
    (tmp_path / "d.jsonl").write_text("[" * 100_000)
    with pytest.raises(DataError, match="no JSON"):
        read_rows(tmp_path / "d.jsonl")
