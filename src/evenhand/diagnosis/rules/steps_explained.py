"""``steps-explained``."""

import math
from typing import ClassVar

from evenhand.diagnosis.history import History, history_of
from evenhand.diagnosis.rule import Rule, Verdict
from evenhand.records import Severity


class StepsExplained(Rule):
    """What the steps so far amount to in completions, prompts and epochs.

    ## Why it matters

    The batch counts completions, not prompts: a step that scores 32 completions in groups of 8 sees 4 prompts, and 100
    such steps see 0.2 epochs of 2,000 problems. People who count steps as epochs wait for an effect that cannot be
    there yet, or plan a sixth of the time that a run takes.

    ## Example

    3 devices x 4 x 2 accumulated = 24 completions = 4 prompts of 6; 8,000 prompts take 2,000 steps per epoch.

    ## Remedy

    Plan in prompts. To see more of them per step, raise `gradient_accumulation_steps`.
    """

    code: ClassVar[str] = "steps-explained"
    severity: ClassVar[Severity] = "note"
    live: ClassVar[bool] = False

    def judge(self, history: History) -> Verdict:
        """Said wherever the settings, or step and epoch, are known."""
        prompts = prompts_per_step(history)
        size = history.setting("num_train_prompts")
        step = float(history.steps[-1]) if history.rows and history.steps_known else None
        epoch = history.get("epoch").finite
        planned = history.setting("max_steps") or history.setting("total_steps_shown")
        if prompts is None and (step is None or not len(epoch) or planned is None):
            return self.unknown("batch, accumulation and group size are not known")
        sentences, evidence = [], {"step": step, "prompts_per_step": prompts}
        if prompts is not None:
            completions = prompts * (history.setting("num_generations") or 0)
            sentences.append(f"A step scores {completions:.0f} completions, which are {prompts:g} prompts.")
            evidence["completions_per_step"] = completions
            iterations = history.setting("num_iterations") or 1
            if size is not None:
                per_epoch = math.ceil(size * iterations / prompts)
                epochs = history.setting("num_train_epochs")
                total = f", {per_epoch * epochs:.0f} for {epochs:g}" if epochs and epochs > 0 else ""
                sentences.append(f"{size:.0f} prompts take {per_epoch} steps per epoch{total}.")
                evidence |= {"steps_per_epoch": per_epoch, "total_steps": per_epoch * (epochs or 1)}
            if step:
                sentences.append(f"{step:.0f} steps have seen {step * prompts / iterations:.0f} prompts.")
        if step is not None and len(epoch):
            of = f" of {planned:.0f}" if planned and planned > 0 else ""
            sentences.append(f"Step {step:.0f}{of} is epoch {epoch.values[-1]:.3g}.")
            evidence["epoch"] = epoch.values[-1]
        return self.finding(" ".join(sentences), evidence=evidence, remedy="Plan in prompts, not in steps.")

    def sick(self) -> History:
        """The settings of a public question."""
        return history_of(
            {"reward": [0.1, 0.2]},
            settings={
                "num_train_prompts": 8000, "num_train_epochs": 2, "per_device_train_batch_size": 4,
                "gradient_accumulation_steps": 2, "num_processes": 3, "num_generations": 6, "num_iterations": 1,
            },
        )  # fmt: skip


def prompts_per_step(history: History) -> float | None:
    """Different prompts behind one optimiser step, or None where the settings do not tell."""
    per_device, group = history.setting("per_device_train_batch_size"), history.setting("num_generations")
    if per_device is None or not group:
        return None
    accumulation = history.setting("gradient_accumulation_steps") or 1
    return per_device * accumulation * (history.setting("num_processes") or 1) / group


RULE = StepsExplained()
