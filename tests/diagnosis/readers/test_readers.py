"""One run in every form in which people have it must read as the same history."""

import contextlib
import csv
import io
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.diagnosis.diagnose import diagnose
from evenhand.diagnosis.readers import read_history, read_text
from evenhand.errors import LogError

ROWS = [
    {
        "loss": 0.001 * step,
        "grad_norm": 1.0 + 0.1 * step,
        "reward": 0.5 + 0.01 * step,
        "reward_std": 0.2,
        "rewards/finance/mean": 0.25,
        "epoch": 0.01 * step,
        "step": step,
    }
    for step in range(1, 7)
]


def as_json_lines():
    return "\n".join(json.dumps(row) for row in ROWS)


def as_cut_json_lines():
    return as_json_lines() + '\n{"loss": 0.00'


def as_trainer_state():
    return json.dumps({"global_step": 6, "max_steps": 10, "log_history": ROWS}, indent=2)


def as_list():
    return json.dumps(ROWS)


def as_columns():
    return json.dumps({key: [row[key] for row in ROWS] for key in ROWS[0]})


def as_data_frame():
    return json.dumps({key: {str(i): row[key] for i, row in enumerate(ROWS)} for key in ROWS[0]})


def as_csv():
    out = io.StringIO()
    writer = csv.DictWriter(out, list(ROWS[0]))
    writer.writeheader()
    writer.writerows(ROWS)
    return out.getvalue()


def as_tracker_csv():
    out = io.StringIO()
    names = {key: "Step" if key == "step" else f"run-7 - train/{key}" for key in ROWS[0]}
    writer = csv.DictWriter(out, [*names.values(), "run-7 - train/reward__MIN"])
    writer.writeheader()
    for row in ROWS:
        writer.writerow({names[key]: value for key, value in row.items()} | {"run-7 - train/reward__MIN": 0.0})
    return out.getvalue()


def as_long_csv():
    lines = ["Run,metric,value,step"]
    lines += [f"r,{key},{value},{row['step']}" for row in ROWS for key, value in row.items() if key != "step"]
    return "\n".join(lines)


def as_printed():
    return "\n".join(str(row) for row in ROWS)


def as_terminal():
    """Progress bars with carriage returns, colours, warnings between, the dicts without their steps."""
    parts = ["Loading checkpoint shards: 100%|##########| 2/2 [00:01<00:00,  1.9it/s]", "\x1b[33mwarning: x = 3\x1b[0m"]
    for row in ROWS:
        step = row["step"]
        parts.append(f"\r {step * 10}%|{'█' * step}    | {step}/10 [00:1{step}<01:00, 10.9s/it]\r")
        parts.append("\x1b[1m" + str({key: value for key, value in row.items() if key != "step"}) + "\x1b[0m")
    return "\n".join(parts)


def as_wrapped():
    return "\n".join(str(row).replace(", 'reward_std'", ",\n 'reward_std'") for row in ROWS)


def as_markdown():
    keys = list(ROWS[0])
    lines = ["Some words before.", "| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
    return "\n".join([*lines, *("| " + " | ".join(str(row[key]) for key in keys) + " |" for row in ROWS)])


def as_notebook_table():
    """What is copied from the table that a notebook shows: other names, tabs."""
    names = {"step": "Step", "loss": "Training Loss", "rewards/finance/mean": "rewards / finance / mean"}
    keys = ["step", *(key for key in ROWS[0] if key != "step")]
    lines = ["\t".join(names.get(key, key) for key in keys)]
    return "\n".join([*lines, *("\t".join(str(row[key]) for key in keys) for row in ROWS)])


def as_notebook():
    cells = [list(ROWS[0]), *[[str(value) for value in row.values()] for row in ROWS]]
    table = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells)
    output = {"output_type": "display_data", "data": {"text/html": [f"<table>{table}</table>"]}}
    return json.dumps({"cells": [{"cell_type": "code", "outputs": [output]}], "nbformat": 4})


def as_verl():
    names = {
        "loss": "actor/pg_loss",
        "grad_norm": "actor/grad_norm",
        "reward": "critic/score/mean",
        "reward_std": "group_reward_std",
        "rewards/finance/mean": "reward/finance",
        "epoch": "training/epoch",
    }
    lines = []
    for row in ROWS:
        pairs = " - ".join(f"{names[key]}:{value}" for key, value in row.items() if key != "step")
        lines.append(f"\x1b[36m(TaskRunner pid=77)\x1b[0m step:{row['step']} - {pairs} - timing_s/gen:2.5")
    return "\n".join(lines)


