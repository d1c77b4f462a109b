"""The space of a task's answers, learned from its gold texts alone.

Gold texts of one task are alike: the same kinds of line, in which some numbers are copied from the question, some are
worked out, and some words are one of a few. Whoever knows this and nothing of a particular question can fill the form
without thinking: copy what is to be copied, and put the same thing everywhere else. Those *blind* texts are what the
exploit search pays; what they earn, a policy can earn without ability.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

# A number, a word, a run of spaces, or a single other character: joined, they give the line again.
TOKEN = re.compile(r"-?\d+(?:\.\d+)?|[^\W\d_]+|\s+|.", re.ASCII | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

MOST_KINDS = 6  # more kinds of line than this is prose, and prose has no form to fill
MOST_CONSTANTS = 16
COPIED_SHARE = 0.95  # of the gold texts in which a number must be the question's for it to count as copied
EVERY = "every"  # fills a choice with all of its options at once
TURNS = "turns"  # fills a choice with one option after the other


@dataclass(frozen=True, slots=True)
class Slot:
    """A place of a line that differs between gold texts: a number copied from the question, one worked out, a word."""

    kind: Literal["copied", "computed", "choice"]
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of line: fixed text and slots; repeated once per number of the question, or a fixed number of times."""

    pieces: tuple[str | Slot, ...]
    per_number: bool
    times: int = 1

    @property
    def slots(self) -> list[Slot]:
        """The slots, left to right."""
        return [piece for piece in self.pieces if isinstance(piece, Slot)]

    def options(self, kind: str) -> tuple[str, ...]:
        """What may fill the slots of that kind; empty where the line has none."""
        return next((slot.options for slot in self.slots if slot.kind == kind), ())


@dataclass(frozen=True, slots=True)
class Filling:
    """How one kind of line is filled blindly: words for its choice in turn, one number for what is worked out."""

    words: tuple[str, ...] = ()
    number: str = ""
    kept: bool = True


@dataclass(frozen=True, slots=True)
class AnswerSpace:
    """The kinds of line in the order in which gold texts use them."""

    kinds: tuple[Kind, ...]

    def write(self, question: str, fillings: Sequence[Filling]) -> str:
        """The text that these fillings give for a question."""
        numbers = NUMBER.findall(question)
        lines: list[str] = []
        for kind, filling in zip(self.kinds, fillings, strict=True):
            if filling.kept:
                copies = numbers if kind.per_number else [""] * kind.times
                lines += [fill(kind, copied, filling, place) for place, copied in enumerate(copies)]
        return "\n".join(lines)

    def blind_fillings(self) -> dict[str, tuple[Filling, ...]]:
        """Every constant filling, by name: one word, all words or the words in turn, with one number throughout."""
        found: dict[str, tuple[Filling, ...]] = {}
        words = next((options for kind in self.kinds if (options := kind.options("choice"))), ())
        numbers = next((options for kind in reversed(self.kinds) if (options := kind.options("computed"))), ())
        wordings: dict[str, tuple[str, ...]] = {f"'{word}' everywhere": (word,) for word in words}
        if len(words) > 1:
            wordings |= {"the words in turn": words, f"'{' '.join(words)}' everywhere": (" ".join(words),)}
        for wording, chosen in (wordings or {"": ()}).items():
            for number in numbers or ("",):
                name = ", ".join(part for part in (wording, f"number {number}" if number else "") if part)
                filling = Filling(chosen, number)
                found[name or "the fixed lines"] = tuple(filling for _ in self.kinds)
        return found

    def constants(self) -> tuple[str, ...]:
        """Every number that gold texts work out, or every word where they work out none."""
        for wanted in ("computed", "choice"):
            for kind in reversed(self.kinds):
                if options := kind.options(wanted):
                    return options
        return ()


def fill(kind: Kind, copied: str, filling: Filling, place: int) -> str:
    """One line."""
    parts = []
    for piece in kind.pieces:
        if isinstance(piece, str):
            parts.append(piece)
        elif piece.kind == "copied":
            parts.append(copied)
        elif piece.kind == "choice":
            parts.append(filling.words[place % len(filling.words)] if filling.words else piece.options[0])
        else:
            parts.append(filling.number or piece.options[0])
    return "".join(parts)


