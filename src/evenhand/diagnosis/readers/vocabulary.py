"""Names under which trainers and trackers log the same thing, and the one under which it is kept here: TRL's newest.

Public sources of the names: TRL's ``GRPOTrainer`` (0.14 to 1.16), verl's console and tracker metrics, OpenRLHF's
progress line, ms-swift's ``logging.jsonl``, Unsloth's notebook tables, and exports of Weights & Biases, TensorBoard
and MLflow.
"""

import re
from functools import lru_cache

STEP_KEYS = (
    "train/global_step",
    "training/global_step",
    "trainer/global_step",
    "global_step/max_steps",
    "global_step",
    "step",
    "_step",
    "Step",
    "iteration",
    "iter",
    "Iter",
)

# Found name, lower case and without a leading train/ -> kept name. Where two found names mean one kept name, the one
# that stands earlier in this table wins.
ALIASES = {
    "loss": "loss",
    "training loss": "loss",
    "actor/loss": "loss",
    "actor/pg_loss": "loss",
    "policy_loss": "loss",
    "act_loss": "loss",
    "pg_loss": "loss",
    "total loss": "loss",
    "grad_norm": "grad_norm",
    "actor/grad_norm": "grad_norm",
    "actor_grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "actor/lr": "learning_rate",
    "actor_lr": "learning_rate",
    "act_lr": "learning_rate",
    "lr": "learning_rate",
    "reward": "reward",
    "rewards/mean": "reward",
    "critic/score/mean": "reward",
    "critic/rewards/mean": "reward",
    "reward_mean": "reward",
    "mean_reward": "reward",
    "total_rewards_mean": "reward",
    "reward/mean": "reward",
    "reward_std": "reward_std",
    "group_reward_std": "reward_std",
    "grouped_rewards_std": "reward_std",
    "frac_reward_zero_std": "frac_reward_zero_std",
    "frac_trained_zero_std": "frac_trained_zero_std",
    "critic/advantages/max": "advantages/max",
    "critic/advantages/min": "advantages/min",
    "critic/score/max": "reward_max",
    "critic/score/min": "reward_min",
    "kl": "kl",
    "actor/kl_loss": "kl",
    "kl_loss": "kl",
    "kl_mean": "kl",
    "actor/kl": "kl",
    "entropy": "entropy",
    "entropy/mean": "entropy",
    "actor/entropy": "entropy",
    "actor/entropy_loss": "entropy",
    "entropy_loss": "entropy",
    "completions/mean_length": "completions/mean_length",
    "completion_length": "completions/mean_length",
    "response_length/mean": "completions/mean_length",
    "response_length": "completions/mean_length",
    "completions/max_length": "completions/max_length",
    "response_length/max": "completions/max_length",
    "completions/min_length": "completions/min_length",
    "response_length/min": "completions/min_length",
    "completions/clipped_ratio": "completions/clipped_ratio",
    "completions/clip_ratio": "completions/clipped_ratio",
    "response_length/clip_ratio": "completions/clipped_ratio",
    "truncated": "completions/clipped_ratio",
    "completions/mean_terminated_length": "completions/mean_terminated_length",
    "completions/min_terminated_length": "completions/min_terminated_length",
    "completions/max_terminated_length": "completions/max_terminated_length",
    "clip_ratio/region_mean": "clip_ratio/region_mean",
    "clip_ratio": "clip_ratio/region_mean",
    "actor/pg_clipfrac": "clip_ratio/region_mean",
    "policy_clip_ratio": "clip_ratio/region_mean",
    "ppo_clip_ratio": "clip_ratio/region_mean",
    "clip_ratio/high_mean": "clip_ratio/high_mean",
    "clip_ratio/high_max": "clip_ratio/high_max",
    "clip_ratio/low_mean": "clip_ratio/low_mean",
    "clip_ratio/low_min": "clip_ratio/low_min",
    "epoch": "epoch",
    "training/epoch": "epoch",
    "num_tokens": "num_tokens",
    "num_input_tokens_seen": "num_tokens",
    "step_time": "step_time",
    "timing_s/step": "step_time",
    "rollout_time": "rollout_time",
    "timing_s/gen": "rollout_time",
    "memory/process": "memory/process",
    "memory(gib)": "memory/process",
    "process_memory": "memory/process",
    "memory/driver": "memory/driver",
    "driver_memory": "memory/driver",
    "mps/driver_allocated_memory": "memory/driver",
    "memory/distinct_lengths": "memory/distinct_lengths",
}
PRIORITY = {name: place for place, name in enumerate(ALIASES)}

