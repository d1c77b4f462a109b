"""The one boundary where errors become a sentence and an exit code."""

import os
import sys

from evenhand.errors import EvenhandError


def main() -> None:
    """Run the command line. Exit code 0: fine; 1: a finding of severity ``stop`` or a failed run; 2: wrong input."""
    try:
        command()
    except SystemExit as end:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            leave_at_once(end)
        raise


def leave_at_once(end: SystemExit) -> None:
    """End one process of several without Python's own clearing up.

    Threads that served the other processes may ask for the interpreter's lock while it shuts down, which aborts the
    process ("terminate called without an active exception"), and the launcher then calls the whole run failed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))


def command() -> None:
    """The command line; ends with SystemExit."""
    stay_offline()
    from evenhand.cli import application  # noqa: PLC0415 - after the environment is set, which libraries read on import

    try:
        application()
    except EvenhandError as error:
        sys.stderr.write(f"error: {error.message}\n")
        if error.remedy:
            sys.stderr.write(f"{error.remedy}\n")
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def stay_offline() -> None:
    """No hub, no telemetry: every model is a local directory. Set the variables yourself to allow them."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


if __name__ == "__main__":
    main()
