"""A run's configuration: a TOML file plus flags, as one frozen record.

Evenhand has few fields of its own. Everything under ``[train]`` is TRL's ``GRPOConfig``, under TRL's own names; it is
checked against the installed version in ``training/arguments.py``, and the faults of both are reported together.
"""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenhand.errors import ConfigurationError

DataType = Literal["float32", "bfloat16", "float16"]
DEFAULT_CONFIGURATION = "embedded"


class Table(BaseModel):
    """A table of the configuration: frozen, and no key is ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Precision(Table):
    """Real dtypes of the weights, which no trainer switch tells."""

    body: DataType = "float32"
    norms: DataType = "float32"


class EvaluationPlan(Table):
    """When the model is scored, and on what. ``test`` is out of reach here."""

    every: int = Field(default=10, ge=1, description="optimiser steps between two evaluations; step 0 is always scored")
    split: Literal["dev", "train"] = "dev"
    batch_size: int = Field(default=50, ge=1, description="prompts decoded together")


class SelectionRule(Table):
    """How a checkpoint will be chosen, written down before training."""

    metric: str | None = Field(default=None, description="a metric of the task; None takes the task's goal")
    tie: Literal["earliest", "latest"] = "earliest"
    within_noise: bool = Field(
        default=False, description="take the earliest checkpoint that is not worse than the best beyond noise"
    )


class PreflightPlan(Table):
    """What preflight may find without stopping the run."""

    accept: tuple[str, ...] = Field(default=(), description="codes of findings that are known and intended")


class WatchdogPlan(Table):
    """Which findings end a run by themselves, after a checkpoint is saved."""

    enabled: bool = True
    stop_on: tuple[str, ...] = ("weights-are-nan", "collapsed-identical-rollouts")


class ColdStartPlan(Table):
    """Supervised training on gold texts before GRPO (`evenhand coldstart`): how much of it, and when it ends."""

    examples: int = Field(default=480, ge=1, description="most problems shown, each once")
    batch_size: int = Field(default=8, ge=1, description="examples of an optimiser step, in one pass")
    learning_rate: float = Field(default=1e-4, gt=0, allow_inf_nan=False)
    lr_scheduler_type: Literal["constant_with_warmup", "linear"] = Field(
        default="constant_with_warmup", description="linear: down to 0 at the last example"
    )
    warmup_steps: int = Field(default=5, ge=0)
    every: int = Field(default=10, ge=1, description="optimiser steps between two evaluations; step 0 is always scored")
    stop_metric: str | None = Field(
        default=None, description="a metric of the task whose first evaluation at `stop_at` or above is the end"
    )
    stop_at: float = Field(default=1.0, gt=0, le=1, description="a share: 0.4 is 40 %")
    seed: int = Field(default=42, ge=0, le=2**32 - 1)  # what NumPy takes
    data: Path | None = Field(default=None, description="JSON lines of problems; None: the task draws them")


class RunConfig(Table):
    """One run. ``train`` holds TRL's fields as the user wrote them."""

    task: str = "stepwise-parity"
    model: str = "embedded"
    data: Path = Path("data")
    runs: Path = Path("runs")
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    engine: Literal["prefix-tree", "plain"] = "prefix-tree"
    credit: Literal["completion", "line"] = "completion"
    resample: int = Field(
        default=0, ge=0, description="further rounds at most in which fresh prompts replace groups without spread"
    )
    precision: Precision = Precision()
    evaluation: EvaluationPlan = EvaluationPlan()
    selection: SelectionRule = SelectionRule()
    preflight: PreflightPlan = PreflightPlan()
    watchdog: WatchdogPlan = WatchdogPlan()
    coldstart: ColdStartPlan = ColdStartPlan()
    train: Mapping[str, Any] = Field(default_factory=dict)

    def to_toml(self) -> str:
        """The configuration as a file that gives this configuration again."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))


@dataclass(frozen=True, slots=True)
class Draft:
    """A configuration before its faults are reported: merged values, and what is wrong with Evenhand's own part."""

    values: Mapping[str, Any]
    faults: tuple[str, ...]

    @property
    def train(self) -> Mapping[str, Any]:
        """The ``[train]`` table, or nothing where it is no table."""
        table = self.values.get("train", {})
        return table if isinstance(table, Mapping) else {}


