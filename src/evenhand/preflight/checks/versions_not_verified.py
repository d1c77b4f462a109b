"""``versions-not-verified``."""

from typing import ClassVar

from evenhand.preflight import examples
from evenhand.preflight.check import Check, Verdict, present
from evenhand.preflight.setup import Part, Setup
from evenhand.records import Severity

# Major and minor versions with which the test suite and the reference ran.
VERIFIED = {
    "torch": ("2.13", "2.14"),
    "trl": ("1.14",),
    "transformers": ("5.17",),
    "datasets": ("5.0",),
    "accelerate": ("1.15",),
}


class VersionsNotVerified(Check):
    """A library has another version than those that were tried.

    ## Why it matters

    Defaults, metric names and arithmetic change between versions; a figure that differs from the documentation may be
    the version's doing.

    ## Example

    Under Transformers 4 a model loaded in FP32 where 5 loads it in BF16.

    ## Remedy

    Usually none; install the verified version where something looks odd.
    """

    code: ClassVar[str] = "versions-not-verified"
    severity: ClassVar[Severity] = "note"
    needs: ClassVar[tuple[Part, ...]] = ("machine",)

    def judge(self, setup: Setup) -> Verdict:
        """Major and minor number."""
        versions = present(setup.machine).versions
        other = {
            name: version
            for name, version in versions.items()
            if name in VERIFIED and ".".join(version.split("+")[0].split(".")[:2]) not in VERIFIED[name]
        }
        if not other:
            return None
        told = ", ".join(f"{name} {version} (tried: {', '.join(VERIFIED[name])})" for name, version in other.items())
        return self.finding(
            f"Not tried with Evenhand: {told}.", evidence=other, remedy="pip install evenhand --upgrade"
        )

    def sick(self) -> Setup:
        """An old TRL."""
        return Setup(machine=examples.machine(versions={"trl": "0.19.1"}))


CHECK = VersionsNotVerified()
