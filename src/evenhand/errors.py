"""Every error that a user may see: one sentence about what is wrong, one about what to do, an exit code.

The command line prints ``message`` and ``remedy`` and exits with ``exit_code``; nothing else is caught there,
so a traceback always means a fault in Evenhand itself.
"""


class EvenhandError(Exception):
    """Base of all errors that are the caller's to mend.

    Args:
        message: What is wrong, and where. One sentence.
        remedy: What to do about it; a command where there is one.
    """

    exit_code = 2

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class ConfigurationError(EvenhandError):
    """The configuration file or a flag is wrong. Several faults are reported together, one a line."""


class DataError(EvenhandError):
    """A data folder is missing, of another version, damaged or not writable."""


class ModelError(EvenhandError):
    """A model cannot be loaded: files missing, no chat template, an unknown name."""


class DeviceError(EvenhandError):
    """A device was asked for that this process cannot use."""


class RunFolderError(EvenhandError):
    """A run folder is missing, not empty, not writable or damaged."""


class CheckpointError(EvenhandError):
    """A checkpoint is incomplete, damaged or belongs to another run."""


class LogError(EvenhandError):
    """A training log cannot be read as one of GRPO."""


class TaskError(EvenhandError):
    """A task is unknown, or breaks its own contract."""


class RunStopped(EvenhandError):
    """A run ended early: a finding of severity ``stop``, or a failure inside training."""

    exit_code = 1
