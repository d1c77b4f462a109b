"""``setting-refused``."""

from dataclasses import replace
from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.checks.batch_not_divisible import CHECK as BATCH_NOT_DIVISIBLE
from evenhand.preflight.checks.bf16_unsupported import CHECK as BF16_UNSUPPORTED
from evenhand.preflight.checks.device_not_usable import CHECK as DEVICE_NOT_USABLE
from evenhand.preflight.checks.group_size_one import CHECK as GROUP_SIZE_ONE
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Finding, Severity


class SettingRefused(Check):
    """The installed TRL refuses the settings.

    ## Why it matters

    It would do so after the model was loaded.

    ## Example

    `generation_batch_size` and `steps_per_generation` both given.

    ## Remedy

    As TRL's sentence says.
    """

    code: ClassVar[str] = "setting-refused"
    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[tuple[Part, ...]] = ("settings",)

    def judge(self, setup: Setup) -> Verdict:
        """TRL's own words, where no other check has better ones."""
        settings = present(setup.settings)
        if not settings.refused:
            return None
        better = [check.answer(setup) for check in BETTER]
        if any(isinstance(verdict, Finding) for verdict in better):
            return None
        return self.finding(
            f"TRL refuses these settings: {settings.refused.rstrip(chr(46))}.",
            remedy="Change the values that the sentence names.",
        )

    def sick(self) -> Setup:
        """Two settings that exclude each other."""
        refused = "'generation_batch_size' and 'steps_per_generation' can not be both configured at the same time"
        return Setup(settings=replace(examples.settings(), refused=refused))


# Checks that say the same with the sum and the remedy.
BETTER = (GROUP_SIZE_ONE, BATCH_NOT_DIVISIBLE, BF16_UNSUPPORTED, DEVICE_NOT_USABLE)

CHECK = SettingRefused()
