"""A device that cannot be used is refused with the reason that holds."""

import pytest
import torch

from evenhand.errors import DeviceError
from evenhand.models import device as devices
from evenhand.models.device import DeviceFacts, check_dtype, explain, usable_device

HERE = {
    "usable": DeviceFacts(built=True, available=True, hardware=True),
    "not-built": DeviceFacts(built=False, available=False, hardware=True),
    "not-present": DeviceFacts(built=True, available=False, hardware=False),
    "hidden": DeviceFacts(built=True, available=False, hardware=True),
    "wrong-interpreter": DeviceFacts(built=False, available=False, hardware=True, translated=True),
}


@pytest.mark.parametrize("cause", HERE)
def test_causes_are_told_apart(cause):
    state = explain("mps", HERE[cause])
    assert state.cause == cause
    assert state.usable == (cause == "usable")
    assert bool(state.reason) == bool(state.remedy) == (cause != "usable")


def test_an_environment_variable_that_hides_gpus_is_named(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=r"cuda cannot be used: CUDA_VISIBLE_DEVICES= hides") as error:
        usable_device("cuda")
    assert "Unset CUDA_VISIBLE_DEVICES" in error.value.remedy


def test_a_mac_is_judged_by_what_it_is(monkeypatch):
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="cannot reach it") as error:
        usable_device("mps")
    assert "sandbox" in error.value.remedy
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(devices, "runs_translated", lambda: True)
    with pytest.raises(DeviceError, match="x86 code on Apple silicon"):
        usable_device("mps")


def test_auto_takes_the_best_that_can_be_used(monkeypatch):
    usable = {"cuda": False, "mps": True}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: usable["cuda"])
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: usable["mps"])
    assert usable_device("auto").type == "mps"
    usable["mps"] = False
    assert usable_device().type == "cpu"


def test_an_unknown_device_is_refused():
    with pytest.raises(DeviceError, match="no device 'tpu'"):
        usable_device("tpu")


def test_a_dtype_that_the_device_does_not_multiply_is_refused():
    check_dtype(torch.bfloat16, torch.device("cpu"))
    with pytest.raises(DeviceError, match="cpu does not compute in bits8"):
        check_dtype(torch.bits8, torch.device("cpu"))
