"""The rules, in the order in which findings of one severity are told. To add one: one file, one entry in ``RULES``."""

from evenhand.diagnosis.rule import Rule
from evenhand.diagnosis.rules.accumulation_count_zero import RULE as ACCUMULATION_COUNT_ZERO
from evenhand.diagnosis.rules.accuracy_flat import RULE as ACCURACY_FLAT
from evenhand.diagnosis.rules.clip_ratio_zero import RULE as CLIP_RATIO_ZERO
from evenhand.diagnosis.rules.collapsed_identical_rollouts import RULE as COLLAPSED_IDENTICAL_ROLLOUTS
from evenhand.diagnosis.rules.collapsing import RULE as COLLAPSING
from evenhand.diagnosis.rules.constant_reward_term import RULE as CONSTANT_REWARD_TERM
from evenhand.diagnosis.rules.dtype_changed_on_save import RULE as DTYPE_CHANGED_ON_SAVE
from evenhand.diagnosis.rules.easy_term_crowds_out_goal import RULE as EASY_TERM_CROWDS_OUT_GOAL
from evenhand.diagnosis.rules.format_saturated import RULE as FORMAT_SATURATED
from evenhand.diagnosis.rules.gradient_zero_despite_spread import RULE as GRADIENT_ZERO_DESPITE_SPREAD
from evenhand.diagnosis.rules.groups_uniform import RULE as GROUPS_UNIFORM
from evenhand.diagnosis.rules.kl_nonzero import RULE as KL_NONZERO
from evenhand.diagnosis.rules.loss_tracks_beta_kl import RULE as LOSS_TRACKS_BETA_KL
from evenhand.diagnosis.rules.loss_zero_is_normal import RULE as LOSS_ZERO_IS_NORMAL
from evenhand.diagnosis.rules.low_entropy_is_normal import RULE as LOW_ENTROPY_IS_NORMAL
from evenhand.diagnosis.rules.metric_absent import RULE as METRIC_ABSENT
from evenhand.diagnosis.rules.mps_graph_cache_growth import RULE as MPS_GRAPH_CACHE_GROWTH
from evenhand.diagnosis.rules.peak_then_collapse import RULE as PEAK_THEN_COLLAPSE
from evenhand.diagnosis.rules.predictions_bet import RULE as PREDICTIONS_BET
from evenhand.diagnosis.rules.reward_flat import RULE as REWARD_FLAT
from evenhand.diagnosis.rules.reward_saturated_at_start import RULE as REWARD_SATURATED_AT_START
from evenhand.diagnosis.rules.sampled_score import RULE as SAMPLED_SCORE
from evenhand.diagnosis.rules.solved import RULE as SOLVED
from evenhand.diagnosis.rules.steps_explained import RULE as STEPS_EXPLAINED
from evenhand.diagnosis.rules.train_up_heldout_down import RULE as TRAIN_UP_HELDOUT_DOWN
from evenhand.diagnosis.rules.truncated_before_answer import RULE as TRUNCATED_BEFORE_ANSWER
from evenhand.diagnosis.rules.updates_swallowed import RULE as UPDATES_SWALLOWED
from evenhand.diagnosis.rules.weights_are_nan import RULE as WEIGHTS_ARE_NAN

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    WEIGHTS_ARE_NAN,
    ACCUMULATION_COUNT_ZERO,
    TRUNCATED_BEFORE_ANSWER,
    REWARD_SATURATED_AT_START,
    COLLAPSED_IDENTICAL_ROLLOUTS,
    GROUPS_UNIFORM,
    GRADIENT_ZERO_DESPITE_SPREAD,
    KL_NONZERO,
    TRAIN_UP_HELDOUT_DOWN,
    PEAK_THEN_COLLAPSE,
    EASY_TERM_CROWDS_OUT_GOAL,
    CONSTANT_REWARD_TERM,
    UPDATES_SWALLOWED,
    COLLAPSING,
    PREDICTIONS_BET,
    ACCURACY_FLAT,
    MPS_GRAPH_CACHE_GROWTH,
    DTYPE_CHANGED_ON_SAVE,
    SAMPLED_SCORE,
    REWARD_FLAT,
    FORMAT_SATURATED,
    METRIC_ABSENT,
    STEPS_EXPLAINED,
    SOLVED,
    LOSS_TRACKS_BETA_KL,
    LOSS_ZERO_IS_NORMAL,
    LOW_ENTROPY_IS_NORMAL,
    CLIP_RATIO_ZERO,
)
