"""Keys of step records and the types of their values, used to validate records."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required, TypedDict

import msgspec

_Figure = Annotated[float, msgspec.Meta(le=1e15)]  # not infinite or NaN, even after adding many


class _Grid(TypedDict, total=False):
    country: str
    year: int
    g_per_kwh: Required[_Figure]
    source: Required[str]


class _Kind(TypedDict, total=False):
    kwh: Required[_Figure]
    hours: Required[_Figure]
    gpu_kwh: _Figure
    cpu_kwh: _Figure
    watts: _Figure
    share: _Figure
    by: list[str]
    of: Literal["measured", "declared"]


class _Energy(TypedDict, total=False):
    run: str
    hours: _Figure
    gpu_hours: _Figure
    cpu_hours: _Figure
    machine_hours: _Figure
    machine_cpu_hours: _Figure
    hardware: str
    measured: _Kind
    allotted: _Kind
    declared: _Kind
    grid: _Grid
    pue: _Figure
    kg_co2eq: dict[str, _Figure]


class _Results(TypedDict, total=False):
    shards: int
    records: int | dict[str, int]
    tokens: int
    parameters: int
    corpora: dict[str, dict[str, int]]
    languages: list[str] | dict[str, int]
    licences: list[str] | dict[str, int]
    last: dict[str, Any]
    evaluate: dict[str, Any]


class _Keys(TypedDict, total=False):
    command: str
    vocabulary: str
    seed: int | None
    started: str
    wall_seconds: _Figure
    tokens_seen: int
    versions: dict[str, str]
    inputs: dict[str, str]
    parents: dict[str, str]
    upstream: dict[str, StepRecord]
    steps: list[StepRecord]
    sha256: str
    files: dict[str, str]
    outputs: list[str]
    licences: dict[str, list[str]]
    licence: str
    energy: _Energy
    results: _Results


class StepRecord(_Keys, total=False):
    """Record of how an output was made; all keys are optional, and other keys are allowed."""

    settings: dict[str, Any]


class _Phase(TypedDict):
    name: str


class _Exported(TypedDict, total=False):
    source: Required[str]
    format: str
    precision: Required[str]


class _Settings(TypedDict, total=False):
    task: str
    phases: list[_Phase] | None
    exported: _Exported | None
    merged: list[str]
    model: str | None
    base: str | None
    teacher: str | None
    published: str | None
    student: str | None
    source: str | None
    tokenizer: str | None


class ManifestRecord(_Keys, total=False):
    """Step record of a directory, `bmtools.json`."""

    settings: _Settings
