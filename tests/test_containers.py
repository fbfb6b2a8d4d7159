"""Dockerfile and Apptainer.def contain the same program, and the files needed to build it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCKER = (ROOT / "Dockerfile").read_text(encoding="utf-8")
APPTAINER = (ROOT / "Apptainer.def").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def sections() -> dict[str, str]:
    """Return the sections of Apptainer.def by name."""
    _, *parts = re.split(r"^%(\w+)\n", APPTAINER, flags=re.M)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_both_copy_the_files_needed_to_build_the_package() -> None:
    allowed = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.M)
    copied = [line.split() for line in sections()["files"].strip().splitlines()]
    assert [source for source, _ in copied] == allowed
    assert all(target == f"/source/{source}" for source, target in copied)
    assert {"bmtools", "pyproject.toml", "constraints.txt", PROJECT["readme"],
            *PROJECT["license-files"]} <= set(allowed)
    assert all((ROOT / name).exists() for name in allowed)


def test_both_install_the_same() -> None:
    [extras] = re.findall(r"^ARG EXTRAS=(.+)$", DOCKER, re.M)
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()
    arguments = dict(line.strip().split("=") for line in
                     sections()["arguments"].strip().splitlines())
    assert arguments == {"TORCH_BACKEND": "cpu", "EXTRAS": extras}
    install = re.compile(r"uv pip install .*\n.*")
    docker = install.findall(DOCKER.replace('"$TORCH_BACKEND"', "@").replace("$EXTRAS", "&"))
    apptainer = install.findall(APPTAINER.replace("{{ TORCH_BACKEND }}", "@").replace(
        "{{ EXTRAS }}", "&"))
    assert [line.split() for line in docker] == [line.split() for line in apptainer]
    assert re.findall(r"FROM python:\S+", DOCKER) == ["FROM python:${PYTHON}-slim"] * 2
    [python] = re.findall(r"^ARG PYTHON=(.+)$", DOCKER, re.M)
    assert f"From: python:{python}-slim" in APPTAINER


def test_both_run_offline_and_not_as_root() -> None:
    assert "HF_HUB_OFFLINE=1" in DOCKER and "HF_HUB_OFFLINE=1" in sections()["environment"]
    *_, last = re.split(r"^FROM ", DOCKER, flags=re.M)
    assert re.findall(r"^USER (\d+)$", last, re.M) == ["1000"]
    assert 'CMD ["bmtools", "--version"]' in last and "bmtools --version" in sections()["test"]
    assert sections()["runscript"].strip() == 'exec bmtools "$@"'
