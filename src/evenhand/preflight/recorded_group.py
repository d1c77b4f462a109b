"""A recorded group under both kinds of credit: what every part of every completion is pushed by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from evenhand.credit import Parts, part_advantages, spans_of
from evenhand.errors import ConfigurationError, RunFolderError
from evenhand.rewards import ScaleRewards
from evenhand.runfolder import RunFolder
from evenhand.selection import configuration_of
from evenhand.tasks import Task, task_named

SCALES: dict[Any, ScaleRewards] = {"group": "group", "batch": "batch", "none": "none", True: "group", False: "none"}


@dataclass(frozen=True, slots=True)
class RecordedCompletion:
    """One completion of the group.

    Attributes:
        text: As it was sampled.
        reward, advantage: Of the whole, as they were recorded.
        values: What each named part earns, weighted.
        advantages: What each named part would carry under line credit.
    """

    text: str
    reward: float
    advantage: float
    values: Mapping[str, float]
    advantages: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RecordedGroup:
    """A group of a run's step; ``parts`` are the names of its completions' parts, in the answer's order."""

    step: int
    group: int
    parts: tuple[str, ...]
    completions: tuple[RecordedCompletion, ...]

    def to_json(self) -> dict[str, Any]:
        """Every number, the texts and the sentences."""
        return {
            "step": self.step,
            "group": self.group,
            "parts": list(self.parts),
            "completions": [
                {
                    "text": one.text,
                    "reward": one.reward,
                    "advantage": one.advantage,
                    "part_values": dict(one.values),
                    "part_advantages": dict(one.advantages),
                }
                for one in self.completions
            ],
            "means": self.sentences(),
        }

    def sentences(self) -> list[str]:
        """What the two kinds of credit do differently here."""
        said = [
            "Completion credit: every token carries its completion's advantage. Line credit: every token carries that "
            "of its own part, compared with the same part of the other completions."
        ]
        agreed = [part for part in self.parts if len(self._values(part)) == 1]
        if agreed:
            said.append(
                f"All completions earn the same with {listed(agreed, self.parts)}: line credit leaves that alone."
            )
        best = {part: max(self._values(part)) for part in self.parts}
        pushes = [(one.advantage, value - best[part]) for one in self.completions for part, value in one.values.items()]
        down = sum(advantage < 0 and behind == 0 for advantage, behind in pushes)
        up = sum(advantage > 0 and behind < 0 for advantage, behind in pushes)
        said.append(
            f"Of {len(pushes)} parts, completion credit pushes {down} down that nothing in the group does better, and "
            f"{up} up that others do better."
        )
        return said

    def _values(self, part: str) -> set[float]:
        """What the group's completions earn with a part; a missing part earns nothing."""
        return {one.values.get(part, 0.0) for one in self.completions}


def listed(parts: Sequence[str], known: Sequence[str]) -> str:
    """Some of the known names in their order; three or more that follow one another are told by their ends."""
    rows = [list(row) for asked, row in groupby(known, parts.__contains__) if asked]
    return ", ".join(f"{row[0]} to {row[-1]}" if len(row) > 2 else ", ".join(row) for row in rows)


def explain_recorded(path: Path, step: int | None, group: int | None) -> RecordedGroup:
    """Explain a group of a run folder.

    Args:
        path: The run folder.
        step: Whose completions; None: the last step that has some.
        group: Its number in the step, from 0; None: the first whose completions differ.

    Raises:
        RunFolderError: no run folder, or no completions of that step or group.
        ConfigurationError: the run's task has no spans.
        TaskError: the task's spans do not cover a text.
    """
    folder = RunFolder.open(path)
    task, weights, scale = settings(folder)
    rows = rows_of_step(folder, step)
    size = sum(row["group"] == rows[0]["group"] for row in rows)
    parts = [Parts.read(task, row["columns"], row["text"], weights) for row in rows]
    advantages = part_advantages([part.values for part in parts], size, scale)
    chosen = places_of_group(rows, group)
    return RecordedGroup(
        step=int(rows[0]["step"]),
        group=int(rows[chosen[0]]["group"]),
        parts=part_names(task, rows[chosen[0]]["columns"], [parts[place] for place in chosen]),
        completions=tuple(
            RecordedCompletion(
                text=rows[place]["text"],
                reward=rows[place]["reward"],
                advantage=rows[place]["advantage"],
                values=parts[place].values,
                advantages=advantages[place],
            )
            for place in chosen
        ),
    )


def settings(folder: RunFolder) -> tuple[Task, dict[str, float], ScaleRewards]:
    """The run's task, its rewards' weights and its scaling."""
    text = folder.read_text("config.toml")
    if text is None:
        raise RunFolderError(
            f"{folder.path} has no config.toml, so its task is unknown.", "Name a run of evenhand train."
        )
    config = configuration_of(folder)
    task, train = task_named(config.task), config.train
    columns = task.draw("train")[0]
    if spans_of(task, columns, task.gold(columns)) is None:
        raise ConfigurationError(
            f"The task {task.name} has no spans, so its completions have no parts.", "Give rewards."
        )
    weights = train.get("reward_weights") or [reward.weight for reward in task.rewards]
    if len(weights) != len(task.rewards):
        raise RunFolderError(
            f"{folder.path / 'config.toml'} gives {len(weights)} reward_weights, and {task.name} has "
            f"{len(task.rewards)} rewards.",
            "Restore the file as the run wrote it.",
        )
    named = {reward.name: float(weight) for reward, weight in zip(task.rewards, weights, strict=True)}
    return task, named, SCALES[train.get("scale_rewards", "group")]


def rows_of_step(folder: RunFolder, step: int | None) -> list[dict[str, Any]]:
    """The recorded completions of a step, group by group."""
    known = folder.completion_steps()
    if not known:
        raise RunFolderError(f"{folder.path} holds no completions.", "Name a run that has made a step.")
    if step is not None and step not in known:
        raise RunFolderError(
            f"{folder.path} holds no completions of step {step}.", f"It has {known[0]} to {known[-1]}."
        )
    rows = sorted(folder.completions(known[-1] if step is None else step), key=lambda row: row["group"])
    if not all(row.get("columns") for row in rows):
        raise RunFolderError(
            f"{folder.path} does not say which problem its completions answer.", "Name a run of evenhand train."
        )
    return rows


def part_names(task: Task, columns: Mapping[str, Any], found: Sequence[Parts]) -> tuple[str, ...]:
    """The parts that some completion has, in the order of the right answer."""
    right = [span.name for span in task.spans(columns, task.gold(columns)) or () if span.name is not None]
    there = [name for parts in found for name in parts.values]
    return tuple(dict.fromkeys([*(name for name in right if name in there), *there]))


def places_of_group(rows: Sequence[Mapping[str, Any]], group: int | None) -> list[int]:
    """Where a group's completions stand; by default the first whose rewards differ, else the first."""
    groups: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault(row["group"], []).append(place)
    if group is None:
        differing = (places for places in groups.values() if len({rows[place]["reward"] for place in places}) > 1)
        return next(differing, next(iter(groups.values())))
    if group not in groups:
        step = rows[0]["step"]
        raise RunFolderError(f"Step {step} has no group {group}.", f"It has groups 0 to {max(groups)}.")
    return groups[group]
