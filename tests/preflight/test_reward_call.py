"""A reward function is called as the installed TRL calls it, and whatever it does comes back as an outcome."""

import asyncio
import dataclasses
import functools
import math
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from accelerate import PartialState
from transformers import TrainerState
from trl import GRPOTrainer

from evenhand.preflight.reward_call import (
    Batch,
    TrainerStateStandIn,
    as_completion,
    batch_of,
    call,
    call_each,
    is_asynchronous,
    name_of,
)

ROWS = [{"answer": 1, "kind": "a"}, {"answer": 2, "kind": "b"}, {"answer": 3, "kind": "c"}]
MESSAGES = [({"role": "user", "content": f"question {row['answer']}"},) for row in ROWS]


def batch(prompts=("p1", "p2", "p3"), texts=("1", "x", "3")):
    return batch_of(prompts, texts, ROWS)


def trl_calculates(function, given: Batch):
    """The rewards that TRL's own method computes, and the keywords with which it calls."""
    seen = {}

    @functools.wraps(function)
    def watching(**keywords):
        seen.update(keywords)
        return function(**keywords)

    @functools.wraps(function)
    async def watching_asynchronously(**keywords):
        seen.update(keywords)
        return await function(**keywords)

    stand_in = SimpleNamespace(
        accelerator=SimpleNamespace(device=torch.device("cpu"), is_main_process=False),
        reward_funcs=[watching_asynchronously if is_asynchronous(function) else watching],
        reward_processing_classes=[None],
        reward_func_names=[name_of(function)],
        state=TrainerState(),
        environments=None,
        args=SimpleNamespace(report_to=[]),
        _log_completion_extra=lambda column, values: None,
        _log_metric=lambda name, value: None,
        async_loop=asyncio.new_event_loop(),
    )
    PartialState()  # TRL's logger asks for it
    thread = threading.Thread(target=stand_in.async_loop.run_forever, daemon=True)
    thread.start()
    rows = [dict(zip(given.columns, values, strict=True)) for values in zip(*given.columns.values(), strict=True)]
    inputs = [{"prompt": prompt, **row} for prompt, row in zip(given.prompts, rows, strict=True)]
    ids = given.keywords()["completion_ids"]
    values = GRPOTrainer._calculate_rewards(stand_in, inputs, given.prompts, given.completions, ids)
    stand_in.async_loop.call_soon_threadsafe(stand_in.async_loop.stop)
    return values[:, 0].tolist(), seen


def right(completions, answer, **_):
    return [None if c == "x" else float(str(a) in str(c)) for c, a in zip(completions, answer, strict=True)]


async def right_later(completions, answer, **keywords):
    await asyncio.sleep(0)
    return right(completions, answer, **keywords)


def tensors(completions, **_):
    return torch.arange(len(completions), dtype=torch.float32)


@pytest.mark.parametrize("function", [right, right_later, tensors])
@pytest.mark.parametrize("prompts", [("p1", "p2", "p3"), MESSAGES], ids=["texts", "messages"])
def test_values_and_keywords_are_those_of_trl(function, prompts):
    given = batch(prompts)
    expected, keywords = trl_calculates(function, given)
    outcome = call(function, given)
    assert outcome.fault is None
    assert outcome.values == pytest.approx(expected, nan_ok=True)
    assert given.keywords().keys() == keywords.keys()
    assert all(given.keywords()[name] == keywords[name] for name in ("prompts", "completions", "answer", "kind"))


def test_the_trainer_s_state_has_the_fields_of_transformers_own():
    assert {f.name for f in dataclasses.fields(TrainerStateStandIn)} == {
        f.name for f in dataclasses.fields(TrainerState)
    }


def test_completions_are_texts_for_plain_prompts_and_messages_for_conversations():
    assert as_completion("yes", "prompt") == "yes"
    assert as_completion("yes", MESSAGES[0]) == [{"role": "assistant", "content": "yes"}]


def positional(completions, answer):
    return [0.0] * len(completions)


def wants_solution(completions, solution, **_):
    return [0.0] * len(completions)


def raises_on_x(completions, answer, **_):
    return [float(int(c) == a) for c, a in zip(completions, answer, strict=True)]


def one_value(completions, **_):
    return [1.0]


def strings(completions, **_):
    return ["1.0"] * len(completions)


def scalar(completions, **_):
    return 1.0


def sleeps(completions, **_):
    time.sleep(5)
    return [0.0] * len(completions)


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (positional, "signature", "completion_ids"),
        (wants_solution, "signature", "solution"),
        (raises_on_x, "raised", "ValueError"),
        (one_value, "length", "1 scores for 3 completions"),
        (strings, "value", "'1.0' (str)"),
        (scalar, "value", "float"),
        (sleeps, "hung", "0.2 s"),
    ],
)
def test_what_goes_wrong_is_told_by_kind(function, kind, words):
    fault = call(function, batch(), time_limit=0.2).fault
    assert fault.kind == kind
    assert words in fault.message


def test_a_function_that_hung_is_not_called_again():
    def hangs(completions, **_):
        time.sleep(3)

    call(hangs, batch(), time_limit=0.05)
    start = time.perf_counter()
    assert call(hangs, batch(), time_limit=2.0).fault.kind == "hung"
    assert time.perf_counter() - start < 1.0


def test_the_completion_that_makes_a_function_raise_is_found():
    assert [outcome.fault is not None for outcome in call_each(raises_on_x, batch())] == [False, True, False]


def test_printing_changing_and_none_are_noticed():
    def careless(completions, answer, **_):
        print("scoring")
        answer.reverse()
        return [None, math.nan, 1.0]

    outcome = call(careless, batch(), watch_arguments=True)
    assert outcome.printed == "scoring\n"
    assert outcome.changed == ("answer",)
    assert outcome.nones == 1
    assert [math.isnan(value) for value in outcome.values] == [True, True, False]


def test_names_are_those_that_trl_logs():
    class Judge:
        def __call__(self, completions, **_):
            return [0.0] * len(completions)

    assert [name_of(f) for f in (right, functools.partial(right, k=1), Judge())] == ["right", "right", "Judge"]
