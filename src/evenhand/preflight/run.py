"""All checks of a configuration: first what needs no model, then one load, one set of samples and the update probe."""

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from evenhand.config import Draft, RunConfig
from evenhand.errors import DeviceError, ModelError, RunStopped
from evenhand.models import resolve
from evenhand.models.loading import Loaded
from evenhand.preflight.check import present
from evenhand.preflight.measure import (
    load_fresh,
    measure_machine,
    measure_model,
    measure_samples,
    norm_sizes,
    sampler_of,
)
from evenhand.preflight.own_task import reward_weights, task_data, task_study
from evenhand.preflight.random_state import untouched_random_state
from evenhand.preflight.report import PreflightReport, examine
from evenhand.preflight.reward_study import RewardsFailed
from evenhand.preflight.setup import Settings, Setup
from evenhand.preflight.update_probe import probe_updates
from evenhand.tasks import Task, task_named
from evenhand.training.effective import Effective, effective, settle

Say = Callable[[str], None]

# Findings of these end the look before the model is loaded: it would fail, or be sampled for nothing.
IN_VAIN = {
    "setting-refused",
    "group-size-one",
    "batch-not-divisible",
    "accumulation-count-zero",
    "device-not-usable",
    "bf16-unsupported-here",
    "mps-known-crash",
    "split-empty",
    "reward-signature",
    "reward-wrong-length",
}


def run_preflight(
    config: RunConfig, *, with_model: bool = True, with_probe: bool = True, say: Say = lambda _: None
) -> PreflightReport:
    """Check a resolved configuration. Neither the process's random state nor any file but the data folder changes.

    Args:
        config: As ``training.arguments.resolve`` gives it.
        with_model: Whether the model is loaded and sampled.
        with_probe: Whether three real steps are made in a child process.
        say: Called with a line about what is being done.

    Raises:
        TaskError: the task is unknown.
        DataError: the data folder is damaged or of another version.
    """
    return look(effective(config), with_model, with_model and with_probe, say)


def preflight_draft(
    drafted: Draft, *, with_model: bool = True, with_probe: bool = True, say: Say = lambda _: None
) -> PreflightReport:
    """The same for a configuration that TRL or the device may refuse: the refusal becomes a finding.

    Raises:
        ConfigurationError, TaskError: faults of the file itself.
        DataError: the data folder is damaged or of another version.
    """
    return look(settle(drafted), with_model, with_model and with_probe, say)


def look(asked: Effective, with_model: bool, with_probe: bool, say: Say) -> PreflightReport:
    """Gather the parts one after the other, and examine them."""
    with untouched_random_state():
        say("checking data, rewards and settings")
        setup = without_model(asked)
        first = examine(setup)
        reason = None if with_model else "asked for without a model"
        reason = reason or next((f"{stop.code} comes first" for stop in first.stops if stop.code in IN_VAIN), None)
        if reason is not None:
            return examine(replace(setup, absent={**setup.absent, **absent_parts(reason)}))
        setup, facts = with_the_model(setup, asked, with_probe, say)
        report = examine(setup)
        return replace(report, facts=facts)


def absent_parts(reason: str) -> dict[str, str]:
    """The parts that need the model, with why they were not looked at."""
    return dict.fromkeys(("model", "samples", "updates"), reason)


def without_model(asked: Effective) -> Setup:
    """Data, rewards, settings and machine."""
    config = asked.config
    task = task_named(config.task)
    data = task_data(task, config.data)
    return Setup(
        data=data,
        rewards=task_study(task, data.train, reward_weights(asked.train)),
        settings=settings_of(asked, task, len(data.train)),
        machine=measure_machine(config),
    )


def settings_of(asked: Effective, task: Task, problems: int) -> Settings:
    """The settings as checks read them."""
    config = asked.config
    return Settings(
        asked=config.train,
        train=asked.train,
        problems=problems,
        processes=int(asked.train.get("world_size") or 1),
        body=config.precision.body,
        norms=config.precision.norms,
        evaluate_every=config.evaluation.every,
        evaluation_problems=task.splits[config.evaluation.split].size,
        metric=config.selection.metric,
        metrics=task.metrics,
        refused=asked.refused,
    )


def with_the_model(setup: Setup, asked: Effective, with_probe: bool, say: Say) -> tuple[Setup, dict[str, Any]]:
    """One load and one set of samples for all checks, then the probe; a model that cannot be loaded is said once."""
    config = asked.config
    facts: dict[str, Any] = {}
    machine, data = present(setup.machine), present(setup.data)
    say(f"loading {config.model}")
    try:
        loaded = load_fresh(config, resolve(config.model), machine)
    except (ModelError, DeviceError) as error:
        reason = absent_parts("the model cannot be loaded")
        return replace(setup, absent={**setup.absent, **reason}, load_failure=str(error)), facts
    setup = replace(setup, model=measure_model(loaded, config, data.train))
    facts["norm_weights"] = dict(zip(("10 %", "50 %", "90 %"), norm_sizes(loaded), strict=True))
    say("sampling the fresh model")
    setup = sampled(setup, loaded, asked)
    del loaded
    gc.collect()
    if not with_probe:
        return replace(setup, absent={**setup.absent, "updates": "asked for without the probe"}), facts
    say("making three real optimiser steps in a child process")
    return probed(setup, config), facts


def sampled(setup: Setup, loaded: Loaded, asked: Effective) -> Setup:
    """The set-up with samples, or with the reason why there are none."""
    try:
        samples = measure_samples(
            sampler_of(loaded, asked.config, asked.train),
            present(setup.rewards),
            task_named(asked.config.task),
            int(asked.train.get("seed") or 0),
        )
    except RewardsFailed as error:
        return replace(setup, absent={**setup.absent, "samples": str(error)})
    return replace(setup, samples=samples)


def probed(setup: Setup, config: RunConfig) -> Setup:
    """The set-up with what three steps did, or with the reason why they were not made."""
    try:
        return replace(setup, updates=probe_updates(config))
    except RunStopped as error:
        return replace(setup, absent={**setup.absent, "updates": error.message})
