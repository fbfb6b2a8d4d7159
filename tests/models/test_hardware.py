"""What a machine has, read from files and names as systems and drivers write them."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

from bmtools.errors import BmtoolsError
from bmtools.models import hardware as devices
from bmtools.models.hardware import (
    Hardware,
    describe_hardware,
    find_peak,
    model_flop_utilisation,
    most_energy_kwh,
    peak_flops_per_second,
    resolve_device,
)

GIB = 2**30
INTEL = "processor\t: 0\nmodel name\t: Intel(R)  Xeon(R) Gold\nflags\t\t: fpu avx512f {}\n\n"


def gpu(name: str, count: int = 1) -> Hardware:
    peak = find_peak(name)
    return Hardware("cuda", name, count, 80 * GIB, True, peak.watts if peak else None)


@pytest.mark.parametrize(("name", "precision", "teraflops"), [
    ("NVIDIA H100 80GB HBM3", "bf16", 989.4), ("NVIDIA H100 80GB HBM3", "tf32", 494.7),
    ("NVIDIA H100 PCIe", "bf16", 756.0), ("NVIDIA H100 NVL", "fp16", 835.5),
    ("NVIDIA H200", "bf16", 989.4), ("NVIDIA A100-SXM4-40GB", "bf16", 312.0),
    ("NVIDIA A100-SXM4-80GB", "no", 19.5), ("NVIDIA A100 80GB PCIe", "tf32", 156.0),
    ("Tesla V100-SXM2-32GB", "fp16", 125.0), ("NVIDIA L4", "bf16", 121.0),
    ("NVIDIA L40S", "bf16", 362.0), ("NVIDIA A10", "bf16", 125.0), ("Tesla T4", "fp16", 65.0),
    ("NVIDIA GeForce RTX 3090", "bf16", 71.0), ("NVIDIA GeForce RTX 4090", "bf16", 165.2)])
def test_peaks_are_those_of_the_data_sheets(name: str, precision: str, teraflops: float) -> None:
    assert peak_flops_per_second(gpu(name), precision) == teraflops * 1e12
    assert model_flop_utilisation(teraflops * 0.4e12, gpu(name), precision) == pytest.approx(0.4)


@pytest.mark.parametrize("name", [
    "NVIDIA A100-SXM4-80GB MIG 3g.40gb", "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA B300", "L4"])
def test_an_unlisted_gpu_is_unknown_rather_than_wrong(name: str) -> None:
    assert find_peak(name) is None
    assert model_flop_utilisation(1e12, gpu(name), "bf16") is None
    assert most_energy_kwh(gpu(name), 3_600) is None


@pytest.mark.parametrize("name", ["Tesla T4", "Tesla V100-PCIE-16GB"])
def test_a_gpu_without_bf16_has_no_peak_of_it(name: str) -> None:
    assert peak_flops_per_second(gpu(name), "bf16") is None
    assert peak_flops_per_second(gpu(name), "fp16") is not None


def test_dense_rates_halve_from_bf16_to_tf32() -> None:
    """A rate "with sparsity" among dense ones would stand out."""
    for peak in devices._PEAKS.values():
        assert peak.full <= peak.tf32 <= peak.half
        if peak.bf16:
            assert peak.half / peak.tf32 == pytest.approx(2, rel=0.02)


def test_a_processor_has_no_peak() -> None:
    assert model_flop_utilisation(1e12, describe_hardware(), "no") is None
    assert most_energy_kwh(describe_hardware(), 60) is None


def test_energy_is_power_by_time_by_boards() -> None:
    assert most_energy_kwh(gpu("NVIDIA H100 80GB HBM3", count=8), 3_600) == pytest.approx(5.6)


@pytest.mark.parametrize(("cpuinfo", "fast"), [
    (INTEL.format("avx512_bf16 sse") * 2, True), (INTEL.format("amx_bf16 amx_tile"), True),
    (INTEL.format("avx512_vnni"), False),
    ("processor\t: 0\nFeatures\t: fp asimd i8mm bf16\n", True),
    ("processor\t: 0\nFeatures\t: fp asimd\n", False)])
def test_bf16_is_told_by_the_processor_s_flags(system: Any, cpuinfo: str, fast: bool) -> None:
    system("proc/cpuinfo", cpuinfo)
    found = describe_hardware("cpu")
    assert (found.kind, found.count, found.bf16) == ("cpu", 16, fast)
    assert found.name == "Intel(R) Xeon(R) Gold" or "Features" in cpuinfo


def test_a_system_without_such_files_is_described_too(system: Any) -> None:
    found = describe_hardware("cpu")
    assert (found.count, found.memory_bytes, found.bf16) == (16, 64 * GIB, False)
    assert found.name


def test_this_machine_is_described() -> None:
    found = describe_hardware()
    assert found.kind == "cpu" and found.name
    assert 1 <= found.count <= (os.cpu_count() or 1)
    assert 2**28 < found.memory_bytes < 2**45
    assert found.watts is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_is_described() -> None:
    found = describe_hardware("cuda:0")
    assert found.name == torch.cuda.get_device_name(0)
    assert found.count == torch.cuda.device_count()
    assert found.memory_bytes == torch.cuda.mem_get_info(0)[1]
    assert found.bf16 == torch.cuda.is_bf16_supported(including_emulation=False)


def test_devices_are_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_device("cpu") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_device("auto") == "cuda"
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert resolve_device("auto") == "cuda:1", "each process has a GPU of its own, in turn"


@pytest.mark.parametrize("name", ["tpu", "cuda:99", "meta"])
def test_a_device_that_is_not_here(name: str) -> None:
    with pytest.raises(BmtoolsError, match=f"device: found '{name}', which cannot be used here"):
        resolve_device(name)