# Keys that no rule reads and nobody misses: bookkeeping of trainers and trackers.
BOOKKEEPING = re.compile(
    r"^(_runtime|_timestamp|wall.?time|elapsed_time|remaining_time|percentage|train_speed.*|total_flos"
    r"|.*__(min|max|step)|.*_runtime|.*(samples|steps)_per_second|(perf|timing_s|timing_per_token_ms|global_seqlen)/.*"
    r"|prompt_length/.*|profiling/.*|sampling/.*|completions_sampled|entropy_coef)$",
    re.I,
)

EVALUATION = re.compile(r"^(?:eval|dev|val|validation|test|val-core|val-aux)[/_](.+)$", re.I)

# Keys that only another kind of training logs, and what that kind is called.
OTHER_KINDS = (
    (
        re.compile(r"rewards/(chosen|rejected|margins)$|logps/(chosen|rejected)$"),
        "preference training (DPO or a relative)",
    ),
    (re.compile(r"critic/vf_loss$|value_loss|loss/value_avg$|vf_loss|explained_variance"), "PPO with a value model"),
    (re.compile(r"mean_token_accuracy$"), "supervised fine-tuning"),
)


def bare_name(found: str) -> str:
    """A key without spaces around its slashes and without the run's name, which a tracker's chart puts before it."""
    name = re.sub(r"\s*/\s*", "/", found.strip())
    return name.rsplit(" - ", 1)[1].strip() if " - " in name else name


@lru_cache(maxsize=4096)
def kept_name(found: str) -> str | None:
    """The name under which a found key is kept, or None where no rule reads it."""
    name = bare_name(found)
    if BOOKKEEPING.match(name):
        return None
    name = re.sub(r"^(train|rollout|objective|policy)/", "", name)
    if re.match(r"^Val ", name):
        name = "eval/" + name[4:]
    evaluated = EVALUATION.match(name)
    if evaluated and not name.startswith("eval_on_start"):
        return evaluation_name(evaluated.group(1))
    known = ALIASES.get(name.lower()) or ALIASES.get(name.lower().replace(" ", "_"))
    if known is not None:
        return known
    part = re.match(r"^rewards?/(.+?)(?:/(mean|std))?$", name)
    if part and part.group(1) not in {"mean", "std", "max", "min"}:
        return f"rewards/{part.group(1)}/{part.group(2) or 'mean'}"
    if name.startswith(("metrics/", "memory/", "completions/")):
        return name
    return None


def is_bookkeeping(found: str) -> bool:
    """Whether a found key is one that no rule reads and nobody misses."""
    return BOOKKEEPING.match(bare_name(found)) is not None


def evaluation_name(name: str) -> str | None:
    """The kept name of a held-out metric; sampling details of evaluations are not kept."""
    if re.search(r"runtime|per_second|num_tokens|length|clip|entropy|step_time|/std$|_std$", name):
        return None
    name = re.sub(r"^rewards/(.+)/mean$", r"rewards/\1", name)
    return f"eval/{name}"


def other_kind(keys: set[str]) -> str | None:
    """Which other training a log is of, or None."""
    for pattern, kind in OTHER_KINDS:
        if any(pattern.search(key) for key in keys):
            return kind
    return None
