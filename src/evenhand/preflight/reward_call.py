"""Calling a reward function as the installed TRL calls it, whoever wrote it.

TRL's ``_calculate_rewards`` passes everything by keyword: ``prompts``, ``completions``, ``completion_ids``, every
column of the data but the prompt, ``trainer_state``, ``log_extra`` and ``log_metric``. Completions are strings for
plain prompts and lists of messages for conversational ones. ``None`` becomes NaN, coroutines are awaited, and the
result must hold one number per completion. ``tests/preflight/test_reward_call.py`` compares this file with TRL's own
method.
"""

import asyncio
import contextlib
import copy
import functools
import inspect
import io
import math
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from evenhand.rewards import LARGEST_FLOAT32

FaultKind = Literal["signature", "raised", "hung", "length", "value"]

# Seconds that one call may take: a batch of 32 is scored at every step, and a step of a small model takes seconds.
TIME_LIMIT = 10.0

# Functions that did not return, by identity: their threads cannot be ended, and another call would start one more.
HUNG: dict[int, Callable[..., Any]] = {}

# Columns that TRL does not hand on: trl/trainer/grpo_trainer.py, _calculate_rewards.
NOT_HANDED_ON = ("prompt", "completion", "completion_ids")


@dataclass
class TrainerStateStandIn:
    """The fields of Transformers' ``TrainerState`` before the first step, without importing it."""

    epoch: float | None = None
    global_step: int = 0
    max_steps: int = 0
    logging_steps: int = 1
    eval_steps: int = 500
    save_steps: int = 500
    train_batch_size: int | None = None
    num_train_epochs: int = 0
    num_input_tokens_seen: int = 0
    total_flos: float = 0
    log_history: list[dict[str, float]] = field(default_factory=list)
    best_metric: float | None = None
    best_global_step: int | None = None
    best_model_checkpoint: str | None = None
    is_local_process_zero: bool = True
    is_world_process_zero: bool = True
    is_hyper_param_search: bool = False
    trial_name: str | None = None
    trial_params: dict[str, Any] | None = None
    stateful_callbacks: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a call gave no rewards."""

    kind: FaultKind
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one call of a reward function did.

    Attributes:
        values: One number per completion, NaN where it returned None; empty where ``fault`` says why.
        fault: What went wrong, or None.
        nones: How many of the values were None.
        printed: What it wrote to stdout or stderr.
        changed: Names of the arguments that it changed.
        seconds: How long it took.
    """

    values: tuple[float, ...] = ()
    fault: Fault | None = None
    nones: int = 0
    printed: str = ""
    changed: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Batch:
    """What TRL hands to every reward function of a step: equally long lists, one element per completion."""

    prompts: list[Any]
    completions: list[Any]
    columns: Mapping[str, list[Any]]

    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of a call. Token ids are unknown here: the text's bytes stand in for them."""
        return {
            "prompts": self.prompts,
            "completions": self.completions,
            "completion_ids": [list(str(completion).encode()) for completion in self.completions],
            **{name: values for name, values in self.columns.items() if name not in NOT_HANDED_ON},
            "trainer_state": TrainerStateStandIn(),
            "log_extra": ignore,
            "log_metric": ignore,
        }


def ignore(name: str, value: Any) -> None:
    """Stands in for TRL's ``log_extra`` and ``log_metric``."""
    del name, value


def as_completion(text: str, prompt: Any) -> str | list[dict[str, str]]:
    """A completion of the kind that TRL makes for this prompt: a text, or the assistant's message."""
    return text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]


