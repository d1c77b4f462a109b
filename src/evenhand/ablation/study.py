"""A study: one base configuration, arms that differ in declared settings only, and seeds shared by all arms."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from evenhand.config import RunConfig, Table, draft, near_match, sentence
from evenhand.errors import ConfigurationError, EvenhandError
from evenhand.tasks import task_named
from evenhand.training import arguments

SEED = "train.seed"
GOAL = "goal"  # in a study's metrics: the goal of the arm's own task
MEAN = "mean:"  # before a metric: its mean over all evaluations after step 0, which tells how fast an arm learns


class Until(Table):
    """A measure of sample efficiency: completions until a metric of the evaluated split first stays at a bound."""

    metric: str
    at_least: float = Field(ge=0, le=1, allow_inf_nan=False)


class Study(Table):
    """A study as its TOML file says it.

    A metric is judged at the last evaluation, or with ``mean:`` before it over all evaluations after step 0. Both are
    fixed before training; a chosen checkpoint would add the luck of choosing.
    ``until`` asks for sample efficiency besides.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    question: str
    configuration: str = "embedded"
    varies: tuple[str, ...] = Field(min_length=1, description="dotted keys in which arms may differ")
    seeds: tuple[int, ...] = Field(min_length=1)
    metrics: tuple[str, ...] = (GOAL,)
    until: Until | None = None
    reference: str = Field(description="the arm that every other one is compared with")
    preflight: bool = True
    accepts: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict, description="by arm: findings of preflight that the study is about, and that stop no run"
    )
    shared: Mapping[str, Any] = Field(default_factory=dict, alias="set", description="settings of all arms")
    arms: Mapping[str, Mapping[str, Any]] = Field(min_length=2)

    @property
    def own(self) -> tuple[str, ...]:
        """Keys that a trial has for itself: those in which arms differ, and the seed."""
        return (*self.varies, SEED)


@dataclass(frozen=True, slots=True)
class Trial:
    """One arm with one seed."""

    arm: str
    seed: int
    config: RunConfig

    @property
    def name(self) -> str:
        """Its folder inside the study's."""
        return f"{self.arm}/seed-{self.seed}"


def shipped_studies() -> tuple[str, ...]:
    """Names of the studies that come with Evenhand."""
    folder = resources.files("evenhand.ablation") / "studies"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def read_study(source: str, reference: str | None = None, shared: Mapping[str, Any] | None = None) -> Study:
    """A study of a shipped name or a file.

    Args:
        source: The name or the path.
        reference: The arm to compare with, instead of the study's own.
        shared: Dotted settings of all arms, which count before those of its ``[set]``.

    Raises:
        ConfigurationError: there is none, it is no TOML, or it has faults, all of which are named.
    """
    values = read_toml(source) | ({"reference": reference} if reference else {})
    if shared:
        values["set"] = replaced(values.get("set", {}), shared)
    try:
        study = Study.model_validate(values)
    except ValidationError as error:
        raise faulty(source, [fault_of(detail) for detail in error.errors()]) from error
    faults = study_faults(study) + [
        f"--set {key}: every arm has its own." for key in map(whole_key, shared or {}) if declared(key, study.own)
    ]
    if faults:
        raise faulty(source, faults)
    return study


def replaced(settings: Any, others: Mapping[str, Any]) -> Any:
    """Settings of ``[set]`` with others in their places; what is no table is left for the study's own check."""
    if not isinstance(settings, Mapping):
        return settings
    given = {whole_key(key): value for key, value in others.items()}
    return {key: value for key, value in dotted(settings).items() if whole_key(key) not in given} | given


def whole_key(key: str) -> str:
    """A dotted key with its table: one that is none of Evenhand's own is the trainer's."""
    return key if key.partition(".")[0] in RunConfig.model_fields else f"train.{key}"


def fault_of(detail: Mapping[str, Any]) -> str:
    """One of pydantic's errors in plain words; an unknown key is compared with those of its own table."""
    if detail["type"] != "extra_forbidden":
        return sentence(detail)
    *above, key = map(str, detail["loc"])
    fields = (Until if above else Study).model_fields
    known = [field.alias or name for name, field in fields.items()]
    return f"{'.'.join([*above, key])}: unknown key.{near_match(key, known)}"


