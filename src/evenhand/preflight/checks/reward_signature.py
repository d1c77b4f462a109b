"""``reward-signature``."""

from collections.abc import Sequence
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.reward_call import call_each
from evenhand.preflight.reward_study import RewardStudy, Term
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity
from evenhand.rewards import text_of

REMEDIES = {
    "signature": "Name the columns that you use, and end the signature with **kwargs: TRL passes all by keyword.",
    "raised": "Make the function answer every text, also an empty one; for conversational prompts a completion is a "
    "list of messages, and its text is completion[-1]['content'].",
    "hung": "Bound the work for one text; a regular expression that backtracks is the usual cause.",
    "value": "Return a list of floats; None where a completion cannot be judged.",
}


class RewardSignature(Check):
    """A reward function fails when it is called as TRL calls it.

    ## Why it matters

    TRL passes everything by keyword: prompts, completions, token ids, every column, the trainer's state and two log
    hooks. What does not fit fails at the first rollout, after the model was loaded, or later, at the first odd text.

    ## Example

    `def reward(completions, answer)` raises on `completion_ids`; `completion.strip()` raises where completions are
    messages.

    ## Remedy

    `def reward(completions, answer, **kwargs)`, and take the text from the last message of a conversational completion.
    """

    code: ClassVar[str] = "reward-signature"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """The faults of the dry run, with the completion that caused one."""
        study = present(setup.rewards)
        faults = []
        for term in study.terms:
            fault = next((o.fault for o in study.dry_run[term.name] if o.fault and o.fault.kind != "length"), None)
            if fault is not None:
                faults.append((term, fault))
        if not faults:
            return None
        told = [f"{fault.message}{culprit(study, term) if fault.kind == 'raised' else ''}" for term, fault in faults]
        kinds = {fault.kind for _, fault in faults}
        return self.finding(
            "; ".join(told) + ".",
            evidence={term.name: fault.kind for term, fault in faults},
            remedy=" ".join(REMEDIES[kind] for kind in sorted(kinds)),
        )

    def sick(self) -> Setup:
        """A function for two positional lists, as in many tutorials."""
        return Setup(rewards=examples.study(two_lists))


def culprit(study: RewardStudy, term: Term) -> str:
    """The first completion on which a function raises by itself."""
    batch = study.dry_batch(8)
    for completion, outcome in zip(batch.completions, call_each(term.function, batch, study.time_limit), strict=True):
        if outcome.fault is not None:
            return f", for the completion {completion!r}"
    return ""


def two_lists(completions: Sequence[Any], answer: Sequence[int]) -> list[float]:
    """No room for what else TRL passes."""
    return [float(text_of(c) == str(a)) for c, a in zip(completions, answer, strict=True)]


CHECK = RewardSignature()
