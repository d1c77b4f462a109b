"""``evenhand explain``."""

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli import options
from evenhand.cli.output import print_json, stdout, table

# Negative rewards look like options; the command takes what it does not know as a number.
CONTEXT_SETTINGS = {"ignore_unknown_options": True}


def explain(
    rewards: Annotated[
        list[str],
        typer.Argument(metavar="R R R … | RUN", help="Rewards of one group, or a run folder.", show_default=False),
    ],
    scale_rewards: Annotated[
        str, typer.Option("--scale-rewards", help="group, batch or none, as in GRPOConfig.")
    ] = "group",
    loss_type: Annotated[str, typer.Option("--loss-type", help="As in GRPOConfig.")] = "dapo",
    epsilon: Annotated[float, typer.Option("--epsilon", min=0.0, help="Clip range of the ratio.")] = 0.2,
    beta: Annotated[float, typer.Option("--beta", min=0.0, help="Weight of the KL term.")] = 0.0,
    step: Annotated[int | None, typer.Option("--step", help="Of a run: the step; else its last.")] = None,
    group: Annotated[int | None, typer.Option("--group", help="Of a run's step: the group, from 0.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Mean, deviation and advantage of each reward in a group, and what an outlier does to it.

    Of a run folder: one of its groups, with the advantage of every line under both kinds of credit.
    """
    from evenhand.errors import ConfigurationError  # noqa: PLC0415 - keeps --help quick

    if len(rewards) == 1 and Path(rewards[0]).is_dir():
        explain_run(Path(rewards[0]), step, group, as_json)
        return
    if step is not None or group is not None:
        raise ConfigurationError("--step and --group belong to a run folder.", "Write: evenhand explain RUN --step 20")
    from evenhand.preflight.explanation import LossOptions, bar, explain_group  # noqa: PLC0415
    from evenhand.rewards import ScaleRewards  # noqa: PLC0415

    scales: dict[str, ScaleRewards] = {"group": "group", "batch": "batch", "none": "none"}
    if scale_rewards not in scales:
        raise ConfigurationError(f"There is no scaling '{scale_rewards}'.", "Use group, batch or none.")
    chosen = LossOptions(scales[scale_rewards], loss_type, epsilon, beta)
    explained = explain_group([as_number(text) for text in rewards], chosen)
    if as_json:
        print_json(explained.to_json())
        return
    largest = max(abs(member.advantage) for member in explained.members)
    rows = [
        (f"{member.reward:g}", f"{member.advantage:+.5f}", bar(member.advantage, largest), member.push)
        for member in explained.members
    ]
    title = f"mean {explained.mean:g}, deviation {explained.deviation:g}"
    stdout().print(table(title, ("reward", "advantage", "down  |  up", "push on every token"), rows))
    for sentence in explained.sentences:
        stdout().print(f"- {sentence}", markup=False)


def explain_run(path: Path, step: int | None, group: int | None, as_json: bool) -> None:
    """A recorded group: a column for each completion, a row for each part, and what it means."""
    from evenhand.preflight.recorded_group import explain_recorded  # noqa: PLC0415 - keeps --help quick

    found = explain_recorded(path, step, group)
    if as_json:
        print_json(found.to_json())
        return
    completions = found.completions
    rows = [("reward", *(f"{one.reward:g}" for one in completions))]
    rows.append(("completion credit", *(f"{one.advantage:+.3f}" for one in completions)))
    for part in found.parts:
        cells = ((one.values.get(part), one.advantages.get(part)) for one in completions)
        rows.append((part, *("missing" if value is None else f"{push:+.3f} ({value:g})" for value, push in cells)))
    title = f"step {found.step}, group {found.group}: advantages; in brackets what the part earns"
    stdout().print(table(title, ("", *(str(number) for number in range(1, len(completions) + 1))), rows))
    for sentence in found.sentences():
        stdout().print(f"- {sentence}", markup=False)


def as_number(text: str) -> float:
    """A finite reward. Raises ConfigurationError for anything else."""
    from math import isfinite  # noqa: PLC0415

    from evenhand.errors import ConfigurationError  # noqa: PLC0415
    from evenhand.rewards import LARGEST_FLOAT32  # noqa: PLC0415

    try:
        value = float(text)
    except ValueError as error:
        raise ConfigurationError(
            f"'{text}' is neither a number nor a run folder.", "Write: evenhand explain 2.5 1.0 -1"
        ) from error
    if not isfinite(value) or abs(value) > LARGEST_FLOAT32:
        raise ConfigurationError(f"'{text}' is no number that TRL's FP32 holds.", "TRL's advantages would all be NaN.")
    return value
