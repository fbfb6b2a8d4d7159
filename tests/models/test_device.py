"""Checks of device names, without torch."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from bmtools.errors import BmtoolsError
from bmtools.models.device import check_device

EXPECTED = "expected auto, cpu, or cuda or cuda:N where nvidia-smi lists a GPU"
NO_FILE = "this machine shows no GPU: no file of its driver, such as /dev/nvidia0"

System = Callable[[str, str], None]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux shows its devices as files")


@pytest.mark.parametrize("name", ["auto", "cpu", "mps"])
def test_possible_devices_are_accepted(system: System, name: str) -> None:
    check_device(name)


@pytest.mark.parametrize("name", ["abacus", "cuda:", "cuda:x", "gpu", "", "meta"])
def test_an_unknown_name_is_rejected(name: str) -> None:
    with pytest.raises(BmtoolsError) as caught:
        check_device(name)
    assert str(caught.value) == (f"device: found {name!r}, which cannot be used here (no kind of "
                                 f"device); {EXPECTED}")


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_cuda_without_a_gpu_is_an_error(system: System, name: str) -> None:
    with pytest.raises(BmtoolsError) as caught:
        check_device(name)
    assert str(caught.value) == (f"device: found {name!r}, which cannot be used here ({NO_FILE}); "
                                 f"{EXPECTED}")


@pytest.mark.parametrize("file", ["dev/nvidia0", "dev/nvidiactl", "proc/driver/nvidia/gpus/0",
                                  "dev/dxg", "dev/kfd", "dev/nvhost-gpu"])
def test_torch_decides_if_a_driver_shows_a_gpu(system: System, monkeypatch: pytest.MonkeyPatch,
                                               file: str) -> None:
    system(file, "")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    check_device("cuda")
