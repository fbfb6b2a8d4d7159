"""Choice of the precision that is fastest on a device, and products that are fast on a CPU."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from bmtools.io.system import read_system

if TYPE_CHECKING:
    from transformers import PretrainedConfig

FLOAT32_ONLY = frozenset({"deberta"})
"""Types of models that transformers cannot compute in half precision."""
HALF_PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Data types of autocast by precision."""
# Narrower models spend most of their time on other operations than products. With AMX, steps of 400
# to 2,000 tokens through two layers were 1.05 to 1.24 times as fast in bf16 at a width of 128, and
# 1.16 to 1.51 times as fast at 256, by processor time.
_NARROWEST = 256
# Casts, normalization and attention do not become faster, so products must gain much.
_WORTHWHILE = 1.5
_ROWS = 128
_ENOUGH_SECONDS = 0.03
_TENSOR_CORES = (7, 0)


@dataclass(frozen=True)
class PrecisionChoice:
    """Choice of a precision.

    Args:
        precision: no (float32), bf16 or fp16.
        reason: clause that completes a sentence: "bf16, because NVIDIA H100 multiplies bfloat16".
    """

    precision: str
    reason: str


def multiply(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute `torch.nn.functional.linear` with the library that is fastest on this processor."""
    # A compiler chooses its own library.
    if not torch.compiler.is_compiling() and prefers_onednn() and states.ndim > 1 \
            and states.dtype == weight.dtype == torch.float32 and states.numel() \
            and states.device.type == "cpu" and not torch.is_autocast_enabled("cpu"):
        return _Product.apply(states, weight, bias)
    return functional.linear(states, weight, bias)


@cache
def prefers_onednn() -> bool:
    """Return whether oneDNN multiplies float32 matrices twice as fast as MKL.

    MKL uses AVX-512 only on processors of Intel. The choice follows a fixed rule, not a
    measurement, so that a resumed run computes the same bytes.
    """
    processor = read_system("proc/cpuinfo")
    return "AuthenticAMD" in processor and "avx512f" in processor \
        and torch.backends.mkl.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class _Product(Function):
    """Product of float32 matrices by oneDNN, with the operation that compiled models use."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(states, weight)
        return _onednn(states, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (states, weight), [gradient] = ctx.saved_tensors, gradients
        rows, needed = gradient.flatten(0, -2), ctx.needs_input_grad
        return (_onednn(gradient, weight.T) if needed[0] else None,
                _onednn(rows.T, states.flatten(0, -2).T) if needed[1] else None,
                rows.sum(dim=0) if needed[2] else None)


def _onednn(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")
    return product


class FastLinear(nn.Linear):
    """A linear layer that calls `multiply`."""

    def forward(self, states: Tensor) -> Tensor:
        """Multiply states, (..., inputs), by the weight."""
        return multiply(states, self.weight, self.bias)


def choose_precision(config: PretrainedConfig, device: torch.device) -> PrecisionChoice:
    """Choose the precision that a device trains a model fastest in.

    For a GPU, the compute capability decides. On a CPU, products of the model's size are timed for
    a fraction of a second, because the list of bfloat16 instructions says little about their speed.
    A CPU never gets fp16: its small gradients need a loss scale, which Accelerate supports only on
    GPUs.

    Args:
        config: of the model.
        device: device that trains it.
    """
    if config.model_type in FLOAT32_ONLY:
        return PrecisionChoice("no", f"because transformers computes {config.model_type} only in "
                                     "float32")
    if device.type == "cuda":
        return _choose_on_gpu(device)
    if device.type != "cpu":
        return PrecisionChoice("no", f"because half precision is untried on {device.type}")
    width = config.hidden_size
    if width < _NARROWEST:
        return PrecisionChoice("no", f"because matrices {width} wide gain little from bf16")
    inner = getattr(config, "intermediate_size", None) or 4 * width
    full, half = (measure_products(width, inner, dtype) / 1e9
                  for dtype in (torch.float32, torch.bfloat16))
    return PrecisionChoice("bf16" if half >= _WORTHWHILE * full else "no",
                           f"because a core multiplies this model's matrices at {half:,.0f} "
                           f"GFLOP/s in bf16 here, and at {full:,.0f} in float32")


def _choose_on_gpu(device: torch.device) -> PrecisionChoice:
    name = torch.cuda.get_device_name(device)
    if torch.cuda.is_bf16_supported(including_emulation=False):  # of the device in use
        return PrecisionChoice("bf16", f"because {name} multiplies bfloat16")
    if torch.cuda.get_device_capability(device) >= _TENSOR_CORES:
        return PrecisionChoice("fp16", f"because {name} multiplies float16, but not bfloat16")
    return PrecisionChoice("no", f"because {name} has no matrix units for half precision")


@cache
def measure_products(width: int, inner: int, dtype: torch.dtype, rows: int = _ROWS) -> float:
    """Measure the speed of matrix products on one processor core, once per process.

    The processor time of one thread is measured, so that other work on the machine does not change
    the result.

    Args:
        width: width of the input.
        inner: width of the output.
        dtype: type of both matrices.
        rows: rows of the input.

    Returns:
        operations per second; an addition and a multiplication count as two.
    """
    states, weight = torch.ones(rows, width, dtype=dtype), torch.ones(inner, width, dtype=dtype)
    threads, seconds, calls = torch.get_num_threads(), 0.0, 0
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            multiply(states, weight)  # generates its kernel
            start = time.thread_time()
            while seconds < _ENOUGH_SECONDS:
                multiply(states, weight)
                seconds, calls = time.thread_time() - start, calls + 1
    finally:
        torch.set_num_threads(threads)
    return 2 * rows * width * inner * calls / seconds


def logits_difference(batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Measure the differences between exact and approximate logits, (positions, labels) each.

    Returns:
        `max` and `mean` of the absolute errors, the mean `cosine`, and `same_argmax`, the share of
        positions whose highest logit is the same.
    """
    rows, most, means = [], 0.0, []
    for pair in batches:
        exact, near = (logits.double() for logits in pair)
        errors, same = (exact - near).abs(), exact.argmax(1) == near.argmax(1)
        rows.append(len(exact))
        most = np.maximum(most, float(errors.max()))  # NaN stays
        means.append([float(found.mean()) for found in (
            errors, torch.cosine_similarity(exact, near), same.double())])
    averages = np.average(means, axis=0, weights=rows)
    return {"max": float(f"{most:.3g}"), **{
        name: float(f"{value:.7g}")
        for name, value in zip(("mean", "cosine", "same_argmax"), averages, strict=True)}}
