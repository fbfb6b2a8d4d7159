"""Data sheets of GPUs, and forecasts of training on them; without torch."""

from __future__ import annotations

import re
from dataclasses import dataclass

MFU = (0.20, 0.25, 0.45)
"""Shares of a card's peak in a forecast: the first was measured with BERT-base on one H100,
uncompiled; the others are the bounds of tuned training."""
_CARDS_OF_A_NODE, _NETWORK = 8, 50.0  # GB/s per card between nodes: 400 Gb/s, as in a DGX H100
_GRADIENT_BYTES, _UPDATE_BYTES = 4, 28  # per weight; AdamW reads 4 float32 values, writes 3


@dataclass(frozen=True)
class GpuSpec:
    """Peak rates in a GPU's data sheet, for dense matrices without structured sparsity.

    Args:
        kind: short name used in forecasts.
        half: TFLOP/s with bfloat16 or float16 inputs and sums in float32.
        tf32: TFLOP/s with TensorFloat-32 inputs.
        full: TFLOP/s with float32 inputs.
        watts: power limit of the board.
        gigabytes: size of the memory.
        bandwidth: bandwidth of the memory in GB/s.
        link: bandwidth to other cards in the node (NVLink, Infinity Fabric or PCIe), in GB/s, both
            directions added.
        bf16: whether it multiplies bfloat16 matrices; all cards multiply float16.
    """

    kind: str
    half: float
    tf32: float
    full: float
    watts: int
    gigabytes: int
    bandwidth: int
    link: int
    bf16: bool = True

    def rates(self, flops: float, tokens: float, parameters: int, processes: int,
              precision: str) -> list[float]:
        """Forecast the tokens per second and card, for each share in `MFU`.

        Gradients are reduced around a ring at the speed of the card's link or, with several nodes,
        of the network if that is slower. The forecast for the last share assumes that the reduction
        overlaps with the backward pass. The other forecasts assume no overlap.

        Args:
            flops: operations per token, forward and backward.
            tokens: tokens in a batch, over all processes.
            parameters: number of weights.
            processes: number of cards.
            precision: no (float32), tf32, bf16 or fp16.
        """
        link = self.link / 2 if processes <= _CARDS_OF_A_NODE else min(self.link / 2, _NETWORK)
        reduction = 2 * (1 - 1 / processes) * _GRADIENT_BYTES * parameters / (link * 1e9)
        update = _UPDATE_BYTES * parameters / (self.bandwidth * 1e9)
        peak = {"no": self.full, "tf32": self.tf32}.get(precision, self.half) * 1e12
        passes = [tokens / processes * flops / (share * peak) for share in MFU]
        seconds = [*(one + reduction for one in passes[:-1]), max(passes[-1], reduction)]
        return [tokens / processes / (one + update) for one in seconds]


