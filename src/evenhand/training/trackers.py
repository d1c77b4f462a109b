"""Findings in the trackers that TRL's ``report_to`` names. Evaluations are there already: they join the log rows."""

from collections.abc import Callable

from transformers import Trainer

from evenhand.records import SEVERITIES, Finding

PREFIX = "findings/"  # findings/<code> = 0 ok, 1 note, 2 warn, 3 stop, at the log row after it was found

Say = Callable[[Finding], None]


def tracked(trainer: Trainer, say: Say) -> Say:
    """What a watchdog may call with each finding: it joins the next log row, then goes on to ``say``.

    A row of numbers is all that every tracker can show (TensorBoard, Weights & Biases, Trackio), so the severity stands
    as a number; the words are in the run folder's ``findings.jsonl``.
    """

    def track(finding: Finding) -> None:
        metrics = getattr(trainer, "_metrics", None)  # TRL's, which trainer.log empties into the row
        if metrics is not None:
            metrics["train"][f"{PREFIX}{finding.code}"].append(float(SEVERITIES.index(finding.severity)))
        say(finding)

    return track
