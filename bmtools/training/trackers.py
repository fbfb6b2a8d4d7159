"""Services that get the metrics too, such as TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accelerate import Accelerator
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers

from bmtools.errors import BmtoolsError

_PACKAGES = {"comet_ml": "comet-ml"}


def named_trackers(text: str) -> list[str]:
    """Read names of services, separated by commas.

    Raises:
        BmtoolsError: Accelerate knows no such service, or its package is not installed.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [str(name) for name in LOGGER_TYPE_TO_CLASS]
    ready = [str(name) for name in get_available_trackers()]
    for name in names:
        if name not in known:
            raise BmtoolsError(f"--trackers: found {name!r}, expected some of {', '.join(known)}")
        if name not in ready:
            raise BmtoolsError(f"--trackers: {name} is not installed; pip install "
                               f"{_PACKAGES.get(name, name)}")
    return names


def start_trackers(accelerator: Accelerator, command: str, settings: Mapping[str, Any],
                   done: int) -> None:
    """Open the services that the accelerator was made with, and tell them the settings.

    Args:
        accelerator: of the run.
        command: names the project.
        settings: those that are nested stay behind.
        done: steps before this sitting; TensorBoard drops what a killed one told of later ones.
    """
    plain = {name: value for name, value in settings.items()
             if isinstance(value, str | int | float)}
    accelerator.init_trackers(f"bmtools-{command}", config=plain,
                              init_kwargs={"tensorboard": {"purge_step": done + 1}})


def track(accelerator: Accelerator, line: Mapping[str, Any]) -> None:
    """Send a line of metrics; words and what is nested stay behind."""
    numbers = {name: value for name, value in line.items()
               if isinstance(value, int | float) and name not in ("step", "of")}
    accelerator.log(numbers, step=line["step"])