def as_swift():
    rows = [{key: value for key, value in row.items() if key != "step"} for row in ROWS]
    lines = [row | {"global_step/max_steps": f"{i + 1}/10", "elapsed_time": "6m 42s"} for i, row in enumerate(rows)]
    return "\n".join(json.dumps(line) for line in lines)


FORMS = [value for name, value in sorted(globals().items()) if name.startswith("as_")]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_reads_as_the_same_history(form):
    history = read_text(form(), "the log")
    assert history.steps_known
    assert history.steps.tolist() == [1, 2, 3, 4, 5, 6]
    for name in ("loss", "grad_norm", "reward", "reward_std", "rewards/finance/mean", "epoch"):
        assert history.get(name).values == pytest.approx([row[name] for row in ROWS]), name


def test_a_file_and_its_text_read_alike(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(as_json_lines(), encoding="utf-8")
    assert read_history(path).get("reward").values == pytest.approx(
        read_text(as_json_lines(), "x").get("reward").values
    )


def test_a_file_of_utf_16_reads(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(as_printed(), encoding="utf-16")
    assert read_history(path).rows == 6


def test_nan_missing_and_zero_are_three_things():
    rows = [
        "{'loss': 0.0, 'reward': 0.5, 'kl': 0.1}",
        "{'loss': nan, 'reward': 0.5}",
        "{'loss': 0.1, 'reward': 0.5, 'kl': None}",
    ]
    history = read_text("\n".join(rows), "the log")
    loss, kl = history.get("loss"), history.get("kl")
    assert loss.values[0] == 0
    assert math.isnan(loss.values[1])
    assert kl.steps.tolist() == [1]  # missing on the second row, null on the third
    assert history.nulls["kl"].tolist() == [3]


def test_older_names_are_understood():
    history = read_text(
        "{'loss': 0.1, 'reward': 0.2, 'completion_length': 7.0, 'rewards/f': 0.5, 'clip_ratio': 0.1}", "x"
    )
    assert history.understood["completion_length"] == "completions/mean_length"
    assert history.understood["rewards/f"] == "rewards/f/mean"
    assert history.get("clip_ratio/region_mean").values.tolist() == [0.1]


def test_the_newer_of_two_names_for_one_thing_counts():
    history = read_text("{'reward': 0.2, 'completions/mean_length': 77.5, 'completion_length': 81.0}", "x")
    assert history.get("completions/mean_length").values.tolist() == [77.5]


def test_keys_that_nothing_reads_are_said():
    history = read_text("{'reward': 0.2, 'my_own_key': 1.0}", "x")
    assert history.ignored == ("my_own_key",)


def test_a_second_name_for_what_is_read_already_is_no_unknown_key():
    history = read_text("{'loss': 0.1, 'policy_loss': 0.2, 'entropy_coef': 0.01, 'reward': 0.2}", "x")
    assert history.ignored == ()
    assert history.get("loss").values.tolist() == [0.1]


def test_a_resumed_run_is_joined_and_its_second_try_counts():
    first = [{"step": step, "reward": 0.1} for step in range(1, 9)]
    second = [{"step": step, "reward": 0.9} for step in range(5, 8)]
    history = read_text("\n".join(json.dumps(row) for row in first + second), "x")
    assert history.steps.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert history.get("reward").values.tolist() == [0.1] * 4 + [0.9] * 3
    assert "goes back to step 5" in history.remarks[0]


def test_rows_out_of_order_are_sorted():
    rows = [{"step": step, "reward": float(step)} for step in (5, 1, 4, 2, 3, 6)]
    history = read_text("\n".join(json.dumps(row) for row in rows), "x")
    assert history.get("reward").values.tolist() == [1, 2, 3, 4, 5, 6]
    assert "out of order" in history.remarks[0]


def test_rows_printed_by_two_processes_count_once():
    rows = [{"step": step, "reward": 0.5} for step in (1, 1, 2, 2, 3, 3)]
    assert read_text("\n".join(json.dumps(row) for row in rows), "x").rows == 3


def test_evaluation_rows_are_no_training_rows():
    rows = [
        {"step": 1, "reward": 0.5},
        {"step": 1, "eval_reward": 0.4, "eval_runtime": 3.0},
        {"step": 2, "reward": 0.6},
    ]
    history = read_text("\n".join(json.dumps(row) for row in rows), "x")
    assert history.rows == 2
    assert dict(history.held_out())["reward"].values.tolist() == [0.4]


BAD = {
    "empty": ("", "is empty"),
    "blank": (" \n \n", "is empty"),
    "half a document": (as_trainer_state()[:200], "ends in the middle"),
    "half a list": (as_list()[:4], "broken JSON"),
    "words": ("lorem ipsum dolor sit amet\n" * 40000, "no log rows"),
    "no numbers": ('{"a": "b"}\n{"a": "c"}', "no numbers"),
    "supervised": ("{'loss': 1.2, 'grad_norm': 0.5, 'mean_token_accuracy': 0.7}\n" * 3, "supervised fine-tuning"),
    "preference": ("{'loss': 0.6, 'rewards/chosen': 1.0, 'rewards/rejected': 0.5}\n" * 3, "DPO"),
    "plain loss": ("{'loss': 1.2, 'grad_norm': 0.5}\n" * 3, "no reward"),
    "ppo": ("step:1 - critic/vf_loss:0.1 - actor/pg_loss:0.1 - critic/score/mean:0.5", "value model"),
    "one curve": ("[[1700000000.0, 1, 0.5], [1700000001.0, 2, 0.6]]", "without its name"),
    "a number": ("42", "no log rows"),
}


@pytest.mark.parametrize(("text", "said"), BAD.values(), ids=BAD.keys())
def test_what_is_no_log_of_grpo_is_refused_in_one_sentence(text, said):
    with pytest.raises(LogError, match=said) as caught:
        read_text(text, "the log")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(LogError, match="There is no"):
        read_history(tmp_path / "nothing.json")


def test_a_binary_file_is_said(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(bytes(range(256)) * 4096)
    with pytest.raises(LogError, match="binary"):
        read_history(path)


def test_a_file_that_is_far_too_large_is_refused_without_reading_it(tmp_path):
    path = tmp_path / "huge.log"
    with path.open("wb") as stream:
        stream.truncate(10 * 1024**3)  # sparse: takes no room
    with pytest.raises(LogError, match="larger than 1 GiB"):
        read_history(path)


def test_an_empty_folder_is_said(tmp_path):
    with pytest.raises(LogError, match="holds no log"):
        read_history(tmp_path)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=400))
def test_no_text_raises_anything_but_a_log_error(text):
    with contextlib.suppress(LogError):
        diagnose(read_text(text, "x"))


# fmt: off
PIECES = st.sampled_from([
    "{", "}", "'reward': ", "'loss': ", '"reward": ', "nan", "1e999", "0.5", ",", "\n", "|", "\t", "step:", "None", "[",
    "]", "reward", "-", "1/3", '"log_history": ', "9" * 400, "inf", "'step': ", "-5", "kl", " - ", "--- | ---", "\r",
])
# fmt: on


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_no_ruin_of_a_log_raises_anything_but_a_log_error(text):
    with contextlib.suppress(LogError):
        diagnose(read_text(text, "x"))


# fmt: off
KEYS = st.sampled_from([
    "reward", "reward_std", "loss", "kl", "grad_norm", "entropy", "frac_reward_zero_std", "epoch", "rewards/acc/mean",
    "rewards/format/mean", "completions/clipped_ratio", "eval_accuracy",
])
# fmt: on
VALUES = st.one_of(st.floats(), st.none(), st.integers(), st.text(max_size=3), st.booleans(), st.just([1]), st.just({}))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=8), max_size=25), st.booleans())
def test_any_rows_are_read_and_judged_or_refused(rows, numbered):
    written = [{"step": index, **row} if numbered else row for index, row in enumerate(rows)]
    with contextlib.suppress(LogError), np.errstate(all="ignore"):
        diagnose(read_text(json.dumps({"log_history": written}), "x"))


def test_nesting_without_end_is_one_sentence(tmp_path):
    path = tmp_path / "nested.jsonl"
    path.write_text('{"a": ' * 20_000 + "1" + "}" * 20_000)
    with pytest.raises(LogError):
        read_history(path)