def is_asynchronous(function: Callable[..., Any]) -> bool:
    """Whether TRL would await it: a coroutine function, or an object whose ``__call__`` is one."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def name_of(function: Callable[..., Any]) -> str:
    """The name under which TRL logs the reward."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def binding_fault(function: Callable[..., Any], keywords: Mapping[str, Any]) -> Fault | None:
    """Why the keywords do not fit the function's signature, or None."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built in, nothing to see
        return None
    parameters = signature.parameters.values()
    takes = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
    required = {
        one.name
        for one in parameters
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    }
    foreign = [] if takes_all else [name for name in keywords if name not in takes]
    missing = sorted(required - keywords.keys())
    said = [f"it does not take {', '.join(foreign)}"] if foreign else []
    said += [f"it needs {', '.join(missing)}"] if missing else []
    if not said:
        return None
    return Fault("signature", f"{name_of(function)}{signature} cannot be called as TRL calls it: {' and '.join(said)}")


def call(
    function: Callable[..., Any], batch: Batch, time_limit: float = TIME_LIMIT, watch_arguments: bool = False
) -> Outcome:
    """Call a reward function once, as TRL would, and report whatever happens.

    The call runs in a thread of its own, since nothing else can be left behind when a function hangs.

    Args:
        function: The reward function, plain or asynchronous.
        batch: What TRL would hand it.
        time_limit: Seconds after which it counts as hung.
        watch_arguments: Whether to notice that it changes its arguments (costs a deep copy).
    """
    keywords = batch.keywords()
    if fault := binding_fault(function, keywords):
        return Outcome(fault=fault)
    if id(function) in HUNG:
        return Outcome(fault=hung_fault(function, time_limit))
    if id(function) in HUNG:
        return Outcome(fault=hung_fault(function, time_limit))
    before = copy.deepcopy(watched(keywords)) if watch_arguments else {}
    printed = io.StringIO()
    run = Run(function, keywords)
    thread = threading.Thread(target=run, daemon=True)
    start = time.perf_counter()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        thread.start()
        thread.join(time_limit)
    seconds = time.perf_counter() - start
    if thread.is_alive():
        HUNG[id(function)] = function
        return Outcome(fault=hung_fault(function, time_limit), seconds=seconds)
    changed = tuple(name for name, value in before.items() if value != keywords[name])
    outcome = run.outcome(len(batch.completions))
    return Outcome(outcome.values, outcome.fault, outcome.nones, printed.getvalue(), changed, seconds)


def hung_fault(function: Callable[..., Any], time_limit: float) -> Fault:
    """The fault of a function that does not come back."""
    return Fault("hung", f"{name_of(function)} did not return within {time_limit:g} s")


def watched(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that belong to the run: changing them changes what the next function sees."""
    return {name: value for name, value in keywords.items() if isinstance(value, list)}


class Run:
    """One call, as a thread's target."""

    def __init__(self, function: Callable[..., Any], keywords: Mapping[str, Any]) -> None:
        self.function = function
        self.keywords = keywords
        self.returned: Any = None
        self.error: BaseException | None = None

    def __call__(self) -> None:
        try:
            result = self.function(**self.keywords)
            self.returned = asyncio.run(result) if is_asynchronous(self.function) else result
            if isinstance(self.returned, Iterable) and not isinstance(self.returned, str | bytes | Mapping):
                self.returned = list(self.returned)
        except BaseException as error:  # the boundary to foreign code: even sys.exit is reported with its line
            self.error = error

    def outcome(self, expected: int) -> Outcome:
        """The rewards, or why there are none."""
        name = name_of(self.function)
        if self.error is not None:
            return Outcome(fault=Fault("raised", f"{name} raised {described(self.error)}"))
        if not isinstance(self.returned, list):
            kind = type(self.returned).__name__
            return Outcome(fault=Fault("value", f"{name} returned a {kind}, not a list of numbers"))
        if len(self.returned) != expected:
            count = f"{len(self.returned)} scores for {expected} completions"
            return Outcome(fault=Fault("length", f"{name} returned {count}"))
        values = [as_number(value) for value in self.returned]
        if any(value is None for value in values):
            wrong = self.returned[values.index(None)]
            return Outcome(fault=Fault("value", f"{name} returned {wrong!r} ({type(wrong).__name__}), not a number"))
        numbers = tuple(value for value in values if value is not None)
        return Outcome(values=numbers, nones=sum(value is None for value in self.returned))


def as_number(value: Any) -> float | None:
    """The number that TRL's tensor would hold (NaN for None), or None where it would refuse the value."""
    if value is None:
        return math.nan
    if isinstance(value, str | bytes):
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: a tensor of several elements
        return None
    return math.copysign(math.inf, number) if abs(number) > LARGEST_FLOAT32 else number


def described(error: BaseException) -> str:
    """Type and message of an error, with the place in the user's file where it arose."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (line {frames[-1].lineno} of {frames[-1].filename})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def call_each(function: Callable[..., Any], batch: Batch, time_limit: float = TIME_LIMIT) -> list[Outcome]:
    """One call per completion, to find the one that a failing call fails on."""
    outcomes = []
    for index in range(len(batch.completions)):
        columns = {name: [values[index]] for name, values in batch.columns.items()}
        single = Batch([batch.prompts[index]], [batch.completions[index]], columns)
        outcomes.append(call(function, single, time_limit))
    return outcomes


def batch_of(prompts: Sequence[Any], texts: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Batch:
    """A batch from prompts, completion texts and the rows beside them."""
    names = list(rows[0]) if rows else []
    return Batch(
        list(prompts),
        [as_completion(text, prompt) for text, prompt in zip(texts, prompts, strict=True)],
        {name: [row[name] for row in rows] for name in names},
    )
