"""Parts of an installation, the commands that need missing parts, and how to add them."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from importlib import metadata

import torch

from bmtools import __version__
from bmtools.installation import DISTRIBUTION, LEAST_VERSIONS, install_command, is_too_old
from bmtools.io.system import read_system, usable_cores, usable_memory_bytes
from bmtools.models.device import missing_for_cuda
from bmtools.models.hardware import describe_hardware, resolve_device
from bmtools.models.precision import measure_products
from bmtools.records import JsonObject

_USED_BY = {
    "chinese": "words of Chinese", "cleaning": "clean: encoding repairs, language",
    "ctranslate2": "translate --engine ctranslate2", "dedup": "dedup: near duplicates",
    "documents": "import pdf", "energy": "energy of GPUs", "gs": "files at gs://",
    "gunzip": "gzip three times as fast", "http": "files at https://",
    "japanese": "words of Japanese", "openvino": "export model", "parquet": "import parquet",
    "plot": "--plot, report", "ray": "--ray", "s3": "files at s3://", "thai": "words of Thai",
    "translation": "score-translation, language check of translate", "web": "import html, warc"}
_GIB = 2**30
_BERT_BASE = (768, 3072)


def diagnose() -> Iterator[JsonObject]:
    """Yield a line for each part: its name, what was found, who needs it and how to fix it."""
    yield _line("bmtools", __version__)
    yield _line("python", platform.python_version())
    for package, least in LEAST_VERSIONS.items():
        found = metadata.version(package)
        yield _line(package, found, fix=install_command(package=f"'{package}>={least}'")
                    if is_too_old(found, least) else "")
    device = resolve_device("auto")
    hardware = describe_hardware(device)
    reason = missing_for_cuda() if device == "cpu" else ""
    yield _line("device", f"{device}, {hardware.name}" + f" ({reason})" * bool(reason))
    yield _line("threads", f"{torch.get_num_threads()} of {usable_cores()} cores")
    yield _line("memory", f"{_free_bytes() / _GIB:.1f} GiB free of "
                          f"{usable_memory_bytes() / _GIB:.1f}")
    if device == "cpu":
        full, half = (measure_products(*_BERT_BASE, dtype) / 1e9
                      for dtype in (torch.float32, torch.bfloat16))
        yield _line("speed of a core", f"{full:,.0f} GFLOP/s in float32, {half:,.0f} in bf16")
    for extra, packages in sorted(_extras().items()):
        missing = [name for name in packages if not _is_installed(name)]
        yield _line(f"extra {extra}", f"missing: {', '.join(missing)}" if missing else "installed",
                    _USED_BY.get(extra, ""), install_command(extra) if missing else "")
    has_apertium = shutil.which("apertium") is not None
    yield _line("apertium", "installed" if has_apertium else "missing",
                "translate --engine apertium", "" if has_apertium else "apt install apertium")


def _line(part: str, found: str, used_by: str = "", fix: str = "") -> JsonObject:
    return {"part": part, "found": found, "used_by": used_by, "fix": fix}


def _free_bytes() -> int:
    """Return the memory that a new process can use."""
    found = [line.split()[1] for line in read_system("proc/meminfo").splitlines()
             if line.startswith("MemAvailable:")]
    return min([usable_memory_bytes(), *(1024 * int(number) for number in found)])


def _extras() -> dict[str, list[str]]:
    """Return the packages of each extra that a command uses."""
    from packaging.requirements import Requirement

    required = metadata.requires(DISTRIBUTION) or []
    return {extra: [one.name for text in required if f'extra == "{extra}"' in text
                    and (one := Requirement(text)).marker and one.marker.evaluate({"extra": extra})]
            for extra in _USED_BY}


def _is_installed(package: str) -> bool:
    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False
