"""Recorded logs of real small runs, and a healthy one written by hand."""

import random
from pathlib import Path

from evenhand.diagnosis.history import history_of
from evenhand.diagnosis.readers import read_history

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"
SOUND = ("healthy", "solved", "short", "resumed")


def recorded(name):
    """The history of a recorded run."""
    return read_history(LOGS / name)


def learning(rows=60, seed=0, group_size=8, prompts=4):
    """A run that learns, drawn at random: right with a probability that climbs from 0.1 to 0.9."""
    generator = random.Random(seed)
    keys = "reward reward_std frac_reward_zero_std grad_norm entropy loss kl rewards/accuracy/mean rewards/accuracy/std"
    columns = {key: [] for key in keys.split()}
    for row in range(rows):
        skill = 0.1 + 0.8 * row / rows
        groups = [[float(generator.random() < skill) for _ in range(group_size)] for _ in range(prompts)]
        uniform = sum(len(set(group)) == 1 for group in groups) / prompts
        mean = sum(map(sum, groups)) / (group_size * prompts)
        spread = (mean * (1 - mean)) ** 0.5
        values = [mean, spread, uniform, (1 - uniform) * generator.uniform(0.5, 1.5), 0.5 * 0.98**row]
        values += [generator.gauss(0, 0.002), 0.0002 * row, mean, spread]
        for key, value in zip(columns, values, strict=True):
            columns[key].append(value)
    return history_of(columns)
