"""A Ray cluster: for people with more machines than one.

The study's folder must lie where every machine sees it under the same path, and Evenhand must be installed on each.
"""

import importlib.util
from collections.abc import Iterator, Sequence
from typing import Any

from evenhand.ablation.engines.engine import Engine, Job, carry_out
from evenhand.errors import ConfigurationError


class RayEngine(Engine):
    """Jobs as Ray tasks: on the cluster at ``address``, or on one started here with ``workers`` processors."""

    def __init__(self, workers: int, address: str | None = None) -> None:
        if importlib.util.find_spec("ray") is None:
            raise ConfigurationError(
                "Ray is not installed.", "Run: pip install 'evenhand[ray]', or use --engine local."
            )
        super().__init__(workers, address)

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, int]]:
        """Each job with its exit code, as it ends.

        Raises:
            ConfigurationError: there is no cluster at the address.
        """
        import ray  # noqa: PLC0415 - an optional extra

        self.connect(ray)
        try:
            # One processor each; a failed worker's job is started once more, elsewhere.
            remote = ray.remote(num_cpus=1, max_retries=1)(carry_out)
            waiting = {remote.remote(job): job for job in jobs}
            while waiting:
                finished, _ = ray.wait(list(waiting), num_returns=1)
                for reference in finished:
                    yield waiting.pop(reference), exit_code(ray, reference)
        finally:
            ray.shutdown()

    def connect(self, ray: Any) -> None:
        """Join the cluster, or start one here."""
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            if self.address:
                ray.init(address=self.address, **quiet)
            else:
                ray.init(num_cpus=self.workers, include_dashboard=False, **quiet)
        except (ConnectionError, ValueError) as error:
            raise ConfigurationError(
                f"There is no Ray cluster at {self.address}: {error}.", "Start one with: ray start --head"
            ) from error


def exit_code(ray: Any, reference: Any) -> int:
    """The exit code of a finished task; 1 where its worker was lost."""
    try:
        return int(ray.get(reference))
    except ray.exceptions.RayError:
        return 1
