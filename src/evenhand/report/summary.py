"""The page in words and tables: what was run, what it reached, what it saw, and on what it ran."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.paired import PairedDifference, paired_difference
from evenhand.records import Evaluation
from evenhand.report.reading import RunView, table

UNKNOWN = "not recorded"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the page; cells are text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


# -- sentences -------------------------------------------------------------------------------------------------------


def sentences(run: RunView) -> list[str]:
    """What was run and what it reached, for somebody who has not seen the project before."""
    return [sentence for sentence in (what_was_run(run), what_it_reached(run), what_test_says(run)) if sentence]


def tellings(runs: Sequence[RunView]) -> list[tuple[RunView, list[str]]]:
    """Every run with its sentences; how it was run, and that test was not scored, are said once if they agree."""
    said: set[str] = set()
    told = []
    for run in runs:
        common = {what_was_run(run)} if tests_of(run) else {what_was_run(run), what_test_says(run)}
        told.append((run, [sentence for sentence in sentences(run) if sentence not in common & said]))
        said |= common
    return told


def what_was_run(run: RunView) -> str:
    """Model, task and steps."""
    steps = run.metrics[-1].step if run.metrics else 0
    about = f" ({run.task.summary})" if run.task else ""
    if run.configuration is None:
        return f"A model was trained for {steps} optimiser steps by a script of its own."
    if run.cold_start:
        shown = run.configuration.coldstart.batch_size * steps
        return (
            f"A cold start: the model {run.configuration.model} was shown {shown} problems of the task "
            f"{run.configuration.task}{about} with their right answers, none of which stands in a split."
        )
    return (
        f"The model {run.configuration.model} practised the task {run.configuration.task}{about} "
        f"for {steps} optimiser steps: in each, it answers some problems several times, and what earns more than its "
        "siblings becomes more likely (GRPO)."
    )


def what_it_reached(run: RunView) -> str:
    """The chosen checkpoint beside the model before training."""
    metric, after, before = run.selection.get("metric"), run.shown_evaluation, run.first_evaluation
    if after is None:
        return ""
    if metric not in after.metrics:
        metric = next(iter(after.metrics))
    reached = f"{rate(after, metric)} by {metric}, on {after.n} {after.split} problems that it was not trained on"
    kept = f"The kept checkpoint, step {after.step}," if run.chosen_step == after.step else f"Step {after.step}"
    if before is None or before.step == after.step:
        return f"{kept} reaches {reached}."
    gain = paired_or_none(before, after, str(metric))
    judged = "" if gain is None else f" ({difference_text(gain)})"
    return f"{kept} reaches {reached}; before training it was {rate(before, metric)}{judged}."


def what_test_says(run: RunView) -> str:
    """The recorded test, or that there is none."""
    record = last_test(run)
    if not record:
        return "It was not scored on the test problems, so how much of this is luck in choosing is not known."
    metric = str(record.get("metric"))
    selected, base = table(record.get("selected")), table(record.get("base"))
    difference = table(table(record.get("difference")).get(metric))
    again = " Test was scored more than once, which weakens it." if len(tests_of(run)) > 1 else ""
    return (
        f"On {record.get('n')} test problems that nobody tuned on: {percent(selected.get(metric))} against "
        f"{percent(base.get(metric))} before training, a difference of {signed(difference.get('value'))} "
        f"({interval_text(difference.get('interval'), signed)}).{again}"
    )


def tests_of(run: RunView) -> list[Mapping[str, Any]]:
    """Every recorded test of a run, in order."""
    records = run.test.get("records")
    return [table(record) for record in records] if isinstance(records, list) else []


def last_test(run: RunView) -> Mapping[str, Any]:
    """The latest recorded test, or nothing."""
    records = tests_of(run)
    return records[-1] if records else {}


def paired_or_none(first: Evaluation, second: Evaluation, metric: str) -> PairedDifference | None:
    """The paired difference, where both were scored on the same problems."""
    a, b = first.outcomes.get(metric, ()), second.outcomes.get(metric, ())
    same = first.split == second.split and first.expected == second.expected
    return paired_difference(a, b) if same and len(a) == len(b) > 0 else None


# -- tables ----------------------------------------------------------------------------------------------------------


def overview(runs: Sequence[RunView]) -> Table:
    """One row per run: what sets it apart, the chosen checkpoint, and the test where there is one."""
    apart = differing_settings(runs)
    rows = []
    for run in runs:
        evaluation, test = run.shown_evaluation, last_test(run)
        metric = run.selection.get("metric") or (next(iter(evaluation.metrics)) if evaluation else None)
        reached = UNKNOWN if evaluation is None else f"{metric} {rate(evaluation, metric)}"
        tested = percent(table(test.get("selected")).get(str(test.get("metric")))) if test else "not scored"
        marked = f"{tested} (scored {len(tests_of(run))} times)" if len(tests_of(run)) > 1 else tested
        settings = ", ".join(f"{key} = {value}" for key, value in apart[run.index].items()) or "–"
        step = "none" if run.chosen_step is None else str(run.chosen_step)
        rows.append([run.name, str(run.status.get("state", UNKNOWN)), settings, step, reached, marked])
    columns = ("run", "state", "what sets it apart", "kept step", "dev, with 95 % interval", "test")
    return Table("Runs", columns, rows)


def test_looks(run: RunView) -> Table | None:
    """Every look at test, with the reason of each after the first; None where there was none."""
    rows = []
    for number, record in enumerate(tests_of(run), start=1):
        metric = str(record.get("metric"))
        difference = table(table(record.get("difference")).get(metric))
        rows.append(
            [
                f"{number}: {record.get('time')}",
                f"step {record.get('step')}, {record.get('n')} problems",
                f"{metric} {percent(table(record.get('selected')).get(metric))}",
                percent(table(record.get("base")).get(metric)),
                f"{signed(difference.get('value'))} ({interval_text(difference.get('interval'), signed)})",
                str(record.get("again") or "the first look"),
            ]
        )
    columns = ("look", "what", "chosen checkpoint", "before training", "difference, 95 % interval", "why")
    return Table(f"Test of {run.name}", columns, rows) if rows else None


def side_by_side(runs: Sequence[RunView]) -> Table | None:
    """Every run beside the first, on the same problems; None where there is nothing to compare."""
    first = runs[0].shown_evaluation
    metric = str(runs[0].selection.get("metric"))
    if len(runs) < 2 or first is None or metric not in first.outcomes:
        return None
    rows = []
    for run in runs[1:]:
        evaluation = run.shown_evaluation
        difference = paired_or_none(first, evaluation, metric) if evaluation else None
        if difference is None:
            rows.append([run.name, "not scored on the same problems", "", "", ""])
        else:
            verdict = "beyond noise" if difference.beyond_noise else "within noise"
            limits = interval_text(difference.interval, signed)
            rows.append([run.name, signed(difference.value), limits, f"{difference.p:.2g}", verdict])
    note = "One run an arm cannot tell a setting from a seed: for that, train every setting with several seeds."
    return Table(f"{metric} beside {runs[0].name}", ("run", "difference", "95 % interval", "p", ""), rows, note)


def differing_settings(runs: Sequence[RunView]) -> dict[int, dict[str, Any]]:
    """The settings in which runs differ, by run."""
    flat = {
        run.index: flattened(run.configuration.model_dump(mode="json")) if run.configuration else {} for run in runs
    }
    keys = dict.fromkeys(key for settings in flat.values() for key in settings)
    apart = [key for key in keys if len({repr(settings.get(key)) for settings in flat.values()}) > 1]
    return {index: {key: settings[key] for key in apart if key in settings} for index, settings in flat.items()}


def flattened(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def coverage(run: RunView) -> Table:
    """How many completions, prompts and epochs: the arithmetic by which steps are mistaken for epochs."""
    if run.cold_start:
        return shown_examples(run)
    train = run.arguments
    batch = train.get("per_device_train_batch_size", 8)
    accumulation = train.get("gradient_accumulation_steps", 1)
    processes = run.environment.get("processes", 1)
    group = train.get("num_generations", 8)
    steps = run.metrics[-1].step if run.metrics else 0
    completions = batch * accumulation * processes
    prompts = completions / group
    reused = train.get("num_iterations", 1)
    seen = prompts * steps / reused
    size = run.task.splits["train"].size if run.task else None
    rows = [
        [
            "completions in an update",
            f"{batch} × {accumulation} micro-batches × {processes} process(es) = {completions}",
        ],
        ["prompts in an update", f"{completions} / {group} completions a prompt = {prompts:g}"],
        [
            "prompts seen in all",
            f"{prompts:g} × {steps} steps" + (f" / {reused}" if reused > 1 else "") + f" = {seen:g}",
        ],
        ["epochs", f"{seen:g} / {size} training problems = {seen / size:.2g}" if size else UNKNOWN],
    ]
    if not train:
        rows = [["completions", UNKNOWN]]
    return Table("Coverage", ("", run.name), rows)


def shown_examples(run: RunView) -> Table:
    """What a cold start showed, and how much of it was computed once for many examples."""
    batch = run.configuration.coldstart.batch_size if run.configuration else 0
    steps = run.metrics[-1].step if run.metrics else 0
    computed, whole = (sum(run.series(key)[1]) for key in ("tokens_computed", "tokens_without_sharing"))
    rows = [
        ["examples shown", f"{batch} a step × {steps} steps = {batch * steps}"],
        ["where from", str(run.cold_start.get("source", UNKNOWN))],
        ["ended because", str(run.cold_start.get("ended_because", UNKNOWN))],
        ["tokens computed", f"{computed:,.0f} of {whole:,.0f}: shared beginnings are computed once"],
    ]
    return Table("Coverage", ("", run.name), rows)


def precision(run: RunView) -> Table:
    """Real dtypes by parameter group, as counted in memory."""
    rows = [
        [str(group.get("name")), f"{group.get('parameters', 0):,}", ", ".join(map(str, group.get("dtypes", ())))]
        for group in run.precision
    ]
    return Table("Precision", ("parameters of", "how many", "dtype in memory"), rows or [[UNKNOWN, "", ""]])


def origins(run: RunView) -> Table:
    """Versions, device and hashes."""
    rows = [[key, short(value)] for key, value in flattened(run.environment).items()]
    rows += [[f"SHA-256 of {key}", str(value)] for key, value in flattened(run.hashes).items()]
    return Table("Environment", ("", ""), rows or [[UNKNOWN, ""]])


def settings(run: RunView) -> Table:
    """The whole configuration."""
    flat = flattened(run.configuration.model_dump(mode="json") if run.configuration else run.arguments)
    return Table("Configuration", ("", ""), [[key, short(value)] for key, value in flat.items()] or [[UNKNOWN, ""]])


def evaluation_rows(run: RunView) -> Table:
    """Every evaluation as numbers."""
    names = list(dict.fromkeys(name for e in run.evaluations for name in e.metrics))
    rows = [
        [str(e.step) + (" (kept)" if e.step == run.chosen_step else ""), *(rate(e, name) for name in names)]
        for e in run.evaluations
    ]
    return Table("Every evaluation", ("step", *names), rows or [[UNKNOWN, *("" for _ in names)]])


# -- figures in words ------------------------------------------------------------------------------------------------


def percent(value: Any) -> str:
    """``66.0 %``."""
    return f"{value:.1%}".replace("%", "\u00a0%") if isinstance(value, int | float) else UNKNOWN


def signed(value: Any) -> str:
    """``+12.0 points``, a difference of two shares."""
    return f"{100 * value:+.1f} points".replace("-", "−") if isinstance(value, int | float) else UNKNOWN


def rate(evaluation: Evaluation, metric: Any) -> str:
    """``66.0 % (52.2 % to 77.6 %)``, or that the metric was not measured."""
    if metric not in evaluation.metrics:
        return UNKNOWN
    return f"{percent(evaluation.metrics[metric])} ({interval_text(evaluation.intervals.get(metric), percent)})"


def interval_text(interval: Any, written: Any) -> str:
    """Low to high."""
    if not isinstance(interval, list | tuple) or len(interval) != 2:
        return UNKNOWN
    return f"{written(interval[0])} to {written(interval[1])}"


def difference_text(difference: PairedDifference) -> str:
    """A paired difference with its interval, and whether it is more than noise."""
    text = f"{signed(difference.value)}, 95 % interval {interval_text(difference.interval, signed)}"
    return text if difference.beyond_noise else f"{text}: within noise"


def short(value: Any, most: int = 300) -> str:
    """A value as text, cut where it is very long."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= most else f"{text[:most]}…"