def read_toml(source: str) -> dict[str, Any]:
    """The content of a study's file."""
    try:
        if source in shipped_studies():
            place = resources.files("evenhand.ablation") / "studies" / f"{source}.toml"
            return tomllib.loads(place.read_text(encoding="utf-8"))
        return tomllib.loads(Path(source).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        names = ", ".join(shipped_studies())
        raise ConfigurationError(f"There is no study {source}.", f"Name a file or one of: {names}.") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"The study {source} does not read: {error}.", "Mend the file.") from error


def study_faults(study: Study) -> list[str]:
    """What pydantic cannot see: arms that differ in more than they declare, a reference that is no arm."""
    faults = []
    if study.reference not in study.arms:
        faults.append(f"reference: '{study.reference}' is none of the arms ({', '.join(study.arms)}).")
    if len(set(study.seeds)) < len(study.seeds):
        faults.append("seeds: a seed stands twice, which would count one run as two.")
    for name, settings in study.arms.items():
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
            faults.append(f"arms.{name}: use letters, digits, '-', '_' and '.' in a name.")
        undeclared = [key for key in dotted(settings) if not declared(key, study.varies)]
        if undeclared:
            faults.append(f"arms.{name}: sets {', '.join(undeclared)}, which 'varies' does not declare.")
    faults += [f"accepts.{name}: there is no such arm." for name in study.accepts if name not in study.arms]
    if any(declared(SEED, (key,)) for key in study.varies):
        faults.append("varies: the seed is what repeats an arm, not what sets it apart.")
    return faults


def trials_of(study: Study) -> list[Trial]:
    """Every arm with every seed, all checked before the first begins; seed by seed, so that all arms advance together.

    Raises:
        ConfigurationError: the faults of all arms, or arms that differ in more than they declare once resolved.
    """
    faults: list[str] = []
    found: list[Trial] = []
    for seed in study.seeds:
        for arm, settings in study.arms.items():
            overrides = {**dotted(study.shared), **dotted(settings), SEED: seed}
            try:
                found.append(Trial(arm, seed, arguments.resolve(draft(study.configuration, overrides))))
            except EvenhandError as error:
                several = error.message.split("\n")  # a head, then a fault a line
                faults += [f"arms.{arm}: {line.strip()}" for line in several[1:] or several]
    configs = {trial.arm: trial.config for trial in found}
    faults += difference_faults(study, configs) + until_faults(study, configs)
    if faults:
        raise faulty(study.name, list(dict.fromkeys(faults)))
    return found


def difference_faults(study: Study, configs: Mapping[str, RunConfig]) -> list[str]:
    """Settings in which resolved arms differ from the reference without declaring it."""
    reference = configs.get(study.reference)
    if reference is None:
        return []
    faults = []
    for arm, config in configs.items():
        undeclared = [key for key in differences(config, reference) if not declared(key, study.own)]
        if undeclared:
            faults.append(
                f"arms.{arm}: differs from {study.reference} in {', '.join(undeclared)}, undeclared in 'varies'."
            )
    return faults


def until_faults(study: Study, configs: Mapping[str, RunConfig]) -> list[str]:
    """Arms that ``until`` cannot measure, since their task has no such metric."""
    if study.until is None:
        return []
    tasks = {arm: task_named(config.task) for arm, config in configs.items()}
    metric = study.until.metric
    return [
        f"until.metric: '{metric}' is no metric of the task of arms.{arm}.{near_match(metric, task.metrics)}"
        for arm, task in tasks.items()
        if metric not in task.metrics
    ]


def differences(first: RunConfig, second: RunConfig) -> list[str]:
    """Dotted keys in which two configurations differ."""
    a, b = dotted(first.model_dump(mode="json")), dotted(second.model_dump(mode="json"))
    return [key for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)]


def declared(key: str, keys: Iterable[str]) -> bool:
    """Whether a dotted key, or a table that holds it, is among ``keys``."""
    return any(key == one or key.startswith(f"{one}.") for one in keys)


def dotted(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= dotted(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def faulty(source: str, faults: list[str]) -> ConfigurationError:
    """One error for all faults."""
    return ConfigurationError(f"The study {source} has faults:\n" + "\n".join(f"  {fault}" for fault in faults))
