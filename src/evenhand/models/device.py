"""Which device to compute on, and why one that is asked for cannot be used."""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from evenhand.errors import DeviceError

Cause = Literal["usable", "not-built", "not-present", "hidden", "wrong-interpreter"]

# The driver's own files, there whether or not this process may use the GPU.
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What was found out about one kind of device.

    Attributes:
        built: This PyTorch was compiled with support for it.
        available: PyTorch can reach one.
        hardware: The machine has one, as far as can be told without PyTorch.
        translated: A Mac's interpreter runs as x86 code on Apple silicon.
        hidden_by: A setting of the environment that hides it, as ``NAME=value``, or empty.
    """

    built: bool
    available: bool
    hardware: bool
    translated: bool = False
    hidden_by: str = ""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """Whether a device can be used; if not, which cause, in words, and what to do."""

    device: str
    cause: Cause
    reason: str = ""
    remedy: str = ""

    @property
    def usable(self) -> bool:
        """Whether it can be used."""
        return self.cause == "usable"


def device_state(device: str) -> DeviceState:
    """Whether ``cpu``, ``cuda`` or ``mps`` can be used here, and why not."""
    if device == "cpu":
        return DeviceState(device, "usable")
    return explain(device, cuda_facts() if device.startswith("cuda") else mps_facts())


def explain(device: str, facts: DeviceFacts) -> DeviceState:
    """Tell apart: not built in, not present, hidden from this process, the wrong interpreter."""
    if facts.available:
        return DeviceState(device, "usable")
    interpreter = sys.executable
    if facts.hidden_by:
        remedy = f"Unset {facts.hidden_by.partition('=')[0]} and try again."
        return DeviceState(device, "hidden", f"{facts.hidden_by} hides every GPU from this process", remedy)
    if facts.translated:
        reason = f"{interpreter} runs as x86 code on Apple silicon, where PyTorch has no MPS"
        return DeviceState(device, "wrong-interpreter", reason, "Use an arm64 build of Python.")
    if not facts.hardware:
        reason = "this machine has no such device, as far as can be seen"
        return DeviceState(device, "not-present", reason, "Use --set device=cpu or auto.")
    if not facts.built:
        reason = f"the machine has one, but the PyTorch of {interpreter} was built without support for it"
        remedy = "Use the interpreter whose PyTorch has it, or install such a build of PyTorch."
        return DeviceState(device, "not-built", reason, remedy)
    reason = "the machine has one and PyTorch supports it, but this process cannot reach it"
    remedy = "A sandbox, a container or a restricted shell hides it, or the driver is too old: try a plain terminal."
    return DeviceState(device, "hidden", reason, remedy)


def cuda_facts() -> DeviceFacts:
    """What can be told about NVIDIA (or, under the same name in PyTorch, AMD) GPUs."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    return DeviceFacts(
        built=torch.version.cuda is not None or torch.version.hip is not None,
        available=torch.cuda.is_available(),
        hardware=NVIDIA_DRIVER.exists() or Path("/dev/nvidiactl").exists() or Path("/dev/kfd").exists(),
        hidden_by=f"CUDA_VISIBLE_DEVICES={hidden}" if hidden is not None and hidden.strip() in {"", "-1"} else "",
    )


def mps_facts() -> DeviceFacts:
    """What can be told about the GPU of a Mac."""
    mac = platform.system() == "Darwin"
    translated = mac and platform.machine() == "x86_64" and runs_translated()
    return DeviceFacts(
        built=torch.backends.mps.is_built(),
        available=torch.backends.mps.is_available(),
        hardware=mac and (platform.machine() == "arm64" or translated),
        translated=translated,
    )


def runs_translated() -> bool:
    """Whether macOS translates this process from x86."""
    asked = subprocess.run(
        ["/usr/sbin/sysctl", "-n", "sysctl.proc_translated"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() == "1"


def usable_device(device: str = "auto") -> torch.device:
    """The device of that name; ``auto`` takes CUDA, then MPS, then the CPU.

    Raises:
        DeviceError: it is unknown or cannot be used here; the message says which and why.
    """
    if device == "auto":
        first = next(name for name in ("cuda", "mps", "cpu") if device_state(name).usable)
        return torch.device(first)
    if device.partition(":")[0] not in {"cpu", "cuda", "mps"}:
        raise DeviceError(f"There is no device '{device}'.", "Name auto, cpu, cuda or mps.")
    state = device_state(device)
    if not state.usable:
        raise DeviceError(f"The device {device} cannot be used: {state.reason}.", state.remedy)
    return torch.device(device)


def check_dtype(dtype: torch.dtype, device: torch.device) -> None:
    """Multiply two small matrices on the device.

    Raises:
        DeviceError: the device does not compute at that dtype.
    """
    try:
        ones = torch.ones(2, 2, dtype=dtype, device=device)
        torch.matmul(ones, ones)
    except (RuntimeError, TypeError) as error:
        name = str(dtype).removeprefix("torch.")
        first = str(error).partition("\n")[0]
        raise DeviceError(
            f"{device} does not compute in {name} ({first}).", "Use --set precision.body=float32."
        ) from error
