"""Keys and values of a growing tree, in buffers that are written in place.

Nodes of one cluster (at first: everything under one prompt) share a buffer, a slot for each node. A decode step reads a
cluster's buffer once for all of its rows; a mask says which slots are a row's ancestors. Where rows have long ceased
to share, each gets a buffer of its own, so that no time goes into what a mask hides.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from evenhand.prefixtree.attention import Heads, TreeAttention, attend
from evenhand.prefixtree.tree import PrefixTree

GROWTH = 1.5
# Time to read a slot's keys and values once, and to compute one row against it, in any unit (measured, one layer).
READING = 1.0
COMPUTING = 0.6
# A new layout must promise this much before the copy it takes is made.
WORTHWHILE = 1.5


class Prefill:
    """Attention plan for the prompts: as on any tree, and keys and values are kept."""

    def __init__(self, tree: PrefixTree, device: torch.device) -> None:
        self._attention = TreeAttention(tree, device)
        self.layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # [K, N, D] each

    def attend(self, heads: Heads) -> torch.Tensor:
        """Attention output, [1, H, N, D]."""
        self.layers[heads.layer] = (heads.key[0], heads.value[0])
        return self._attention.attend(heads)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the rows of one step stand. All index tensors are [R]."""

    cluster: torch.Tensor
    place: torch.Tensor  # among its cluster's rows
    slot: torch.Tensor  # where its keys and values go
    visible: torch.Tensor  # [R, S] bool
    depth: torch.Tensor
    width: int  # most rows of a cluster
    used: int  # slots in use


