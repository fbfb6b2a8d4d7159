"""Progress of a run, saved with each state, and the states to resume from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import msgspec

from bmtools.data.sampler import STREAM, StreamPosition
from bmtools.errors import CheckpointError, setting
from bmtools.io.json_files import read_object
from bmtools.records import JsonObject
from bmtools.training.run_directories import STATES, kept_directory, runs_directory

if TYPE_CHECKING:
    from bmtools.training.plan import TrainingPlan

STATE = "state.json"


class _State(TypedDict):
    files: dict[str, int]


@dataclass
class Progress:
    """Progress of a run, saved with each state.

    Args:
        identity: settings and inputs that must not change when the run is resumed, by name.
        step: updates done.
        tokens_seen: tokens trained on, without padding.
        wall_seconds: time spent in all sessions.
        pending: sums since the last line of metrics, by name.
        metrics: lines so far.
        retained: losses on the text to retain, before and after.
        scaler: state of the loss scaler of fp16; empty in other precisions.
        stream: version of the order of samples.
        positions: where the run enters the text and that to replay, by corpus; plain values.
        energy: figures of all sessions, as `meter.current` has them.
    """

    identity: Mapping[str, object]
    step: int = 0
    tokens_seen: int = 0
    wall_seconds: float = 0.0
    pending: dict[str, float] = field(default_factory=dict)
    metrics: list[JsonObject] = field(default_factory=list)
    retained: JsonObject = field(default_factory=dict)
    scaler: JsonObject = field(default_factory=dict)
    stream: int = STREAM
    positions: JsonObject = field(default_factory=dict)
    energy: JsonObject = field(default_factory=dict)

    def position(self, corpus: str) -> StreamPosition | None:
        """Return where the run enters a corpus; None for the beginning."""
        content = self.positions.get(corpus)
        return StreamPosition.from_json(content) if content else None


def find_resume_point(plan: TrainingPlan, identity: Mapping[str, object],
                      ) -> tuple[Progress, Path | None, list[str]]:
    """Find the newest state to resume from, or clear the directories for a new run.

    One of several processes calls it, and tells the others.

    Args:
        plan: settings of the run.
        identity: settings and inputs that must not change.

    Returns:
        progress of the run so far, the state to resume from (None for a new run), and messages
        for people.

    Raises:
        CheckpointError: the state is of another run, or every state is damaged.
    """
    directory = runs_directory(plan.output)
    whole, damaged = list_states(directory) if plan.resume else ([], [])
    if damaged and not whole:
        raise CheckpointError(f"{directory}: found no whole state ({damaged[0].name} is damaged); "
                              f"start again with {setting('overwrite')}")
    state = whole[0] if whole else None
    progress = read_progress(state, identity) if state else Progress(identity)
    obsolete = [path for path in damaged if path.name > state.name] if state \
        else [*directory.glob(STATES), kept_directory(plan.output)]
    for path in obsolete:
        shutil.rmtree(path, ignore_errors=True)
    notes = [f"{path} was damaged; the run resumes from {state.name}"
             for path in obsolete] if state else []
    return progress, state, notes


def recorded_identity(plan: TrainingPlan) -> Mapping[str, object]:
    """Read the identity of the run to resume; empty for a new run.

    One of several processes calls it, before that one clears directories, and tells the others.
    """
    whole, _ = list_states(runs_directory(plan.output)) if plan.resume else ([], [])
    identity = read_object(whole[0] / STATE).get("identity") if whole else None
    return identity if isinstance(identity, dict) else {}


def list_states(directory: Path) -> tuple[list[Path], list[Path]]:
    """List whole states, and those that a crash or a full disk left incomplete, newest first."""
    whole: list[Path] = []
    damaged: list[Path] = []
    for state in sorted(directory.glob(STATES), reverse=True):
        try:
            sizes = read_object(state / STATE, _State)["files"]
            is_whole = all((state / name).stat().st_size == size for name, size in sizes.items())
        except (OSError, CheckpointError):
            is_whole = False
        (whole if is_whole else damaged).append(state)
    return whole, damaged


def read_progress(state: Path, identity: Mapping[str, object]) -> Progress:
    """Read the progress of a run, and make sure that it is the same run.

    Raises:
        CheckpointError: a setting, the data or the vocabulary differs, or another version of
            bmtools wrote the state.
    """
    content = read_object(state / STATE)
    content.pop("files")
    if content.get("stream") != STREAM:
        raise CheckpointError(
            f"{state}: written by a version of bmtools that draws and packs documents in another "
            f"order; resume with that one, or start again with {setting('overwrite')}")
    try:
        msgspec.convert(content, Progress)
        progress = Progress(**content)
    except (TypeError, msgspec.ValidationError) as error:
        raise CheckpointError(
            f"{state}: written by another version of bmtools ({error}); resume with that one, or "
            f"start again with {setting('overwrite')}") from error
    current = json.loads(json.dumps(identity))
    for name in sorted({*current, *progress.identity}):
        old, new = progress.identity.get(name), current.get(name)
        if old != new:
            raise CheckpointError(
                f"{state.parent}: the unfinished run has {name} {old}, found {new}; resume with "
                f"the same settings, or start again with {setting('overwrite')}")
    return progress
