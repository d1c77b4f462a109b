"""A hundred thousand rows are read and judged in two seconds."""

import json
import random
import time

from evenhand.diagnosis.diagnose import diagnose
from evenhand.diagnosis.readers import read_text

KEYS = ["loss", "grad_norm", "learning_rate", "num_tokens", "completions/mean_length", "completions/clipped_ratio"]
KEYS += ["rewards/answer/mean", "rewards/answer/std", "rewards/format/mean", "reward", "reward_std", "kl", "entropy"]
KEYS += ["frac_reward_zero_std", "clip_ratio/region_mean", "epoch"]


def test_a_hundred_thousand_rows():
    generator = random.Random(0)
    lines = [
        json.dumps({"step": step, **{key: round(generator.random(), 4) for key in KEYS}}) for step in range(100_000)
    ]
    text = "\n".join(lines)
    start = time.process_time()
    history = read_text(text, "the log")
    diagnose(history)
    assert time.process_time() - start < 2.0
    assert history.rows == 100_000