# -- learning it -----------------------------------------------------------------------------------------------------


def learn(questions: Sequence[str], golds: Sequence[str]) -> AnswerSpace | None:
    """The answer space of these gold texts, or None where they have no common form.

    Args:
        questions: What each problem asks (its last message).
        golds: A gold text each.
    """
    tokenized = [[TOKEN.findall(line.strip()) for line in gold.splitlines() if line.strip()] for gold in golds]
    shapes = Counter(shape(line) for lines in tokenized for line in lines)
    merged = merge_choices(shapes)
    if not merged or len(set(merged.values())) > MOST_KINDS:
        return None
    order = Counter(kinds_in_order(lines, merged) for lines in tokenized).most_common(1)[0][0]
    kinds = [learn_kind(key, questions, tokenized, merged) for key in order]
    return AnswerSpace(tuple(kinds)) if kinds else None


def shape(line: Sequence[str]) -> tuple[str, ...]:
    """A line with every number masked."""
    return tuple("#" if NUMBER.fullmatch(token) else token for token in line)


def merge_choices(shapes: Mapping[tuple[str, ...], int]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Each shape with the word in which it differs from others masked as ``?``: lines of one kind get one key."""
    wildcards: dict[tuple[str, ...], set[str]] = {}
    for found in shapes:
        for place, token in enumerate(found):
            if token.isalpha():
                wildcards.setdefault((*found[:place], "?", *found[place + 1 :]), set()).add(token)
    merged = {}
    for found in shapes:
        candidates = [key for key in wildcards if len(key) == len(found) and matches(key, found)]
        best = max(candidates, key=lambda key: len(wildcards[key]), default=None)
        merged[found] = best if best is not None and len(wildcards[best]) > 1 else found
    return merged


def matches(key: Sequence[str], found: Sequence[str]) -> bool:
    """Whether a shape is of this kind."""
    return all(a in ("?", b) and (a != "?" or b.isalpha()) for a, b in zip(key, found, strict=True))


def kinds_in_order(
    lines: Sequence[Sequence[str]], merged: Mapping[tuple[str, ...], tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    """The kinds of a gold text, a run of the same kind counted once."""
    order: list[tuple[str, ...]] = []
    for line in lines:
        key = merged[shape(line)]
        if not order or order[-1] != key:
            order.append(key)
    return tuple(order)


def learn_kind(
    key: tuple[str, ...],
    questions: Sequence[str],
    tokenized: Sequence[Sequence[Sequence[str]]],
    merged: Mapping[tuple[str, ...], tuple[str, ...]],
) -> Kind:
    """One kind of line: what its slots are, and how often it stands in a text."""
    members = [[line for line in lines if merged[shape(line)] == key] for lines in tokenized]
    pieces: list[str | Slot] = []
    per_number = False
    for place, token in enumerate(key):
        if token == "?":
            words = frequent(line[place] for lines in members for line in lines)
            pieces.append(Slot("choice", tuple(sorted(words))))
        elif token != "#":
            pieces.append(token)
        elif is_copied(place, members, questions):
            pieces.append(Slot("copied"))
            per_number = True
        else:
            pieces.append(Slot("computed", frequent(line[place] for lines in members for line in lines)))
    times = Counter(len(lines) for lines in members if lines).most_common(1)[0][0]
    return Kind(tuple(pieces), per_number, times)


def is_copied(place: int, members: Sequence[Sequence[Sequence[str]]], questions: Sequence[str]) -> bool:
    """Whether the numbers at this place of a text's lines are the question's, in order."""
    pairs = list(zip(members, questions, strict=True))
    copied = sum(NUMBER.findall(question) == [line[place] for line in lines] for lines, question in pairs)
    return copied >= COPIED_SHARE * len(pairs)


def frequent(values: Iterable[str]) -> tuple[str, ...]:
    """The commonest values, at most as many as can be tried."""
    return tuple(value for value, _ in Counter(values).most_common(MOST_CONSTANTS))
