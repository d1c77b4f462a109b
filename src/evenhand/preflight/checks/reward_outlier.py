"""``reward-outlier-flattens-group``."""

from collections.abc import Sequence
from typing import Any, ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.exploits import Exploits, search
from evenhand.preflight.outlier import FLAT_BELOW, SCALES, OutlierGroup, safe_bound
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity
from evenhand.rewards import ScaleRewards, text_of

DEFAULT_GROUP = 8  # TRL's num_generations where no configuration says


class RewardOutlierFlattensGroup(Check):
    """One worst value in a group leaves right and wrong closer together than noise.

    ## Why it matters

    TRL divides by the group's standard deviation. One reward far below the others makes it so large that all the others
    get the same advantage: the group says "do not do that one thing" and nothing about right and wrong.

    ## Example

    -114514 beside -6 … 0: the seven legal completions get +0.35348 to +0.35363, and what separates the best from the
    worst of them is 0.00015.

    ## Remedy

    Bound the penalty near the other rewards; the finding says where. It need only be the worst, not far the worst.
    """

    code: ClassVar[str] = "reward-outlier-flattens-group"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("rewards",)

    def judge(self, setup: Setup) -> Verdict:
        """The worst reward reached, once in a group of right and usual wrong completions."""
        study = present(setup.rewards)
        if not study.gold_known:
            return self.unknown("no gold text is known; name its column with --gold")
        size = setup.settings.group_size if setup.settings is not None else DEFAULT_GROUP
        right, wrong = max(study.gold), usual_wrong(search(study))
        worst = min(search(study).values)
        if size < 3 or not worst < wrong < right:
            return None
        group = OutlierGroup(worst, right, wrong, size)
        scale = scale_of(setup)
        if group.relative_gap(scale) >= FLAT_BELOW:
            return None
        bound = safe_bound(right, wrong, size, scale)
        return self.finding(
            f"One completion that earns {worst:.6g} in a group of {size} leaves right ({right:.4g}) and wrong "
            f"({wrong:.4g}) {group.gap(scale):.2g} apart in advantage, beside its own push of "
            f"{group.advantages(scale)[0]:.4g}.",
            evidence={
                "worst": worst,
                "right": right,
                "wrong": wrong,
                "gap": {name: group.gap(name) for name in SCALES},
                "gap_by_largest_push": {name: group.relative_gap(name) for name in SCALES},
                "safe_bound": bound,
            },
            remedy=f"Bound the reward from below at {bound:.4g} or above: then right and wrong stay apart.",
        )

    def sick(self) -> Setup:
        """A distance, and a penalty out of all proportion."""
        return Setup(rewards=examples.study(huge_penalty))


def usual_wrong(exploits: Exploits) -> float:
    """Mean reward of answers of gold's form that are wrong, or of the best texts that know nothing."""
    legal = [paid.mean for paid in exploits.legal]
    usual = sorted(legal)[len(legal) // 2 :]  # the better half: the far-off ones are outliers themselves
    return sum(usual) / len(usual) if usual else exploits.blind[0].mean


def scale_of(setup: Setup) -> ScaleRewards:
    """TRL's ``scale_rewards``; ``group`` where nothing says."""
    asked = setup.settings.train.get("scale_rewards") if setup.settings is not None else None
    named: dict[Any, ScaleRewards] = {"batch": "batch", "none": "none", False: "none"}
    return named.get(asked, "group")


def huge_penalty(completions: Sequence[Any], answer: Sequence[int], **_: Any) -> list[float]:
    """Minus the distance, and -114514 for what is no sum."""
    texts = [text_of(completion).removeprefix("Sum: ") for completion in completions]
    return [-min(abs(int(t) - truth), 11) if t.isdigit() else -114514.0 for t, truth in zip(texts, answer, strict=True)]


CHECK = RewardOutlierFlattensGroup()
