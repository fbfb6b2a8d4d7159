"""How bmtools was installed, and the command that adds a package to this installation."""

from __future__ import annotations

import re
import shutil
import sys
from functools import cache
from importlib import util
from pathlib import Path

from bmtools import __version__
from bmtools.errors import BmtoolsError

PLOT_SUFFIXES = (".png", ".svg", ".pdf", ".html")

# `bmtools` is another project's name in the package index.
DISTRIBUTION = "bmtools-lm"
LEAST_VERSIONS = {"torch": "2.9", "transformers": "5.5", "accelerate": "1.15"}


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of bmtools and the given packages."""
    from importlib import metadata

    return {"bmtools": __version__, **{name: metadata.version(name) for name in packages}}


@cache  # three milliseconds a package
def require_versions() -> None:
    """Raise an error for versions of libraries that are too old for this package.

    Raises:
        BmtoolsError: names the version found, the version expected and the command to upgrade.
    """
    from importlib import metadata

    for name, least in LEAST_VERSIONS.items():
        found = metadata.version(name)
        if is_too_old(found, least):
            raise BmtoolsError(f"{name} {found} is too old, expected {least} or newer: pip install "
                               f"--upgrade '{name}>={least}'")


def is_too_old(version: str, least: str) -> bool:
    """Return whether a version is below another one."""
    first, second = ([*map(int, re.findall(r"\d+", one)[:2])] for one in (version, least))
    return first < second


def install_command(extra: str = "", package: str = "") -> str:
    """Return the command that adds one of bmtools' extras, or a package, to this installation."""
    checkout = Path(__file__).parents[1]
    if package or not (checkout / "pyproject.toml").is_file():
        return f"{_pip_install()} " + (package or f"'{DISTRIBUTION}[{extra}]'")
    place = "." if checkout == Path.cwd() else checkout
    return f"{_pip_install()} -e '{place}[{extra}]'"


def require_extra(package: str, needed_by: str, extra: str = "") -> None:
    """Raise an error if a required package is not installed.

    Args:
        package: name of the package.
        needed_by: the setting and its value that need it.
        extra: the extra of bmtools that installs it; by default it has the package's name.

    Raises:
        BmtoolsError: it is not installed; the message contains the command to install it.
    """
    if util.find_spec(package) is None:
        raise BmtoolsError(f"{needed_by} needs the package {package}: "
                           f"{install_command(extra or package)}")


def _pip_install() -> str:
    """Return the pip command that installs into this environment."""
    if _installer() == "uv":
        return f"uv pip install --python {sys.prefix}"
    found = shutil.which("pip")
    is_ours = found is not None and Path(found).parent == Path(sys.executable).parent
    return "pip install" if is_ours else f"{sys.executable} -m pip install"


def _installer() -> str:
    """Return the program that installed this package; empty if it left no note."""
    from importlib import metadata

    try:
        return (metadata.distribution(DISTRIBUTION).read_text("INSTALLER") or "").strip()
    except metadata.PackageNotFoundError:
        return ""


def require_matplotlib() -> None:
    """Raise an error if matplotlib is not installed; called before any work is done.

    Raises:
        BmtoolsError: it is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise BmtoolsError(
            f"charts need the package matplotlib: {install_command('plot')}") from error
