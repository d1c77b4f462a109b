"""What a group's rewards become: mean, deviation, advantage, and the push on each completion's tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.errors import ConfigurationError
from evenhand.rewards import ADVANTAGE_EPSILON, ScaleRewards, group_advantages, sample_deviation

# What each loss divides by: trl/trainer/grpo_trainer.py, _compute_loss.
NORMALISERS = {
    "grpo": "each completion's own number of tokens, then the number of completions",
    "bnpo": "the number of tokens of the micro-batch",
    "dr_grpo": "completions × the completion limit, a constant",
    "dapo": "the number of tokens of the whole accumulated batch",
    "cispo": "the number of tokens of the whole accumulated batch",
    "vespo": "the number of tokens of the whole accumulated batch",
    "sapo": "each completion's own number of tokens, then the number of completions",
    "luspo": "the number of completions",
}
# Below this the advantages of the others say next to nothing about right and wrong; see ``outlier.py``.
FLAT_BELOW = 0.04
BAR = 24  # characters of the longest bar


@dataclass(frozen=True, slots=True)
class LossOptions:
    """TRL's options that shape a token's loss, under its own names and defaults."""

    scale_rewards: ScaleRewards = "group"
    loss_type: str = "dapo"
    epsilon: float = 0.2
    beta: float = 0.0


@dataclass(frozen=True, slots=True)
class Member:
    """One completion of the group."""

    reward: float
    advantage: float

    @property
    def push(self) -> str:
        """Which way the probability of each of its tokens is pushed."""
        return "up" if self.advantage > 0 else "down" if self.advantage < 0 else "none"


@dataclass(frozen=True, slots=True)
class Explanation:
    """A group explained.

    Attributes:
        members: The completions in the order given.
        mean, deviation: Of the rewards; the sample deviation, with n - 1.
        options: As asked.
        sentences: What it means, in plain words.
    """

    members: tuple[Member, ...]
    mean: float
    deviation: float
    options: LossOptions
    sentences: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Every number, and the sentences."""
        return {
            "rewards": [member.reward for member in self.members],
            "advantages": [member.advantage for member in self.members],
            "push": [member.push for member in self.members],
            "mean": self.mean,
            "deviation": self.deviation,
            "scale_rewards": self.options.scale_rewards,
            "loss_type": self.options.loss_type,
            "epsilon": self.options.epsilon,
            "beta": self.options.beta,
            "token_loss": [-member.advantage for member in self.members],
            "loss": -sum(member.advantage for member in self.members) / len(self.members),
            "means": list(self.sentences),
        }


def explain_group(rewards: Sequence[float], options: LossOptions) -> Explanation:
    """Explain one group.

    Args:
        rewards: Weighted rewards of the completions of one prompt.
        options: How TRL was told to scale and to lose.

    Raises:
        ConfigurationError: fewer than two rewards, or an unknown loss.
    """
    if len(rewards) < 2:
        raise ConfigurationError("A group needs at least two rewards.", "Write: evenhand explain 2.5 1.0 1.0 2.5")
    if options.loss_type not in NORMALISERS:
        known = ", ".join(NORMALISERS)
        raise ConfigurationError(f"There is no loss type '{options.loss_type}'.", f"Known: {known}.")
    advantages = group_advantages(rewards, len(rewards), options.scale_rewards)
    members = tuple(Member(reward, advantage) for reward, advantage in zip(rewards, advantages, strict=True))
    mean, deviation = sum(rewards) / len(rewards), sample_deviation(rewards)
    sentences = (*meaning(members, options), *mechanics(members, options, deviation))
    return Explanation(members, mean, deviation, options, sentences)


def meaning(members: Sequence[Member], options: LossOptions) -> list[str]:
    """What the group teaches."""
    distinct = sorted({member.reward for member in members})
    if len(distinct) == 1:
        return ["All rewards are equal, so every advantage is 0: this group teaches nothing."]
    outlier = outlier_of(members)
    if outlier is None:
        return ["Completions above the mean are made likelier, those below it less likely."]
    others = [member for member in members if member is not outlier]
    low, high = min(m.advantage for m in others), max(m.advantage for m in others)
    gap = high - low
    sentence = (
        f"One reward, {outlier.reward:g}, is so far from the others that they all get nearly the same advantage "
        f"({low:+.5f} to {high:+.5f}): the best and the worst of them differ by {gap:.2g}, and the outlier is pushed "
        f'{abs(outlier.advantage) / max(gap, 1e-12):,.0f} times as hard as that. The group says "do not do that one '
        'thing" and nothing about right and wrong.'
    )
    if options.scale_rewards == "none":
        sentence += " Without scaling the gap keeps its size, but clipping the gradient norm shrinks it all the same."
    return [sentence, "Bound the worst reward near the others."]


def outlier_of(members: Sequence[Member]) -> Member | None:
    """The completion whose reward flattens the others, if the others differ and one does."""
    furthest = max(members, key=lambda member: abs(member.advantage))
    others = [member.advantage for member in members if member is not furthest]
    gap = max(others) - min(others)
    return furthest if 0 < gap < FLAT_BELOW * abs(furthest.advantage) else None


def mechanics(members: Sequence[Member], options: LossOptions, deviation: float) -> list[str]:
    """How the numbers come about, and what they do to tokens."""
    divided = {
        "group": f"divided by the group's deviation {deviation:.6g} + {ADVANTAGE_EPSILON:g}",
        "batch": f"divided by the whole batch's deviation + {ADVANTAGE_EPSILON:g} (here this group is the batch)",
        "none": "not divided by anything",
    }[options.scale_rewards]
    up, down = 1 + options.epsilon, 1 - options.epsilon
    total = sum(member.advantage for member in members)
    sentences = [
        f"Advantage = reward - mean, {divided}.",
        "Every token of a completion gets that completion's advantage, right tokens and wrong ones alike.",
        f"A token that is pushed up is pushed until its probability ratio reaches {up:g}; one that is pushed down, "
        f"until {down:g}. In the first update after sampling every ratio is 1, so nothing is clipped.",
        f"At ratio 1 a token's loss is minus its advantage. The advantages of a group sum to {total:.1e}, so the "
        "printed loss is about 0 while its gradient is not: judge by reward and gradient norm, not by loss.",
        f"Loss type {options.loss_type} divides the sum over tokens by {NORMALISERS[options.loss_type]}.",
    ]
    if options.beta:
        sentences.append(
            f"beta {options.beta:g} adds {options.beta:g} × KL to every token's loss: 0 at the first update, and it "
            "grows as the policy leaves its reference, so the printed loss rises with it."
        )
    return sentences


def bar(value: float, largest: float) -> str:
    """A bar of ``-`` to the left or ``+`` to the right of a middle line, as long as the value."""
    length = round(abs(value) / largest * BAR) if largest > 0 else 0
    if value and not length:
        length = 1
    left, right = ("-" * length, "") if value < 0 else ("", "+" * length)
    return f"{left:>{BAR}}|{right:<{BAR}}"
