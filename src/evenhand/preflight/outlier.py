"""What one very bad reward does to the group it stands in."""

from dataclasses import dataclass

from evenhand.rewards import ScaleRewards, group_advantages

SCALES: tuple[ScaleRewards, ...] = ("group", "batch", "none")

# Right and wrong must stay this far apart, as a share of the largest push in the group. In a healthy group of equal
# halves the gap is 2; at 0.04 one outlier pushes 25 times as hard as the difference that is to be learned, and in BF16,
# whose steps are 0.4 to 0.8 %, little of it survives the sum of gradients.
FLAT_BELOW = 0.04
# The bound that is advised leaves half of the largest push between right and wrong.
COMFORTABLE = 0.5


@dataclass(frozen=True, slots=True)
class OutlierGroup:
    """A group of one outlier, and right and wrong completions about half and half, beside ``others`` healthy groups."""

    worst: float
    right: float
    wrong: float
    size: int
    others: int = 3  # four prompts an update, as in the reference; they matter under ``batch`` alone

    @property
    def rewards(self) -> list[float]:
        """The outlier first, then the right ones, then the wrong ones."""
        rights = self.size // 2
        return [self.worst, *[self.right] * rights, *[self.wrong] * (self.size - 1 - rights)]

    def advantages(self, scale: ScaleRewards) -> list[float]:
        """The group's advantages, as TRL computes them."""
        rights = self.size // 2
        healthy = [*[self.right] * rights, *[self.wrong] * (self.size - rights)]
        return group_advantages([*self.rewards, *healthy * self.others], self.size, scale)[: self.size]

    def gap(self, scale: ScaleRewards) -> float:
        """How far apart the advantages of right and wrong are."""
        advantages = self.advantages(scale)
        return advantages[1] - advantages[-1]

    def relative_gap(self, scale: ScaleRewards) -> float:
        """The gap as a share of the largest push in the group."""
        largest = max(abs(advantage) for advantage in self.advantages(scale))
        return self.gap(scale) / largest if largest > 0 else 0.0


def safe_bound(right: float, wrong: float, size: int, scale: ScaleRewards) -> float:
    """The lowest reward that leaves right and wrong comfortably apart, found by halving.

    Args:
        right, wrong: Rewards of a right and of a usual wrong completion.
        size: Completions of a group.
        scale: TRL's ``scale_rewards``.
    """
    span = right - wrong
    low, high = 0.0, 1e6  # how many spans below wrong the outlier may lie
    for _ in range(60):
        middle = (low + high) / 2
        group = OutlierGroup(wrong - middle * span, right, wrong, size)
        low, high = (middle, high) if group.relative_gap(scale) >= COMFORTABLE else (low, middle)
    return wrong - low * span
