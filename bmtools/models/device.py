"""Checks of device names against this machine, without torch."""

from __future__ import annotations

import os
import re
import sys

from bmtools.errors import BmtoolsError, setting
from bmtools.io import system

_NAME = re.compile(r"auto|cpu|mps|(cuda|xpu)(:\d+)?")
_HIDDEN = ("", "-1", "NoDevFiles")
# Files of NVIDIA's driver, of Jetson, of WSL and of AMD's driver (torch also calls AMD's GPUs
# cuda).
_GPU_FILES = ("dev/nvidia[0-9]*", "dev/nvidiactl", "proc/driver/nvidia/gpus/*", "dev/nvhost-gpu",
              "dev/dxg", "dev/kfd")


def check_device(name: str, role: str = "device") -> None:
    """Reject a device that is unknown or cannot exist here; torch decides on all others.

    Args:
        name: auto (a GPU if there is one) or torch's name of a device: cpu, cuda, cuda:1.
        role: the setting that names it.

    Raises:
        BmtoolsError: there is no such device; for a GPU, the message names the missing part.
    """
    if not _NAME.fullmatch(name):
        refuse_device(name, "no kind of device", role)
    if name.startswith("cuda") and (missing := missing_for_cuda()):
        refuse_device(name, missing, role)


def refuse_device(name: str, reason: str, role: str = "device") -> None:
    """Raise the error for a device that a setting names.

    Raises:
        BmtoolsError: always; the message names the device, the reason and the expected values.
    """
    raise BmtoolsError(f"{setting(role)}: found {name!r}, which cannot be used here ({reason});"
                       " expected auto, cpu, or cuda or cuda:N where nvidia-smi lists a GPU")


def missing_for_cuda() -> str:
    """Return why torch cannot find a GPU here; empty if it may find one or this is unknown."""
    if sys.platform == "linux" and not any(map(system.matching, _GPU_FILES)):
        return "this machine shows no GPU: no file of its driver, such as /dev/nvidia0"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0") in _HIDDEN
    return "CUDA_VISIBLE_DEVICES hides all GPUs" if hidden else ""
