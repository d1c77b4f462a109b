"""What an engine is: it runs commands, several at a time, and says how each ended."""

import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Job:
    """One process to run. Paths are absolute, so that another machine with the same shared folder finds them."""

    name: str
    command: Sequence[str]
    folder: str  # working directory
    log: str  # where its output goes
    environment: Mapping[str, str] = field(default_factory=dict)


class Engine(ABC):
    """Runs jobs."""

    def __init__(self, workers: int, address: str | None = None) -> None:
        self.workers = workers
        self.address = address

    @abstractmethod
    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, int]]:
        """Each job with its exit code, as it ends; a job that fails stops no other."""


def carry_out(job: Job) -> int:
    """Run a job to its end. Returns its exit code."""
    with open(job.log, "ab") as log:  # noqa: PTH123 - kept to what a worker without Evenhand's own code could do
        done = subprocess.run(
            list(job.command),
            cwd=job.folder,
            env={**os.environ, **job.environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.returncode