class Arena:
    """Buffers of all layers, and which row sees which slots. C clusters, S slots, R rows."""

    def __init__(self, prefill: Prefill, paths: Sequence[Sequence[int]], room: int) -> None:
        """``paths``: each prompt's nodes in the prefill's tree. ``room``: slots to begin with beside the prompt's."""
        key = next(iter(prefill.layers.values()))[0]
        longest = max(map(len, paths))
        device = key.device
        self._capacity = longest + room
        self._keys: dict[int, torch.Tensor] = {}  # [C, K, S, D] by layer
        self._values: dict[int, torch.Tensor] = {}
        lengths = torch.tensor([len(path) for path in paths], device=device)
        index = torch.tensor([[*path, *[0] * (longest - len(path))] for path in paths], device=device)
        valid = torch.arange(longest, device=device)[None] < lengths[:, None]  # [C, longest]
        for layer, (keys, values) in prefill.layers.items():
            self._keys[layer] = self._filled(keys, index, valid)
            self._values[layer] = self._filled(values, index, valid)
        prefill.layers.clear()
        self.cluster = torch.arange(len(paths), device=device)  # [R], of the rows of the last step
        self.visible = torch.zeros(len(paths), self._capacity, dtype=torch.bool, device=device)
        self.visible[:, :longest] = valid
        self._depths = torch.zeros(len(paths), self._capacity, dtype=torch.long, device=device)
        self._depths[:, :longest] = torch.arange(longest, device=device)
        self.depth = lengths - 1
        self._used = lengths.clone()  # [C]

    def _filled(self, states: torch.Tensor, index: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        heads, _, size = states.shape
        buffer = states.new_zeros(len(index), heads, self._capacity, size)  # zeros: a masked slot must not hold NaN
        gathered = states[:, index].transpose(0, 1)  # [C, K, longest, D]
        buffer[:, :, : index.shape[1]] = gathered * valid[:, None, :, None].to(states.dtype)
        return buffer

    def step(self, parents: Sequence[int]) -> "Decode":
        """Open one new row under each of the last step's rows named in ``parents``; the plan for this step."""
        parent = torch.tensor(parents, device=self.visible.device)
        cluster, visible = self.cluster[parent], self.visible[parent]
        order = torch.argsort(cluster, stable=True)
        counts = torch.bincount(cluster, minlength=len(self._used))
        place = torch.empty_like(cluster)
        place[order] = torch.arange(len(parent), device=parent.device) - (counts.cumsum(0) - counts)[cluster[order]]
        slot = self._used[cluster] + place
        self._used += counts
        used = int(self._used.max())
        if used > self._capacity:
            visible = self._grow(visible, used)
        rows = torch.arange(len(parent), device=parent.device)
        visible[rows, slot] = True
        self.cluster, self.visible, self.depth = cluster, visible, self.depth[parent] + 1
        self._depths[cluster, slot] = self.depth
        return Decode(self, _Layout(cluster, place, slot, visible, self.depth, int(counts.max()), used))

    def _grow(self, visible: torch.Tensor, used: int) -> torch.Tensor:
        more = max(int(self._capacity * GROWTH), used) - self._capacity
        for buffers in (self._keys, self._values):
            for layer, buffer in buffers.items():
                buffers[layer] = torch.nn.functional.pad(buffer, (0, 0, 0, more))
        self._depths = torch.nn.functional.pad(self._depths, (0, more))
        self._capacity += more
        return torch.nn.functional.pad(visible, (0, more))

    def relayout(self) -> None:
        """Take the cheapest layout for the rows there are, where that repays a copy: the present clusters without dead
        rows and nodes, or one cluster for each row."""
        used = int(self._used.max())
        counts = torch.bincount(self.cluster, minlength=len(self._used))
        now = _cost(len(self._used), int(counts.max()), used)
        living, together = torch.unique(self.cluster, return_inverse=True)
        union = torch.stack([self.visible[together == index].any(0) for index in range(len(living))])
        compact = _cost(len(living), int(counts.max()), int(union.sum(1).max()))
        alone = _cost(len(self.visible), 1, int(self.visible.sum(1).max()))
        if now <= WORTHWHILE * min(compact, alone):
            return
        if alone <= compact:
            self._rebuild(self.cluster, torch.arange(len(self.visible), device=self.visible.device), self.visible)
        else:
            self._rebuild(living, together, union)

    def _rebuild(self, sources: torch.Tensor, clusters: torch.Tensor, kept: torch.Tensor) -> None:
        """New cluster c takes the slots ``kept[c]`` of old cluster ``sources[c]``; row r moves to ``clusters[r]``."""
        lengths = kept.sum(1)
        longest = int(lengths.max())
        capacity = longest + max(longest // 4, 64)
        slots = torch.argsort(~kept, dim=1, stable=True)[:, :longest]  # kept ones first, in their order
        valid = torch.arange(longest, device=kept.device)[None] < lengths[:, None]
        for buffers in (self._keys, self._values):
            for layer, old in buffers.items():
                new = old.new_zeros(len(kept), old.shape[1], capacity, old.shape[3])
                for index in range(len(kept)):
                    length = int(lengths[index])
                    new[index, :, :length] = old[sources[index]].index_select(1, slots[index, :length])
                buffers[layer] = new
        visible = torch.zeros(len(self.visible), capacity, dtype=torch.bool, device=kept.device)
        visible[:, :longest] = self.visible.gather(1, slots[clusters]) & valid[clusters]
        depths = torch.zeros(len(kept), capacity, dtype=torch.long, device=kept.device)
        depths[:, :longest] = self._depths[sources].gather(1, slots)
        self.cluster, self.visible, self._depths, self._used = clusters, visible, depths, lengths
        self._capacity = capacity

    def write(self, heads: Heads, layout: _Layout) -> tuple[torch.Tensor, torch.Tensor]:
        """Put the new rows' keys and values into their slots; all of the layer's, [C, K, used, D]."""
        keys, values = self._keys[heads.layer], self._values[heads.layer]
        keys[layout.cluster, :, layout.slot] = heads.key[0].transpose(0, 1)
        values[layout.cluster, :, layout.slot] = heads.value[0].transpose(0, 1)
        return keys[:, :, : layout.used], values[:, :, : layout.used]

    def clusters(self) -> int:
        """How many clusters there are."""
        return len(self._used)

    def distances(self, layout: _Layout) -> torch.Tensor:
        """How far before each row a slot's token stands, [R, used]."""
        return layout.depth[:, None] - self._depths[layout.cluster, : layout.used]


class Decode:
    """Attention plan of one step: each row sees its ancestors and itself."""

    def __init__(self, arena: Arena, layout: _Layout) -> None:
        self._arena = arena
        self._layout = layout
        self._masks: dict[tuple[int | None, torch.dtype], torch.Tensor] = {}
        self.depth = layout.depth

    def attend(self, heads: Heads) -> torch.Tensor:
        """Attention output, [1, H, R, D]. Rows stand padded to the widest cluster while they are computed."""
        keys, values = self._arena.write(heads, self._layout)
        layout = self._layout
        clusters, shared, _, size = keys.shape
        _, all_heads, rows, _ = heads.query.shape
        repeats = all_heads // shared
        query = heads.query[0].view(shared, repeats, rows, size).permute(2, 0, 1, 3)  # [R, K, H/K, D]
        padded = query.new_zeros(clusters, layout.width, shared, repeats, size)
        padded[layout.cluster, layout.place] = query
        # query heads that share keys become further rows of one product
        stacked = padded.permute(0, 2, 3, 1, 4).reshape(clusters, shared, repeats * layout.width, size)
        output = attend(heads, stacked, keys, values, self._mask(heads, repeats))
        output = output.view(clusters, shared, repeats, layout.width, size).permute(0, 3, 1, 2, 4)
        return output[layout.cluster, layout.place].reshape(1, rows, all_heads, size).transpose(1, 2)

    def _mask(self, heads: Heads, repeats: int) -> torch.Tensor:
        """Additive mask [C, 1, H/K × width, used], made once a step for each kind of layer."""
        kind = (heads.window, heads.query.dtype)
        if kind not in self._masks:
            layout = self._layout
            seen = layout.visible[:, : layout.used]
            if heads.window is not None:
                seen = seen & (self._arena.distances(layout) < heads.window)
            # a padded row may see everything, since its output is dropped; seeing nothing would make it NaN
            mask = heads.query.new_zeros(self._arena.clusters(), layout.width, layout.used)
            mask[layout.cluster, layout.place] = mask.new_zeros(seen.shape).masked_fill(~seen, -torch.inf)
            shape = (len(mask), 1, repeats, layout.width, layout.used)
            self._masks[kind] = mask[:, None, None].expand(shape).reshape(len(mask), 1, -1, layout.used)
        return self._masks[kind]


def _cost(clusters: int, width: int, slots: int) -> float:
    return clusters * slots * (READING + COMPUTING * width)
