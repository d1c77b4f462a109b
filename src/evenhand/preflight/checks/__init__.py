"""The checks, in the order in which they are told. To add one: one file, one entry in ``CHECKS``."""

from evenhand.preflight.check import Check
from evenhand.preflight.checks.accumulation_count_zero import CHECK as ACCUMULATION_COUNT_ZERO
from evenhand.preflight.checks.answer_in_prompt import CHECK as ANSWER_IN_PROMPT
from evenhand.preflight.checks.batch_not_divisible import CHECK as BATCH_NOT_DIVISIBLE
from evenhand.preflight.checks.best_metric_unavailable import CHECK as BEST_METRIC_UNAVAILABLE
from evenhand.preflight.checks.bf16_unsupported import CHECK as BF16_UNSUPPORTED
from evenhand.preflight.checks.completion_budget_too_small import CHECK as COMPLETION_BUDGET_TOO_SMALL
from evenhand.preflight.checks.constant_answer_pays import CHECK as CONSTANT_ANSWER_PAYS
from evenhand.preflight.checks.constant_reward_term import CHECK as CONSTANT_REWARD_TERM
from evenhand.preflight.checks.device_not_usable import CHECK as DEVICE_NOT_USABLE
from evenhand.preflight.checks.disk_budget import CHECK as DISK_BUDGET
from evenhand.preflight.checks.dtype_not_pinned import CHECK as DTYPE_NOT_PINNED
from evenhand.preflight.checks.eval_cost_high import CHECK as EVAL_COST_HIGH
from evenhand.preflight.checks.evaluation_not_on_saved_steps import CHECK as EVALUATION_NOT_ON_SAVED_STEPS
from evenhand.preflight.checks.gold_not_full_reward import CHECK as GOLD_NOT_FULL_REWARD
from evenhand.preflight.checks.group_size_one import CHECK as GROUP_SIZE_ONE
from evenhand.preflight.checks.group_size_too_small import CHECK as GROUP_SIZE_TOO_SMALL
from evenhand.preflight.checks.label_wrong import CHECK as LABEL_WRONG
from evenhand.preflight.checks.learning_rate_band import CHECK as LEARNING_RATE_BAND
from evenhand.preflight.checks.logging_steps_fractional import CHECK as LOGGING_STEPS_FRACTIONAL
from evenhand.preflight.checks.memory_budget import CHECK as MEMORY_BUDGET
from evenhand.preflight.checks.model_not_loadable import CHECK as MODEL_NOT_LOADABLE
from evenhand.preflight.checks.mps_known_crash import CHECK as MPS_KNOWN_CRASH
from evenhand.preflight.checks.near_miss_scores_full import CHECK as NEAR_MISS_SCORES_FULL
from evenhand.preflight.checks.norm_weights_frozen import CHECK as NORM_WEIGHTS_FROZEN
from evenhand.preflight.checks.pad_equals_eos import CHECK as PAD_EQUALS_EOS
from evenhand.preflight.checks.prompt_column_missing import CHECK as PROMPT_COLUMN_MISSING
from evenhand.preflight.checks.prompts_too_long import CHECK as PROMPTS_TOO_LONG
from evenhand.preflight.checks.reward_accepts_degenerate import CHECK as REWARD_ACCEPTS_DEGENERATE
from evenhand.preflight.checks.reward_changes_arguments import CHECK as REWARD_CHANGES_ARGUMENTS
from evenhand.preflight.checks.reward_depends_on_place import CHECK as REWARD_DEPENDS_ON_PLACE
from evenhand.preflight.checks.reward_ignores_completion import CHECK as REWARD_IGNORES_COMPLETION
from evenhand.preflight.checks.reward_not_a_number import CHECK as REWARD_NOT_A_NUMBER
from evenhand.preflight.checks.reward_outlier import CHECK as REWARD_OUTLIER
from evenhand.preflight.checks.reward_pays_for_junk import CHECK as REWARD_PAYS_FOR_JUNK
from evenhand.preflight.checks.reward_prints import CHECK as REWARD_PRINTS
from evenhand.preflight.checks.reward_saturated_at_start import CHECK as REWARD_SATURATED_AT_START
from evenhand.preflight.checks.reward_signature import CHECK as REWARD_SIGNATURE
from evenhand.preflight.checks.reward_unbounded_below_illegal import CHECK as REWARD_UNBOUNDED_BELOW_ILLEGAL
from evenhand.preflight.checks.reward_weight_zero import CHECK as REWARD_WEIGHT_ZERO
from evenhand.preflight.checks.reward_wrong_length import CHECK as REWARD_WRONG_LENGTH
from evenhand.preflight.checks.sampling_measured import CHECK as SAMPLING_MEASURED
from evenhand.preflight.checks.sampling_overridden import CHECK as SAMPLING_OVERRIDDEN
from evenhand.preflight.checks.setting_refused import CHECK as SETTING_REFUSED
from evenhand.preflight.checks.setting_was_rewritten import CHECK as SETTING_WAS_REWRITTEN
from evenhand.preflight.checks.slow_not_hung import CHECK as SLOW_NOT_HUNG
from evenhand.preflight.checks.split_empty import CHECK as SPLIT_EMPTY
from evenhand.preflight.checks.split_overlap import CHECK as SPLIT_OVERLAP
from evenhand.preflight.checks.state_left_over import CHECK as STATE_LEFT_OVER
from evenhand.preflight.checks.steps_explained import CHECK as STEPS_EXPLAINED
from evenhand.preflight.checks.thinking_mode_not_set import CHECK as THINKING_MODE_NOT_SET
from evenhand.preflight.checks.truncated_before_answer import CHECK as TRUNCATED_BEFORE_ANSWER
from evenhand.preflight.checks.updates_swallowed import CHECK as UPDATES_SWALLOWED
from evenhand.preflight.checks.versions_not_verified import CHECK as VERSIONS_NOT_VERIFIED

