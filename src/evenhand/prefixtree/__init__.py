"""Every distinct token of a step computed once: the tree, its attention, scoring and rollout.

``refusal`` says why a model must keep the plain path; the others take only models for which it says nothing.
"""

from evenhand.prefixtree.attention import install
from evenhand.prefixtree.rollout import Limits, Rollout, generate_greedy, roll_out
from evenhand.prefixtree.sampling import Sampling
from evenhand.prefixtree.scoring import Batch, Scores, score
from evenhand.prefixtree.support import differs, dropout_refusal, refusal
from evenhand.prefixtree.tree import PrefixTree

__all__ = [
    "Batch",
    "Limits",
    "PrefixTree",
    "Rollout",
    "Sampling",
    "Scores",
    "differs",
    "dropout_refusal",
    "generate_greedy",
    "install",
    "refusal",
    "roll_out",
    "score",
]
