"""Devices by name, told without torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import metadata

import pytest

from bmtools.errors import BmtoolsError
from bmtools.models import device
from bmtools.models.device import check_device, is_cpu_build

EXPECTED = "expected auto, cpu, or cuda or cuda:N where nvidia-smi lists a GPU"
NO_FILE = "this machine shows no GPU: no file of its driver, such as /dev/nvidia0"

System = Callable[[str, str], None]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux shows its devices as files")


@pytest.fixture
def gpu_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the installed torch for one that was built with CUDA."""
    monkeypatch.setattr(device, "is_cpu_build", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize("name", ["auto", "cpu", "mps"])
def test_what_may_be_there_passes(system: System, name: str) -> None:
    check_device(name)


@pytest.mark.parametrize("name", ["abacus", "cuda:", "cuda:x", "gpu", "", "meta"])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(BmtoolsError) as caught:
        check_device(name)
    assert str(caught.value) == (f"device: found {name!r}, which cannot be used here (no kind of "
                                 f"device); {EXPECTED}")


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_machine_without_a_gpu_says_so(system: System, gpu_build: None, name: str) -> None:
    with pytest.raises(BmtoolsError) as caught:
        check_device(name)
    assert str(caught.value) == (f"device: found {name!r}, which cannot be used here ({NO_FILE}); "
                                 f"{EXPECTED}")


@pytest.mark.parametrize("file", ["dev/nvidia0", "dev/nvidiactl", "proc/driver/nvidia/gpus/0",
                                  "dev/dxg", "dev/kfd", "dev/nvhost-gpu"])
def test_torch_decides_where_a_driver_shows_one(system: System, gpu_build: None,
                                                file: str) -> None:
    system(file, "")
    check_device("cuda")


def test_hidden_gpus_are_told(system: System, gpu_build: None,
                              monkeypatch: pytest.MonkeyPatch) -> None:
    system("dev/nvidia0", "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    check_device("cuda")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(BmtoolsError, match="CUDA_VISIBLE_DEVICES hides all GPUs"):
        check_device("cuda")


def test_a_build_for_the_cpu_alone_is_named(system: System,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    system("dev/nvidia0", "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(device, "is_cpu_build", lambda: True)
    with pytest.raises(BmtoolsError) as caught:
        check_device("cuda")
    assert str(caught.value) == (
        f"device: found 'cuda', which cannot be used here (torch {metadata.version('torch')} is "
        "built for the CPU alone; pytorch.org/get-started names the command for a build with "
        f"CUDA); {EXPECTED}")


def test_the_build_is_read_as_torch_knows_it() -> None:
    import torch

    assert is_cpu_build() is (torch.version.cuda is None and torch.version.hip is None)
