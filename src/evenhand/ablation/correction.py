"""How sure a study has to be: 95 % for all comparisons of a measure together (Bonferroni)."""

LEVEL = 0.05
LEAST_SEEDS = 2  # one seed has no spread


def confidence(comparisons: int) -> float:
    """Of each interval, so that all ``comparisons`` of them hold together with 95 %."""
    return 1 - LEVEL / comparisons


def corrected(p: float, comparisons: int) -> float:
    """A p-value multiplied by the number of comparisons, at most 1."""
    return min(1.0, p * comparisons)
