"""Credit for the parts of a completion: which advantage each of its tokens carries.

Plain GRPO gives every token of a completion the advantage of the whole. A task whose answers have parts that are right
or wrong by themselves (:meth:`evenhand.tasks.Task.spans`) can say more: each part is compared with the same part of the
other completions of its group, by the very formula that compares whole completions. So every part's advantages have
the scale that a completion's have, a part that all completions get right carries exactly 0, and where all parts
of a completion are worth the same, the objective is plain GRPO's.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.errors import TaskError
from evenhand.rewards import ScaleRewards, group_advantages, weighted_reward
from evenhand.tasks import Span, Task

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
SHOWN = 60  # characters of a text in an error


def spans_of(task: Task, columns: Mapping[str, Any], text: str) -> Sequence[Span] | None:
    """What the task finds in a text, unchecked. Raises TaskError where its ``spans`` raises."""
    try:
        return task.spans(columns, text)
    except Exception as error:  # the boundary to foreign code
        raise refused(task.name, f"spans() raised {type(error).__name__}: {error}", text) from error


def checked_spans(spans: Sequence[Span], text: str, task: str) -> Sequence[Span]:
    """The spans, if they cover the text once.

    Raises:
        TaskError: a gap, an overlap, an empty span, one past the text's end, a name that comes twice, a reward
            that is no finite number.
    """
    edge = 0
    seen: set[str] = set()
    for span in spans:
        fault = None
        if not all(math.isfinite(value) for value in span.rewards.values()):
            fault = "earns what is no finite number"
        elif span.end <= span.start:
            fault = "is empty"
        elif span.start != edge:
            fault = f"{'leaves a gap after' if span.start > edge else 'overlaps what ends at'} character {edge}"
        elif span.end > len(text):
            fault = f"ends past the text's {len(text)} characters"
        elif span.name in seen:
            fault = "bears a name that an earlier span has"
        if fault is not None:
            raise refused(task, f"the span {span.name or 'without a name'} ({span.start} to {span.end}) {fault}", text)
        edge = span.end
        seen |= {span.name} if span.name is not None else set()
    if edge != len(text):
        raise refused(task, f"the spans end at character {edge} of {len(text)}", text)
    return spans


def refused(task: str, fault: str, text: str) -> TaskError:
    """The error for spans that do not fit their text."""
    shown = repr(text[:SHOWN]) + (" …" if len(text) > SHOWN else "")
    remedy = "Mend the task's spans(), or train with credit = 'completion'."
    return TaskError(f"Task {task}: {fault}, in {shown}.", remedy)


@dataclass(frozen=True, slots=True)
class Parts:
    """The spans of one completion, and what each named one is worth.

    ``values`` maps a name to the weighted sum of the reward terms that its span decides.
    """

    spans: Sequence[Span]
    values: Mapping[str, float]

    @classmethod
    def of(cls, spans: Sequence[Span], weights: Mapping[str, float]) -> "Parts":
        """From spans and the weights of the rewards."""
        named = {span.name: weighted_reward(span.rewards, weights) for span in spans if span.name is not None}
        return cls(spans, named)

    @classmethod
    def read(cls, task: Task, columns: Mapping[str, Any], text: str, weights: Mapping[str, float]) -> "Parts":
        """What a task finds in a completion.

        Raises:
            TaskError: spans() fails or finds no parts in this text, spans that do not cover it once, or a span that
                decides a reward that the task has not.
        """
        found = spans_of(task, columns, text)
        if found is None:
            raise refused(task.name, "spans() gave None, which says that the task has no parts at all", text)
        spans = checked_spans(found, text, task.name)
        for span in spans:
            if foreign := span.rewards.keys() - {reward.name for reward in task.rewards}:
                raise refused(task.name, f"the span {span.name} decides {min(foreign)}, which is no reward of it", text)
        return cls.of(spans, weights)

    def behind(self, characters: int) -> "Parts":
        """The same in a longer text, of which so many characters, no part of an answer, stand before this one."""
        if not characters:
            return self
        moved = [Span(s.start + characters, s.end + characters, s.name, s.rewards) for s in self.spans]
        return Parts([Span(0, characters, None, {}), *moved], self.values)


def part_advantages(
    values: Sequence[Mapping[str, float]], group_size: int, scale: ScaleRewards = "group"
) -> list[dict[str, float]]:
    """The advantage of every named part, for consecutive groups of ``group_size`` completions.

    (v - mean) / (s + 1e-4) over the group's values of that name, as :func:`evenhand.rewards.group_advantages` has it
    for whole completions; under ``batch`` scaling s is over all groups that have the name. A completion without a part
    that others of its group have earned nothing with it, which counts as 0.
    """
    found: list[dict[str, float]] = [{} for _ in values]
    for name in dict.fromkeys(name for part in values for name in part):
        groups = [
            range(start, start + group_size)
            for start in range(0, len(values), group_size)
            if any(name in part for part in values[start : start + group_size])
        ]
        rows = [row for group in groups for row in group]
        advantages = group_advantages([values[row].get(name, 0.0) for row in rows], group_size, scale)
        for row, advantage in zip(rows, advantages, strict=True):
            if name in values[row]:
                found[row][name] = advantage
    return found


def token_parts(spans: Sequence[Span], ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> list[str | None]:
    """The name of the part to which each token belongs.

    A token belongs to the span of the first character that it writes or begins to write; tokens behind the text (the
    end token) belong to the last span. The ids are those that were sampled: writing the text in tokens anew could give
    others.

    Args:
        spans: They cover the decoded text.
        ids: A completion's tokens.
        decode: From leading tokens to their text, special tokens left out.
    """
    names: list[str | None] = [spans[-1].name if spans else None] * len(ids)
    first = [first_token(span.start, ids, decode) for span in spans]
    for span, begin, end in zip(spans, first, [*first[1:], len(ids)], strict=True):
        names[begin:end] = [span.name] * max(end - begin, 0)
    return names


def first_token(character: int, ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> int:
    """The token that begins a character: the first that makes the text longer than what stands before it."""
    if character == 0:
        return 0
    low, high = 0, len(ids)  # decode(ids[:low]) is too short, decode(ids[:high]) is not
    while high - low > 1:
        middle = (low + high) // 2
        if begun(decode(ids[:middle])) > character:
            high = middle
        else:
            low = middle
    return high - 1


def begun(text: str) -> int:
    """How many characters are written or begun: an unfinished one may decode to a mark for each of its bytes."""
    finished = text.rstrip(UNFINISHED)
    return len(finished) + (finished != text)
