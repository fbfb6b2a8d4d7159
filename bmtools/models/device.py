"""Devices by name: which there may be on this machine, told without torch."""

from __future__ import annotations

import os
import re
import sys

from bmtools.errors import BmtoolsError, setting
from bmtools.io import system

_NAME = re.compile(r"auto|cpu|mps|(cuda|xpu)(:\d+)?")
_HIDDEN = ("", "-1", "NoDevFiles")
# NVIDIA's devices; Jetson's; WSL's; AMD's, which torch calls cuda too.
_GPU_FILES = ("dev/nvidia[0-9]*", "dev/nvidiactl", "proc/driver/nvidia/gpus/*", "dev/nvhost-gpu",
              "dev/dxg", "dev/kfd")


def check_device(name: str, role: str = "device") -> None:
    """Refuse a device that is unknown or cannot be there; torch decides where one may be.

    Args:
        name: auto (a GPU if there is one) or a device as torch spells it: cpu, cuda, cuda:1.
        role: the setting that names it.

    Raises:
        BmtoolsError: no such device, with what is missing for a GPU.
    """
    if not _NAME.fullmatch(name):
        refuse_device(name, "no kind of device", role)
    if name.startswith("cuda") and (missing := missing_for_cuda()):
        refuse_device(name, missing, role)


def refuse_device(name: str, reason: str, role: str = "device") -> None:
    """Refuse a device, which a setting names.

    Raises:
        BmtoolsError: names what was found, the reason and what was expected.
    """
    raise BmtoolsError(f"{setting(role)}: found {name!r}, which cannot be used here ({reason});"
                       " expected auto, cpu, or cuda or cuda:N where nvidia-smi lists a GPU")


def missing_for_cuda() -> str:
    """Say why torch cannot find a GPU here; empty where it may, or nothing can be known."""
    if sys.platform == "linux" and not any(map(system.matching, _GPU_FILES)):
        return "this machine shows no GPU: no file of its driver, such as /dev/nvidia0"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0") in _HIDDEN
    return "CUDA_VISIBLE_DEVICES hides all GPUs" if hidden else ""
