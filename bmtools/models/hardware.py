"""Hardware of this machine (device, memory, peak rates, power), and operations per token."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from bmtools.distributed import local_rank, world_size
from bmtools.io.system import read_system, usable_cores, usable_memory_bytes
from bmtools.models.architectures import build_model
from bmtools.models.cards import find_peak
from bmtools.models.device import check_device, refuse_device

if TYPE_CHECKING:
    from transformers import PretrainedConfig

_JOULES_PER_KWH = 3.6e6
# Names of the allocator's settings: in torch 2.9 and newer, and older names.
_ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
_KNOWN_MODEL_TYPES = frozenset({"bert", "camembert", "megatron-bert", "modernbert", "roberta",
                                "xlm-roberta", "xlm-roberta-xl"})


@dataclass(frozen=True)
class Hardware:
    """Device that runs the computation, with its memory.

    Args:
        kind: torch's device type: cpu, cuda or mps.
        name: name of the product.
        count: number of GPUs that this process may use, or of processor cores.
        memory_bytes: memory of one GPU, or memory of the machine that this process may use.
        bf16: whether the device has instructions for bfloat16 products; without them bf16 is slower
            than float32.
        watts: power limit of one GPU's board; None if unknown.
    """

    kind: str
    name: str
    count: int
    memory_bytes: int
    bf16: bool
    watts: int | None = None


def prepare_cuda(deterministic: bool = False) -> None:
    """Set environment variables that CUDA reads when it starts; the user's values stay.

    Expandable segments of memory leave fewer fragments if each batch has a different shape.

    Args:
        deterministic: let cuBLAS keep one workspace per stream, so that it always adds in the same
            order.
    """
    if torch.version.cuda is not None and not any(map(os.environ.get, _ALLOCATOR_VARIABLES)):
        os.environ[_ALLOCATOR_VARIABLES[0]] = "expandable_segments:True"
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def resolve_device(name: str, role: str = "device") -> str:
    """Choose the device to compute on; under a launcher each process uses its own GPU.

    Args:
        name: auto (a GPU if there is one) or torch's name of a device: cpu, cuda, cuda:1.
        role: the setting that names it.

    Raises:
        BmtoolsError: torch cannot compute on this device.
    """
    check_device(name, role)
    prepare_cuda()
    if name == "auto":
        if not torch.cuda.is_available():
            return "cpu"
        return f"cuda:{local_rank() % torch.cuda.device_count()}" if world_size() > 1 else "cuda"
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError):
        refuse_device(name, f"torch {torch.__version__}, CUDA devices: "
                            f"{torch.cuda.device_count()}", role)
    return name


def describe_hardware(kind: str = "cpu") -> Hardware:
    """Describe a device, as far as this process may use it.

    Args:
        kind: cpu, cuda (or cuda:N) or mps.
    """
    if kind.startswith("cuda"):
        gpu = torch.cuda.get_device_properties(kind)
        peak = find_peak(gpu.name)
        return Hardware("cuda", gpu.name, torch.cuda.device_count(), gpu.total_memory,
                        (gpu.major, gpu.minor) >= (8, 0), peak.watts if peak else None)
    lines = [line.partition(":") for line in read_system("proc/cpuinfo").splitlines()]
    names = {value for key, _, value in lines if key.strip() == "model name"}
    flags = {flag for key, _, value in lines if key.strip() in ("flags", "Features")
             for flag in value.split()}
    name = " ".join(next(iter(names), "").split()) or platform.machine()
    return Hardware(kind, name, usable_cores(), usable_memory_bytes(),
                    not flags.isdisjoint({"avx512_bf16", "amx_bf16", "bf16"}))


def model_flop_utilisation(flops_per_second: float, device: Hardware,
                           precision: str) -> float | None:
    """Return the share of a GPU's peak that a run uses; None if the peak is unknown.

    Source: Chowdhery et al. 2022 (PaLM), section 4.1.

    Args:
        flops_per_second: the model's operations per second on one GPU; see
            `training_flops_per_token`.
        device: from `describe_hardware`.
        precision: no (float32), tf32, bf16 or fp16.
    """
    peak = find_peak(device.name) if device.kind == "cuda" else None
    if peak is None or (precision == "bf16" and not peak.bf16):
        return None
    rates = {"no": peak.full, "tf32": peak.tf32, "bf16": peak.half, "fp16": peak.half}
    return flops_per_second / (rates[precision] * 1e12)


def most_energy_kwh(device: Hardware, seconds: float) -> float | None:
    """Return an upper bound of the energy of this machine's GPUs, from their power limits.

    The energy of the rest of the machine and of its cooling is not included.

    Returns:
        kilowatt-hours; None if the power limit is unknown.
    """
    return None if device.watts is None else device.watts * device.count * seconds / _JOULES_PER_KWH


def training_flops_per_token(config: PretrainedConfig, max_length: int, mask_rate: float,
                             windowed: bool = True) -> float | None:
    """Count the operations of training on one token, forward and backward.

    Matrix products are counted, with an addition and a multiplication as two operations.
    Element-wise operations and recomputed activations are not counted. The head is counted for the
    share of tokens that are masked.

    Source of this definition: Chowdhery et al. 2022 (PaLM), appendix B.

    Args:
        config: the model's configuration.
        max_length: tokens in a sequence, with special tokens.
        mask_rate: share of tokens that are masked, 0 to 1.
        windowed: count attention scores only inside ModernBERT's windows; kernels without windows
            also compute the other scores.

    Returns:
        operations per token; None for an unknown architecture.
    """
    if config.model_type not in _KNOWN_MODEL_TYPES:
        return None
    model = build_model(config, "meta")
    # Multiplications per token in linear layers: of the encoder, and of the model.
    body, total = (sum(layer.in_features * layer.out_features for layer in module.modules()
                       if isinstance(layer, nn.Linear)) for module in (model.base_model, model))
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    pairs = 0  # of tokens that attend to each other
    for kind in kinds:
        reach = max_length - 1
        if windowed and kind == "sliding_attention":
            reach = min(reach, config.sliding_window)
        pairs += max_length * (2 * reach + 1) - reach * (reach + 1)
    scores = pairs / max_length
    # Per channel, a score needs one multiplication, and its share in the sum of values another.
    attention = 2 * scores * config.hidden_size
    # Each multiplication counts as two operations. The gradients of inputs and of weights need one
    # product each.
    return 6.0 * (body + attention + mask_rate * (total - body))
