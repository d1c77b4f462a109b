"""The tree holds every prefix once and gives every sequence back."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenhand.prefixtree.attention import TreeAttention
from evenhand.prefixtree.blocks import BLOCK_OVERHEAD, cut
from evenhand.prefixtree.tree import ROOT, PrefixTree, packs

# Few tokens and some long runs, so that sequences share beginnings.
SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=8)


@given(SEQUENCES)
def test_nodes_are_the_distinct_prefixes(sequences):
    tree = PrefixTree.of(sequences)
    prefixes = {tuple(sequence[: end + 1]) for sequence in sequences for end in range(len(sequence))}
    assert len(tree) == len(prefixes)
    for sequence, path in zip(sequences, tree.paths, strict=True):
        assert [tree.tokens[node] for node in path] == sequence
        assert [tree.depths[node] for node in path] == list(range(len(sequence)))
        assert [tree.parents[node] for node in path] == [ROOT, *path[:-1]]
        assert tree.ancestors(path[-1]) == list(path)


@given(SEQUENCES)
def test_a_subtree_is_an_interval_of_the_preorder(sequences):
    tree = PrefixTree.of(sequences)
    for node in range(len(tree)):
        below = {other for other in range(len(tree)) if node in tree.ancestors(other)}
        assert below == set(range(node, tree.ends[node]))


@given(SEQUENCES, st.integers(1, 40))
def test_packs_keep_to_the_budget_and_hold_every_row_once(sequences, budget):
    chosen = packs(sequences, budget)
    assert sorted(row for pack in chosen for row in pack) == list(range(len(sequences)))
    for pack in chosen:
        assert len(pack) == 1 or len(PrefixTree.of([sequences[row] for row in pack])) <= budget


@given(SEQUENCES)
def test_blocks_hold_every_node_once_below_a_common_path(sequences):
    tree = PrefixTree.of(sequences)
    blocks = cut(tree)
    assert [node for block in blocks for node in range(block.start, block.stop)] == list(range(len(tree)))
    for block in blocks:
        above = tree.ancestors(block.above)
        for node in range(block.start, block.stop):
            assert set(tree.ancestors(node)) <= {*above, *range(block.start, block.stop)}
            assert tree.ancestors(node)[: len(above)] == above


@given(SEQUENCES)
def test_a_node_sees_its_ancestors_and_nothing_else(sequences):
    tree = PrefixTree.of(sequences)
    attention = TreeAttention(tree, torch.device("cpu"))
    keys = attention._keys.split(attention._key_sizes)
    node = 0
    for seen, index in zip(attention._seen, keys, strict=True):
        for row in seen:
            assert sorted(index[row].tolist()) == tree.ancestors(node)
            node += 1


@pytest.mark.parametrize(("prompt", "completion", "rows"), [(20, 1000, 8), (163, 54, 8), (5, 40, 32)])
def test_branches_that_share_nothing_cost_no_more_attention_than_rows_of_their_own(prompt, completion, rows):
    sequences = [[0] * prompt + [row + 1] * completion for row in range(rows)]
    blocks = cut(PrefixTree.of(sequences))
    tree = PrefixTree.of(sequences)
    pairs = sum((b.stop - b.start) * (len(tree.ancestors(b.above)) + b.stop - b.start) for b in blocks)
    assert pairs + BLOCK_OVERHEAD * len(blocks) <= rows * ((prompt + completion) ** 2 + BLOCK_OVERHEAD)


def test_the_cut_takes_neither_one_matrix_nor_a_block_for_each_chain():
    branches = [[0] * 200 + [branch] + [1] * 150 + [leaf] * 3 for branch in range(4) for leaf in range(8)]
    tree = PrefixTree.of(branches)
    blocks = cut(tree)
    work = sum((b.stop - b.start) * (len(tree.ancestors(b.above)) + b.stop - b.start) + BLOCK_OVERHEAD for b in blocks)
    chains = sum(1 for node in range(len(tree)) if tree.parents.count(tree.parents[node]) > 1)
    assert work < len(tree) ** 2 / 2
    assert len(blocks) < chains