# The values are from NVIDIA's data sheet for each product; rates printed "with sparsity" are
# halved. A10G: NVIDIA's data sheet for Amazon's variant. A100 64 GB: Turisini et al. 2023, on
# Leonardo. A6000, RTX 3090: GA102 white paper, appendix A. RTX 4090: Ada, RTX 5090: RTX Blackwell
# white paper, appendix A. GB200: one GPU in the data sheet for NVL72. H20: values of resellers, who
# quote NVIDIA. MI300X: AMD's data sheet. Names must match completely, as the driver reports them,
# so that slices of a GPU (MIG) and mobile variants are unknown rather than wrong.
_PEAKS = {
    r"NVIDIA GB200": GpuSpec("gb200", 2500.0, 1250.0, 80.0, 1200, 186, 8000, 1800),
    r"NVIDIA B200": GpuSpec("b200", 2250.0, 1125.0, 75.0, 1000, 180, 8000, 1800),
    r"NVIDIA GH200 480GB": GpuSpec("gh200", 989.4, 494.7, 66.9, 1000, 96, 4000, 900),
    r"NVIDIA H200( SXM)?": GpuSpec("h200", 989.4, 494.7, 66.9, 700, 141, 4800, 900),
    r"NVIDIA H200 NVL": GpuSpec("h200-nvl", 835.5, 417.5, 60.0, 600, 141, 4800, 900),
    r"NVIDIA H100 80GB HBM3": GpuSpec("h100", 989.4, 494.7, 66.9, 700, 80, 3350, 900),
    r"NVIDIA H100 PCIe": GpuSpec("h100-pcie", 756.0, 378.0, 51.2, 350, 80, 2000, 128),
    r"NVIDIA H100 NVL": GpuSpec("h100-nvl", 835.5, 417.5, 60.0, 400, 94, 3900, 600),
    r"NVIDIA H20": GpuSpec("h20", 148.0, 74.0, 44.0, 400, 96, 4000, 900),
    r"(NVIDIA )?A100-SXM4-40GB": GpuSpec("a100-40gb", 312.0, 156.0, 19.5, 400, 40, 1555, 600),
    r"(NVIDIA )?A100-SXM4-80GB": GpuSpec("a100-80gb", 312.0, 156.0, 19.5, 400, 80, 2039, 600),
    r"NVIDIA A100-SXM-64GB": GpuSpec("a100-64gb", 358.0, 179.0, 22.4, 440, 64, 1640, 600),
    r"(NVIDIA )?A100-PCIE-40GB": GpuSpec("a100-pcie-40gb", 312.0, 156.0, 19.5, 250, 40, 1555, 64),
    r"NVIDIA A100 80GB PCIe": GpuSpec("a100-pcie-80gb", 312.0, 156.0, 19.5, 300, 80, 1935, 64),
    r"(Tesla )?V100-SXM2-(16|32)GB": GpuSpec("v100", 125.0, 15.7, 15.7, 300, 32, 900, 300, False),
    r"(Tesla )?V100-PCIE-(16|32)GB": GpuSpec("v100-pcie", 112.0, 14.0, 14.0, 250, 32, 900, 32,
                                             False),
    r"(Tesla )?V100S-PCIE-32GB": GpuSpec("v100s", 130.0, 16.4, 16.4, 250, 32, 1134, 32, False),
    r"NVIDIA L4": GpuSpec("l4", 121.0, 60.0, 30.3, 72, 24, 300, 64),
    r"NVIDIA L40": GpuSpec("l40", 181.0, 90.5, 90.5, 300, 48, 864, 64),
    r"NVIDIA L40S": GpuSpec("l40s", 362.0, 183.0, 91.6, 350, 48, 864, 64),
    r"NVIDIA A10": GpuSpec("a10", 125.0, 62.5, 31.2, 150, 24, 600, 64),
    r"NVIDIA A10G": GpuSpec("a10g", 70.0, 35.0, 31.5, 300, 24, 600, 64),
    r"NVIDIA A30": GpuSpec("a30", 165.0, 82.0, 10.3, 165, 24, 933, 64),
    r"NVIDIA A40": GpuSpec("a40", 149.7, 74.8, 37.4, 300, 48, 696, 64),
    r"(Tesla|NVIDIA) T4": GpuSpec("t4", 65.0, 8.1, 8.1, 70, 16, 320, 32, False),
    r"NVIDIA RTX A6000": GpuSpec("a6000", 154.8, 77.4, 38.7, 300, 48, 768, 64),
    r"NVIDIA RTX 6000 Ada Generation": GpuSpec("6000-ada", 364.2, 182.1, 91.1, 300, 48, 960, 64),
    r"(NVIDIA )?GeForce RTX 3090": GpuSpec("3090", 71.0, 35.6, 35.6, 350, 24, 936, 64),
    r"(NVIDIA )?GeForce RTX 4090": GpuSpec("4090", 165.2, 82.6, 82.6, 450, 24, 1008, 64),
    r"(NVIDIA )?GeForce RTX 5090": GpuSpec("5090", 209.5, 104.8, 104.8, 575, 32, 1792, 128),
    r"AMD Instinct MI300X": GpuSpec("mi300x", 1307.4, 653.7, 163.4, 750, 192, 5300, 896),
}
CARDS = {spec.kind: spec for spec in _PEAKS.values()}
"""Cards that can be forecast, by their short names."""


def find_peak(name: str) -> GpuSpec | None:
    """Return the rates of a GPU by its short name or the driver's name; None if unknown."""
    return CARDS.get(name) or next((peak for known, peak in _PEAKS.items()
                                    if re.fullmatch(known, name)), None)