def shipped_configurations() -> tuple[str, ...]:
    """Names of the configurations that come with Evenhand."""
    folder = resources.files("evenhand") / "configs"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def draft(source: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> Draft:
    """Merge a configuration (a shipped name or a file; None takes the default) with flags, and collect its faults.

    ``overrides`` has dotted keys (``evaluation.every``); a key that is none of Evenhand's belongs to ``[train]``.

    Raises:
        ConfigurationError: the file is missing or no TOML.
    """
    values = read(str(source) if source is not None else DEFAULT_CONFIGURATION)
    for key, value in (overrides or {}).items():
        place(values, key, value)
    return Draft(values, tuple(own_faults(values)))


def finish(drafted: Draft, train: Mapping[str, Any] | None = None, faults: Iterable[str] = ()) -> RunConfig:
    """The frozen configuration.

    Args:
        drafted: What :func:`draft` returned.
        train: The ``[train]`` table after it was checked; None keeps the drafted one.
        faults: What was found wrong elsewhere.

    Raises:
        ConfigurationError: all faults, one a line.
    """
    every = [*drafted.faults, *faults]
    if every:
        many = f"The configuration has {len(every)} faults" if len(every) > 1 else "The configuration has a fault"
        raise ConfigurationError(f"{many}:\n" + "\n".join(f"  {fault}" for fault in every))
    values = dict(drafted.values)
    return RunConfig.model_validate({**values, "train": dict(train if train is not None else drafted.train)})


def read(source: str) -> dict[str, Any]:
    """The TOML of a shipped configuration or a file. Raises ConfigurationError where there is none."""
    if source in shipped_configurations():
        text = (resources.files("evenhand") / "configs" / f"{source}.toml").read_text(encoding="utf-8")
        return tomllib.loads(text)
    path = Path(source)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        names = ", ".join(shipped_configurations())
        raise ConfigurationError(f"There is no configuration {source}.", f"Name a file or one of: {names}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"The configuration {source} cannot be read: {error}.", "Name a TOML file.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{source} is not valid TOML: {error}.", "Mend that line.") from error


def parse_assignment(text: str) -> tuple[str, Any]:
    """``KEY=VALUE`` of a flag; the value is read as TOML, and as plain text where it is none.

    Raises:
        ConfigurationError: no equals sign.
    """
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise ConfigurationError(f"--set {text} has no value.", "Write --set KEY=VALUE.")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        named = {"True": True, "False": False}  # as Python users write them
        return key.strip(), named.get(value.strip(), value.strip())


def place(values: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key; one whose first part is not Evenhand's goes to ``[train]``."""
    parts = key.split(".")
    if parts[0] not in RunConfig.model_fields:
        parts = ["train", *parts]
    table = values
    for part in parts[:-1]:
        inner = table.get(part)
        table[part] = dict(inner) if isinstance(inner, Mapping) else {}
        table = table[part]
    table[parts[-1]] = value


def own_faults(values: Mapping[str, Any]) -> list[str]:
    """What is wrong with Evenhand's own fields, a sentence each."""
    try:
        RunConfig.model_validate(dict(values))
    except ValidationError as error:
        return [sentence(detail) for detail in error.errors()]
    return []


def sentence(detail: Mapping[str, Any]) -> str:
    """One of pydantic's errors in plain words, with a near match for an unknown key."""
    where = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"{where}: unknown key.{near_match(str(detail['loc'][-1]), known_keys(detail['loc'][:-1]))}"
    given = repr(detail["input"])
    message = detail["msg"][0].lower() + detail["msg"][1:]
    near = near_match(detail["input"], literal_choices(detail)) if isinstance(detail["input"], str) else ""
    return f"{where} = {given}: {message}.{near}"


def literal_choices(detail: Mapping[str, Any]) -> list[str]:
    """The choices named in one of pydantic's literal errors."""
    expected = str(detail.get("ctx", {}).get("expected", ""))
    return [choice.strip("'") for choice in expected.replace(" or ", ", ").split(", ") if choice]


def known_keys(tables: Iterable[Any]) -> list[str]:
    """The keys of a table of the configuration."""
    model: type[BaseModel] = RunConfig
    for name in tables:
        annotation = model.model_fields[str(name)].annotation
        if not isinstance(annotation, type) or not issubclass(annotation, BaseModel):
            return []
        model = annotation
    return list(model.model_fields)


def near_match(word: str, choices: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` or nothing."""
    near = difflib.get_close_matches(word, list(choices), n=1)
    return f" Did you mean '{near[0]}'?" if near else ""
