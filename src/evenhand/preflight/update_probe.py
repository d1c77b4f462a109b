"""Asks the parameter-update probe, which runs in a process of its own (``evenhand.training.probe``)."""

from typing import Any

from evenhand.config import RunConfig
from evenhand.errors import RunStopped
from evenhand.preflight.check import Check
from evenhand.preflight.checks.norm_weights_frozen import CHECK as NORM_WEIGHTS_FROZEN
from evenhand.preflight.checks.updates_swallowed import CHECK as UPDATES_SWALLOWED
from evenhand.preflight.child import run_child
from evenhand.preflight.setup import GroupUpdate, Updates

MODULE = "evenhand.training.probe"
TIME_LIMIT = 1800.0
CHECKS: tuple[Check, ...] = (NORM_WEIGHTS_FROZEN, UPDATES_SWALLOWED)  # what the probe alone can judge


def probe_updates(config: RunConfig, module: str = MODULE) -> Updates:
    """Three real steps in a child process, which ``module`` makes.

    Raises:
        RunStopped: the child did not come to an end; the message says how it ended.
    """
    end = run_child(module, config.model_dump(mode="json"), TIME_LIMIT)
    if end.failure:
        raise RunStopped(f"The parameter-update probe found nothing: {end.failure}.", "Run it alone: evenhand probe")
    return read_answer(end.answer)


def read_answer(answer: dict[str, Any]) -> Updates:
    """The child's answer as a record."""
    groups = tuple(GroupUpdate(**group) for group in answer["groups"])
    return Updates(
        steps=answer["steps"],
        learning_rate=answer["learning_rate"],
        groups=groups,
        seconds=answer["seconds"],
        completions=answer["completions"],
        stale=answer["stale"],
        spread=answer["spread"],
    )
