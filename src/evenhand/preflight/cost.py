"""What a run will cost on this machine, from what was measured before it."""

from evenhand.preflight.setup import Samples, Setup

# Forward and backward over a token cost about three forward passes, and a KL term one more for the reference policy.
# Sampling a token is one forward pass, in smaller pieces. Measured: `evenhand bench` on this machine says it exactly.
UPDATE_PER_SAMPLED = 1.0


def seconds_per_completion(samples: Samples) -> float:
    """Measured sampling time of one completion."""
    return samples.seconds / max(len(samples.completions), 1)


def step_seconds(setup: Setup) -> float | None:
    """Seconds of one update, or None where no sampling was measured.

    The probe's steps are timed whole; without them the update is taken to cost as much as the sampling.
    """
    if setup.settings is None:
        return None
    if setup.updates is not None and setup.updates.seconds > 0:
        completions = setup.settings.completions_per_update
        larger = completions / (setup.updates.completions or completions)
        return setup.updates.seconds / setup.updates.steps * larger
    if setup.samples is None:
        return None
    sampling = seconds_per_completion(setup.samples) * setup.settings.completions_per_update
    return sampling * (1 + UPDATE_PER_SAMPLED)


def clock(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
