"""The figures of a report, in the order of the page. To add one: one file in this folder, one entry in ``FIGURES``."""

from evenhand.report.figures.figure import Figure
from evenhand.report.figures.pairs import FIGURE as PAIRS
from evenhand.report.figures.positions import FIGURE as POSITIONS
from evenhand.report.figures.predictions import FIGURE as PREDICTIONS
from evenhand.report.figures.rewards import FIGURE as REWARDS
from evenhand.report.figures.scores import FIGURE as SCORES
from evenhand.report.figures.signs import FIGURE as SIGNS
from evenhand.report.figures.truths import FIGURE as TRUTHS

__all__ = ["FIGURES", "Figure"]

FIGURES: tuple[Figure, ...] = (SCORES, REWARDS, SIGNS, PAIRS, PREDICTIONS, POSITIONS, TRUTHS)
