"""The parameter-update probe of a cold start: three supervised steps, and what they did to every parameter group.

Run as a child process, like ``evenhand.training.probe``, whose figures it gives.
"""

import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from evenhand.config import RunConfig
from evenhand.training.coldstart.run import build_trainer, load_parts, prepare
from evenhand.training.probe import STEPS, GradientWatch, Movement, count_stale, summarise
from evenhand.training.run import quiet_libraries


def probe(config: RunConfig) -> Movement:
    """Three steps on real examples at the full learning rate, in a folder that is thrown away.

    Raises:
        EvenhandError: whatever is wrong with the configuration, the examples, the model or the device.
    """
    plan = config.coldstart.model_copy(update={"warmup_steps": 0})
    lesson = prepare(config.model_copy(update={"coldstart": plan}))
    lesson = replace(lesson, examples=(lesson.examples * STEPS)[: STEPS * plan.batch_size])
    with tempfile.TemporaryDirectory() as scratch:
        trainer = build_trainer(lesson, load_parts(lesson), Path(scratch))
        trainer.args.report_to = []
        model: Any = trainer.model
        watch = GradientWatch(model)
        trainer.add_callback(watch)
        with quiet_libraries():
            trainer.train()
        # the first step also pays for what is done once
        seconds = (watch.ends[-1] - watch.ends[0]) / (STEPS - 1) * STEPS
        stale = count_stale(trainer.optimizer, model)
    groups = summarise(watch, plan.learning_rate)
    return Movement(STEPS, plan.learning_rate, groups, seconds, plan.batch_size, stale, spread=None)


def main(request: Path, answer: Path) -> None:
    """Read a configuration, write what the probe found."""
    config = RunConfig.model_validate(json.loads(request.read_text(encoding="utf-8")))
    answer.write_text(json.dumps(asdict(probe(config))), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