__all__ = ["CHECKS"]

CHECKS: tuple[Check, ...] = (
    SETTING_REFUSED,
    GROUP_SIZE_ONE,
    BATCH_NOT_DIVISIBLE,
    ACCUMULATION_COUNT_ZERO,
    DEVICE_NOT_USABLE,
    BF16_UNSUPPORTED,
    MPS_KNOWN_CRASH,
    MODEL_NOT_LOADABLE,
    MEMORY_BUDGET,
    DISK_BUDGET,
    STATE_LEFT_OVER,
    SPLIT_EMPTY,
    PROMPT_COLUMN_MISSING,
    LABEL_WRONG,
    ANSWER_IN_PROMPT,
    SPLIT_OVERLAP,
    REWARD_SIGNATURE,
    REWARD_WRONG_LENGTH,
    REWARD_NOT_A_NUMBER,
    REWARD_CHANGES_ARGUMENTS,
    REWARD_DEPENDS_ON_PLACE,
    REWARD_PRINTS,
    REWARD_IGNORES_COMPLETION,
    CONSTANT_REWARD_TERM,
    REWARD_WEIGHT_ZERO,
    GOLD_NOT_FULL_REWARD,
    NEAR_MISS_SCORES_FULL,
    REWARD_ACCEPTS_DEGENERATE,
    CONSTANT_ANSWER_PAYS,
    REWARD_PAYS_FOR_JUNK,
    REWARD_UNBOUNDED_BELOW_ILLEGAL,
    REWARD_OUTLIER,
    COMPLETION_BUDGET_TOO_SMALL,
    PROMPTS_TOO_LONG,
    THINKING_MODE_NOT_SET,
    PAD_EQUALS_EOS,
    SAMPLING_OVERRIDDEN,
    DTYPE_NOT_PINNED,
    LEARNING_RATE_BAND,
    REWARD_SATURATED_AT_START,
    TRUNCATED_BEFORE_ANSWER,
    GROUP_SIZE_TOO_SMALL,
    NORM_WEIGHTS_FROZEN,
    UPDATES_SWALLOWED,
    SETTING_WAS_REWRITTEN,
    BEST_METRIC_UNAVAILABLE,
    LOGGING_STEPS_FRACTIONAL,
    EVALUATION_NOT_ON_SAVED_STEPS,
    EVAL_COST_HIGH,
    SLOW_NOT_HUNG,
    VERSIONS_NOT_VERIFIED,
    SAMPLING_MEASURED,
    STEPS_EXPLAINED,
)
