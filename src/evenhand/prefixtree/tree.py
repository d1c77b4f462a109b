"""A tree of tokens: every distinct prefix of a batch's sequences is one node."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

ROOT = -1  # the parent of a node without one


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """Distinct prefixes in preorder, so that a subtree is an interval and an ancestor has the smaller index.

    Attributes:
        tokens: Token of each node.
        parents: Index of each node's parent, ``ROOT`` where a sequence begins.
        depths: Ancestors of each node, which is also its position in every sequence through it.
        ends: One past the last node of each node's subtree.
        paths: For every sequence, in the order given, its nodes from first token to last.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    depths: tuple[int, ...]
    ends: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> "PrefixTree":
        """The tree of all prefixes. In sorted order each sequence shares most with the one before it."""
        tokens: list[int] = []
        parents: list[int] = []
        paths: list[tuple[int, ...]] = [()] * len(sequences)
        path: tuple[int, ...] = ()
        previous: Sequence[int] = ()
        for row in sorted(range(len(sequences)), key=lambda index: tuple(sequences[index])):
            sequence = sequences[row]
            shared = common_length(previous, sequence)
            first = len(tokens)
            fresh = len(sequence) - shared
            if fresh:
                tokens.extend(sequence[shared:])
                parents.append(path[shared - 1] if shared else ROOT)
                parents.extend(range(first, first + fresh - 1))
            path = path[:shared] + tuple(range(first, first + fresh))
            paths[row], previous = path, sequence
        return cls(tuple(tokens), tuple(parents), _depths(parents), _ends(parents), tuple(paths))

    def ancestors(self, node: int) -> list[int]:
        """Path from the root down to the node, the node included; empty for ``ROOT``."""
        path = []
        while node != ROOT:
            path.append(node)
            node = self.parents[node]
        return path[::-1]


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """How many leading tokens two sequences share."""
    shared = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        shared += 1
    return shared


def distinct_prefixes(sequences: Sequence[Sequence[int]]) -> int:
    """How many nodes the tree of these sequences has."""
    ordered = sorted(map(tuple, sequences))
    return sum(len(after) - common_length(before, after) for before, after in pairwise([(), *ordered]))


def packs(sequences: Sequence[Sequence[int]], token_budget: int) -> list[list[int]]:
    """Rows split into packs whose trees have at most ``token_budget`` nodes, like rows kept together.

    A single sequence longer than the budget is a pack of its own.
    """
    chosen: list[list[int]] = []
    nodes = 0
    previous: Sequence[int] = ()
    for row in sorted(range(len(sequences)), key=lambda index: tuple(sequences[index])):
        sequence = sequences[row]
        fresh = len(sequence) - common_length(previous, sequence)
        if not chosen or nodes + fresh > token_budget:
            chosen.append([])
            nodes, fresh = 0, len(sequence)
        chosen[-1].append(row)
        nodes += fresh
        previous = sequence
    return chosen


def _depths(parents: Sequence[int]) -> tuple[int, ...]:
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent == ROOT else depths[parent] + 1)
    return tuple(depths)


def _ends(parents: Sequence[int]) -> tuple[int, ...]:
    sizes = [1] * len(parents)
    for node in range(len(parents) - 1, -1, -1):
        if parents[node] != ROOT:
            sizes[parents[node]] += sizes[node]
    return tuple(node + size for node, size in enumerate(sizes))
