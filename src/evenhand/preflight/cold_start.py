"""The checks of a cold start: those of a run that ask nothing about rewards or sampling."""

import gc
from collections.abc import Callable
from dataclasses import replace

from evenhand.config import RunConfig
from evenhand.errors import DeviceError, ModelError, RunStopped
from evenhand.models import resolve
from evenhand.preflight.check import Check
from evenhand.preflight.checks.answer_in_prompt import CHECK as ANSWER_IN_PROMPT
from evenhand.preflight.checks.bf16_unsupported import CHECK as BF16_UNSUPPORTED
from evenhand.preflight.checks.completion_budget_too_small import CHECK as COMPLETION_BUDGET_TOO_SMALL
from evenhand.preflight.checks.device_not_usable import CHECK as DEVICE_NOT_USABLE
from evenhand.preflight.checks.dtype_not_pinned import CHECK as DTYPE_NOT_PINNED
from evenhand.preflight.checks.label_wrong import CHECK as LABEL_WRONG
from evenhand.preflight.checks.memory_budget import CHECK as MEMORY_BUDGET
from evenhand.preflight.checks.model_not_loadable import CHECK as MODEL_NOT_LOADABLE
from evenhand.preflight.checks.mps_known_crash import CHECK as MPS_KNOWN_CRASH
from evenhand.preflight.checks.norm_weights_frozen import CHECK as NORM_WEIGHTS_FROZEN
from evenhand.preflight.checks.prompts_too_long import CHECK as PROMPTS_TOO_LONG
from evenhand.preflight.checks.split_overlap import CHECK as SPLIT_OVERLAP
from evenhand.preflight.checks.updates_swallowed import CHECK as UPDATES_SWALLOWED
from evenhand.preflight.checks.versions_not_verified import CHECK as VERSIONS_NOT_VERIFIED
from evenhand.preflight.measure import load_fresh, measure_machine, measure_model
from evenhand.preflight.own_task import as_questions, task_data
from evenhand.preflight.random_state import untouched_random_state
from evenhand.preflight.report import PreflightReport, examine
from evenhand.preflight.run import IN_VAIN
from evenhand.preflight.setup import Machine, Settings, Setup
from evenhand.preflight.update_probe import probe_updates
from evenhand.tasks import task_named
from evenhand.training.coldstart.examples import problems_to_show
from evenhand.training.effective import effective

PROBE = "evenhand.training.coldstart.probe"
EXAMPLES = "examples of the cold start"

COLD_START_CHECKS: tuple[Check, ...] = (
    DEVICE_NOT_USABLE,
    BF16_UNSUPPORTED,
    MPS_KNOWN_CRASH,
    MODEL_NOT_LOADABLE,
    MEMORY_BUDGET,
    LABEL_WRONG,
    ANSWER_IN_PROMPT,
    SPLIT_OVERLAP,
    COMPLETION_BUDGET_TOO_SMALL,
    PROMPTS_TOO_LONG,
    DTYPE_NOT_PINNED,
    NORM_WEIGHTS_FROZEN,
    UPDATES_SWALLOWED,
    VERSIONS_NOT_VERIFIED,
)


def preflight_cold_start(config: RunConfig, say: Callable[[str], None] = lambda _: None) -> PreflightReport:
    """Check a resolved configuration before a cold start; the examples stand first among the splits.

    Raises:
        TaskError, DataError, ConfigurationError: what is wrong with the task, the data folder or the examples.
    """
    with untouched_random_state():
        say("checking examples and settings")
        setup = without_model(config)
        first = examine(setup, COLD_START_CHECKS)
        if any(stop.code in IN_VAIN for stop in first.stops) or setup.machine is None:
            return first
        setup = with_model(setup, setup.machine, config, say)
        return examine(setup, COLD_START_CHECKS)


def without_model(config: RunConfig) -> Setup:
    """Examples, splits, settings and machine."""
    task = task_named(config.task)
    questions = as_questions(task, problems_to_show(config, task))
    data = task_data(task, config.data)
    return Setup(
        data=replace(data, splits={EXAMPLES: questions, **data.splits}),
        settings=settings_of(config, len(questions)),
        machine=measure_machine(config),
    )


def settings_of(config: RunConfig, problems: int) -> Settings:
    """The settings as checks read them: one batch a step, and no reference policy."""
    plan = config.coldstart
    own = {
        "learning_rate": plan.learning_rate,
        "per_device_train_batch_size": plan.batch_size,
        "gradient_accumulation_steps": 1,
        "num_generations": 1,
        "beta": 0.0,
    }
    return Settings(
        asked={},
        train={**effective(config).train, **own},
        problems=problems,
        body=config.precision.body,
        norms=config.precision.norms,
    )


def with_model(setup: Setup, machine: Machine, config: RunConfig, say: Callable[[str], None]) -> Setup:
    """The set-up with the loaded model, and with what three supervised steps do to it."""
    say(f"loading {config.model}")
    try:
        loaded = load_fresh(config, resolve(config.model), machine)
    except (ModelError, DeviceError) as error:
        absent = dict.fromkeys(("model", "updates"), "the model cannot be loaded")
        return replace(setup, absent={**setup.absent, **absent}, load_failure=str(error))
    questions = () if setup.data is None else setup.data.train
    setup = replace(setup, model=measure_model(loaded, config, questions))
    del loaded
    gc.collect()
    say("making three supervised steps in a child process")
    try:
        return replace(setup, updates=probe_updates(config, PROBE))
    except RunStopped as error:
        return replace(setup, absent={**setup.absent, "updates": error.message})
