"""This machine, a number of workers."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace

from evenhand.ablation.engines.engine import Engine, Job, carry_out


class LocalEngine(Engine):
    """Processes side by side; the cores are shared out, since two runs with all threads each slow one another down."""

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, int]]:
        """Each job with its exit code, as it ends. Ctrl-C reaches the processes themselves, which save and stop."""
        threads = str(max(1, (os.cpu_count() or 1) // self.workers))
        shared = [replace(job, environment={"OMP_NUM_THREADS": threads, **job.environment}) for job in jobs]
        with ThreadPoolExecutor(self.workers) as pool:
            running = {pool.submit(carry_out, job): job for job in shared}
            try:
                for done in as_completed(running):
                    yield running[done], done.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
