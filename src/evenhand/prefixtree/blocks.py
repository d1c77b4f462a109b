"""Where attention on a tree is computed: the tree cut into blocks, each a matrix product of its own.

One matrix over the whole tree wastes most of its work, since branches do not see each other; one product for every
chain wastes it on calls. A block is an interval of the preorder with the path above it: its queries see that whole
path, and inside the block a mask says who descends from whom. The cut with the least work is found from the leaves up.
"""

from dataclasses import dataclass
from itertools import pairwise

from evenhand.prefixtree.tree import ROOT, PrefixTree

# What one more block costs, in query-key pairs (measured: a call with its gathers, forward and backward, against the
# time of a pair in a masked product of nine heads).
BLOCK_OVERHEAD = 4096
# A long chain is cut into pieces, so that little of the square above its diagonal is computed.
LONGEST_PIECE = 128


@dataclass(frozen=True, slots=True)
class Block:
    """Queries ``start <= node < stop``; keys are the path down to ``above`` and the queries themselves."""

    start: int
    stop: int
    above: int  # the common parent of what hangs here, or ROOT


def cut(tree: PrefixTree) -> list[Block]:
    """The blocks of least work, in preorder; together they hold every node once."""
    children = _branches(tree)
    best: dict[int, tuple[int, list[Block]]] = {}
    for top in sorted(children, reverse=True):  # deeper branches first: a child's index is larger
        best[top] = _best_branch(tree, top, children, best)
    return best[ROOT][1]


def _branches(tree: PrefixTree) -> dict[int, list[int]]:
    """For the root and for every node that begins a chain: the nodes that begin a chain below that chain's end."""
    child_count = [0] * (len(tree) + 1)  # the last one counts the root's
    for parent in tree.parents:
        child_count[parent] += 1
    begins: dict[int, list[int]] = {ROOT: []}
    chain_of = [ROOT] * (len(tree) + 1)
    for node, parent in enumerate(tree.parents):
        if parent != ROOT and child_count[parent] == 1:
            chain_of[node] = chain_of[parent]
            continue
        chain_of[node] = node
        begins[node] = []
        begins[chain_of[parent] if parent != ROOT else ROOT].append(node)
    return begins


def _best_branch(
    tree: PrefixTree, top: int, children: dict[int, list[int]], best: dict[int, tuple[int, list[Block]]]
) -> tuple[int, list[Block]]:
    """Least work for the branch that begins at ``top``: one block, or its chain and then its children in runs."""
    below = children[top]
    if top == ROOT:
        return _best_runs(tree, below, ROOT, best)
    stop = below[0] if below else tree.ends[top]
    work, blocks = _chain(tree, top, stop)
    if below:
        rest, more = _best_runs(tree, below, stop - 1, best)
        work, blocks = work + rest, blocks + more
    whole = _work(tree, top, tree.ends[top])
    if whole <= work:
        return whole, [Block(top, tree.ends[top], tree.parents[top])]
    return work, blocks


def _best_runs(
    tree: PrefixTree, siblings: list[int], above: int, best: dict[int, tuple[int, list[Block]]]
) -> tuple[int, list[Block]]:
    """Neighbouring siblings share a block where that is less work than blocks of their own."""
    least: list[tuple[int, list[Block]]] = [(0, [])]
    for last, sibling in enumerate(siblings):
        options = [(least[last][0] + best[sibling][0], last, best[sibling][1])]
        for first in range(last - 1, -1, -1):
            start, stop = siblings[first], tree.ends[sibling]
            work = _work(tree, start, stop)
            if work > options[0][0]:
                break  # a longer run only costs more
            options.append((least[first][0] + work, first, [Block(start, stop, above)]))
        work, first, blocks = min(options, key=lambda option: option[0])
        least.append((work, least[first][1] + blocks))
    return least[-1]


def _chain(tree: PrefixTree, start: int, stop: int) -> tuple[int, list[Block]]:
    pieces = max(1, round((stop - start) / LONGEST_PIECE))
    bounds = [start + (stop - start) * piece // pieces for piece in range(pieces + 1)]
    blocks = [Block(low, high, tree.parents[low]) for low, high in pairwise(bounds)]
    return sum(_work(tree, block.start, block.stop) for block in blocks), blocks


def _work(tree: PrefixTree, start: int, stop: int) -> int:
    length = stop - start
    return length * (tree.depths[start] + length) + BLOCK_OVERHEAD
