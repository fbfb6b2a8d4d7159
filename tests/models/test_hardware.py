"""Hardware as systems and drivers describe it; operations compared with torch's counts."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from toy_tokenizers import train_tokenizer
from transformers import BertConfig

from bmtools.models.architectures import build_config, build_model
from bmtools.models.cards import CARDS, MFU, find_peak
from bmtools.models.hardware import (
    Hardware,
    describe_hardware,
    model_flop_utilisation,
    most_energy_kwh,
    prepare_cuda,
    resolve_device,
    training_flops_per_token,
)
from bmtools.models.mlm import encode, masked_lm_loss
from bmtools.vocab.settings import VocabularyConfig

GIB = 2**30
TOKENIZER = train_tokenizer(["il cuore pompa il sangue"] * 3,
                            VocabularyConfig(size=100, allow_fewer=True))
SEQUENCES = 2
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
def test_peaks_equal_the_data_sheets(name: str, precision: str, teraflops: float) -> None:
    assert model_flop_utilisation(teraflops * 1e12, gpu(name), precision) == 1
    assert model_flop_utilisation(teraflops * 0.4e12, gpu(name), precision) == pytest.approx(0.4)


@pytest.mark.parametrize("name", [
    "NVIDIA A100-SXM4-80GB MIG 3g.40gb", "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA B300", "L4"])
def test_an_unlisted_gpu_is_unknown_rather_than_wrong(name: str) -> None:
    assert find_peak(name) is None
    assert model_flop_utilisation(1e12, gpu(name), "bf16") is None
    assert most_energy_kwh(gpu(name), 3_600) is None


def test_energy_is_power_by_time_by_boards() -> None:
    assert most_energy_kwh(gpu("NVIDIA H100 80GB HBM3", count=8), 3_600) == pytest.approx(5.6)


@pytest.mark.parametrize(("cpuinfo", "fast"), [
    (INTEL.format("avx512_bf16 sse") * 2, True), (INTEL.format("amx_bf16 amx_tile"), True),
    (INTEL.format("avx512_vnni"), False),
    ("processor\t: 0\nFeatures\t: fp asimd i8mm bf16\n", True),
    ("processor\t: 0\nFeatures\t: fp asimd\n", False)])
def test_bf16_is_read_from_processor_flags(system: Any, cpuinfo: str, fast: bool) -> None:
    system("proc/cpuinfo", cpuinfo)
    found = describe_hardware("cpu")
    assert (found.kind, found.count, found.bf16) == ("cpu", 16, fast)
    assert found.name == "Intel(R) Xeon(R) Gold" or "Features" in cpuinfo


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


def count_operations(config: Any, max_length: int, masked: int) -> float:
    """Operations a token of a forward and a backward pass, as torch counts them.

    Eager attention consists of plain products. Fused kernels are counted with the operations that
    they compute twice, or not at all.
    """
    model = build_model(config).train()
    model.set_attn_implementation("eager")
    ids = torch.full((SEQUENCES, max_length), 5)
    with FlopCounterMode(display=False) as counter:
        states = encode(model, ids, ids > 0)[:, :masked].flatten(0, 1)
        masked_lm_loss(model, states, ids[:, :masked].flatten())[0].backward()
    return counter.get_total_flops() / ids.numel()


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", ["bert-2x64", "roberta-3x128", "megatron-bert-2x128",
                                  "modernbert-4x64"])
@pytest.mark.parametrize(("max_length", "masked"), [(32, 4), (200, 30), (96, 96)])
def test_operations_equal_the_count_of_torch(name: str, max_length: int, masked: int) -> None:
    config = build_config(name, TOKENIZER)
    found = training_flops_per_token(config, max_length, masked / max_length, windowed=False)
    assert found == pytest.approx(count_operations(config, max_length, masked), rel=1e-3)


@pytest.mark.parametrize(("max_length", "window"), [(1, 4), (5, 4), (5, 5), (40, 4), (1_000, 64)])
def test_scores_outside_windows_are_not_counted(max_length: int, window: int) -> None:
    """Two of three layers see as many tokens as the window on either side."""
    config = build_config("modernbert-6x64", TOKENIZER)
    config.local_attention = 2 * window
    assert config.sliding_window == window
    near, everywhere = (training_flops_per_token(config, max_length, 0, windowed) or 0.0
                        for windowed in (True, False))
    numbers = np.arange(max_length)
    outside = int((np.abs(numbers - numbers[:, None]) > window).sum())
    assert everywhere - near == pytest.approx(6 * 2 * 64 * 4 * outside / max_length)


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without variables that CUDA reads, and a torch with CUDA."""
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF",
                 "CUBLAS_WORKSPACE_CONFIG"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    return monkeypatch


def test_cuda_finds_its_settings_in_the_environment(unset: pytest.MonkeyPatch) -> None:
    prepare_cuda()
    assert os.environ["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    prepare_cuda(deterministic=True)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


@pytest.mark.parametrize(("tokens", "length", "measured"), [(32000, 512, 347_000),
                                                          (32000, 128, 360_000)])
def test_a_forecast_for_an_h100_is_near_the_measured_speed(tokens: int, length: int,
                                                           measured: int) -> None:
    """docs/performance.md, "On a GPU": BERT-base at 20 % of the peak."""
    flops = training_flops_per_token(BertConfig(), length, 0.15)
    assert flops
    rates = CARDS["h100"].rates(flops, tokens, 110_000_000, 1, "bf16")
    assert rates[0] == pytest.approx(measured, rel=0.05)
    assert rates == sorted(rates) and len(rates) == len(MFU)


def test_the_slower_link_limits_gradients_of_many_cards() -> None:
    """Worked by hand: 1e9 weights, 4 GB of gradients, 1e12 operations a card at 20 %."""
    h100 = CARDS["h100"]
    update = 28e9 / 3350e9
    for cards, link in ((1, 450.0), (8, 450.0), (64, 50.0)):
        reduction = 2 * (cards - 1) / cards * 4 / link
        passes = 100_000 * 1e9 / 989.4e12
        rates = h100.rates(1e9, 100_000 * cards, 10**9, cards, "bf16")
        assert rates == pytest.approx([
            100_000 / (passes / 0.20 + reduction + update),
            100_000 / (passes / 0.25 + reduction + update),
            100_000 / (max(passes / 0.45, reduction) + update)])
    assert CARDS["l4"].rates(1e9, 1e6, 10**9, 64, "bf16")[0] < h100.rates(
        1e9, 1e6, 10**9, 64, "bf16")[0]


def test_the_table_has_plausible_cards() -> None:
    for kind, card in CARDS.items():
        assert find_peak(kind) is card and kind == kind.lower()
        assert card.half > card.tf32 >= card.full or not card.bf16 or card.tf32 == card.full
        assert 2 < card.half / card.watts * 10 < 60 and 16 <= card.gigabytes <= 192
        assert card.link in (32, 64, 128, 300, 600, 896, 900, 1800)
    assert len(CARDS) == 31
