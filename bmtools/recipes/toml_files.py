"""Scripts read from TOML, shipped as recipes, and changed from the command line.

Importing this costs nothing.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from bmtools.errors import DataError, choices, settings_spelled
from bmtools.io.jsonl import open_bytes, source_name
from bmtools.recipes.phases import (
    PHASE_FIELDS,
    RUN_FIELDS,
    MixtureWeight,
    Phase,
    RunConfig,
    check_run_settings,
    merged,
    suggestion,
)

MIXTURE = "mixture"
_WORDS = ("title", "source", "notes", "architecture")
_TABLES = ("run", "common", "phases")
_PORTION = ("weight", "end", "epochs")
_EXPECTED = {str: "text", int: "a whole number", float: "a number", bool: "true or false",
             dict: "a table", list: "a list in brackets"}
_TAIL = ".toml"


def read_run_config(name: str) -> RunConfig:
    """Read a phases file, or stdin for `-`.

    Raises:
        DataError: one line that names the file, the phase and the key.
    """
    with open_bytes(name) as stream:
        return parse_run_config(stream.read(), source_name(name))


def recipe_names() -> list[str]:
    """Name the recipes that come with the package."""
    return sorted(entry.name.removesuffix(_TAIL) for entry in _recipes().iterdir()
                  if entry.name.endswith(_TAIL))


def recipe_text(name: str) -> str:
    """Give a recipe as it is written, comments and all.

    Raises:
        ValueError: there is none of this name.
    """
    known = recipe_names()
    if name not in known:
        meant = suggestion(name, known)
        listed = "" if meant.startswith("expected") else f" Recipes: {', '.join(known)}"
        raise ValueError(f"found no recipe named {name!r}, {meant}{listed}")
    return _recipes().joinpath(name + _TAIL).read_text(encoding="utf-8")


def load_recipe(name: str) -> RunConfig:
    """Read a recipe that comes with the package.

    Raises:
        ValueError: there is none of this name.
    """
    return parse_run_config(recipe_text(name).encode(), f"recipe {name}")


def _recipes() -> Traversable:
    return resources.files("bmtools.recipes")


def parse_run_config(content: bytes, place: str) -> RunConfig:
    """Make a script of a phases file's content.

    Args:
        content: TOML: title, source, notes and architecture; [run] for settings of the whole run,
            [common] for settings of every phase, [[phases]] for those of one, with a name, and
            [phases.mixture] for its corpora, each with a weight or with weight, end and epochs.
        place: what messages call it.

    Raises:
        DataError: one line that names the place, the phase and the key.
    """
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{place}: not TOML ({error})") from error
    try:
        return _script_of(table)
    except ValueError as error:
        raise DataError(f"{place}: {error}") from error


def _script_of(table: Mapping[str, Any]) -> RunConfig:
    for key in table:
        if key not in (*_WORDS, *_TABLES):
            raise ValueError(f"found unknown key {key!r}, {_place_of(key, (*_WORDS, *_TABLES))}")
    words = {key: _typed(key, table[key], list if key == "notes" else str)
             for key in _WORDS if key in table}
    if "notes" in words:
        words["notes"] = tuple(_typed("notes", note, str) for note in words["notes"])
    given = {key: _typed(key, table.get(key, {}), dict) for key in ("run", "common")}
    with _within("[run]"), settings_spelled(str):
        run = {key: _run_value(key, value) for key, value in given["run"].items()}
        check_run_settings(run)
    with _within("[common]"):
        common = _phase_values(given["common"])
    phases = _typed("phases", table.get("phases", []), list)
    return RunConfig(tuple(_phase_of(number, phase, common) for number, phase in
                           enumerate(phases, 1)), run=run, **words)


def _phase_of(number: int, table: Any, common: Mapping[str, Any]) -> Phase:
    with _within(f"phase {number}"):
        if not isinstance(table, dict):
            raise ValueError(f"found {_shown(table)}, expected [[phases]]")
        own = dict(table)
        if "name" not in own:
            raise ValueError("found no name, expected one")
        name = _typed("name", own.pop("name"), str)
        phase = Phase(name)
    with _within(f"phase {name!r}"), settings_spelled(str):
        return phase.changed(merged(common, _phase_values(own)))


def _phase_values(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _phase_value(key, value) for key, value in table.items()}


def _phase_value(key: str, value: Any) -> Any:
    if key == MIXTURE:
        return tuple(_portion_of(corpus, portion)
                     for corpus, portion in _typed(key, value, dict).items())
    if key not in PHASE_FIELDS:
        raise ValueError(f"found unknown key {key!r}, {_place_of(key, (*PHASE_FIELDS, MIXTURE))}")
    return _typed(key, value, PHASE_FIELDS[key])


def _run_value(key: str, value: Any) -> Any:
    if key not in RUN_FIELDS:
        raise ValueError(f"found unknown key {key!r}, {_place_of(key, tuple(RUN_FIELDS))}")
    return _typed(key, value, RUN_FIELDS[key])


def _portion_of(corpus: str, value: Any) -> MixtureWeight:
    key = f"{MIXTURE}: {corpus}"
    if not isinstance(value, dict):
        return MixtureWeight(corpus, _typed(key, value, float))
    for part in value:
        if part not in _PORTION:
            raise ValueError(f"{key}: found unknown key {part!r}, {suggestion(part, _PORTION)}")
    if "weight" not in value:
        raise ValueError(f"{key}: found no weight, expected one")
    end = _typed(f"{key}: end", value["end"], float) if "end" in value else None
    epochs = value.get("epochs", math.inf)
    return MixtureWeight(corpus, _typed(f"{key}: weight", value["weight"], float), end,
                         epochs if epochs == math.inf else _typed(f"{key}: epochs", epochs, float))


def _place_of(key: str, known: Sequence[str]) -> str:
    """Say where a key belongs, what may have been meant, or all there is."""
    if key in RUN_FIELDS:
        return "which belongs to [run]"
    if key in PHASE_FIELDS or key == MIXTURE:
        return "which belongs to a phase or to [common]"
    return suggestion(key, known)


def _typed(key: str, value: Any, kind: type) -> Any:
    """Refuse a value of another type; whole numbers pass as numbers, 1e9 as a whole number."""
    kind = str if choices(kind) else kind
    if isinstance(value, int) and not isinstance(value, bool) and kind is float:
        return float(value)
    if isinstance(value, float) and kind is int and value.is_integer():
        return int(value)
    if type(value) is kind and (not isinstance(value, float) or math.isfinite(value)):
        return value
    raise ValueError(f"{key}: found {_shown(value)}, expected {_EXPECTED[kind]}")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    return repr(value) if isinstance(value, str) else str(value)


@contextmanager
def _within(where: str) -> Iterator[None]:
    """Say where a value stands."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def override(script: RunConfig, values: Mapping[str, Any], sets: Sequence[str] = ()) -> RunConfig:
    """Change a script by what the command line says.

    Args:
        script: left as it is.
        values: settings by name, of all phases or of the run.
        sets: `KEY=VALUE` for all phases or for the run, `PHASE.KEY=VALUE` for one phase, a name
            or a number from 1. Values are TOML, bare words are text. They win over `values`, later
            ones over earlier ones.

    Raises:
        ValueError: a key that is not there, a value that does not fit.
    """
    run = {**script.run, **{key: value for key, value in values.items() if key in RUN_FIELDS}}
    shared = {key: value for key, value in values.items() if key not in RUN_FIELDS}
    changes: list[Mapping[str, Any]] = [shared] * len(script.phases)
    for text in sets:
        with _within(f"--set {text}"):
            phase, key, value = _setting_of(text, script.phases)
            if key in RUN_FIELDS:
                run[key] = value
            else:
                changes = [merged(given, {key: value}) if phase in (None, number) else given
                           for number, given in enumerate(changes)]
    if len(changes) == 1:
        return replace(script, phases=(script.phases[0].changed(changes[0]),), run=run)
    return replace(script, phases=tuple(map(_changed, script.phases, changes)), run=run)


def _changed(phase: Phase, values: Mapping[str, Any]) -> Phase:
    with _within(f"phase {phase.name!r}"):
        return phase.changed(values)


def _setting_of(text: str, phases: Sequence[Phase]) -> tuple[int | None, str, Any]:
    """Read `KEY=VALUE` or `PHASE.KEY=VALUE`: number of the phase from 0, or None; key; value."""
    path, equals, given = text.partition("=")
    where, dot, key = path.strip().rpartition(".")
    if not equals or not key:
        raise ValueError("expected KEY=VALUE or PHASE.KEY=VALUE")
    place = _phase_number(where, phases) if dot else None
    if dot and key in RUN_FIELDS:
        raise ValueError(f"{key} holds for the whole run; leave the phase out")
    if key in RUN_FIELDS:
        return None, key, _typed(key, _read_value(given, RUN_FIELDS[key]), RUN_FIELDS[key])
    if key not in PHASE_FIELDS and key != MIXTURE:
        known = [*PHASE_FIELDS, MIXTURE, *(() if dot else RUN_FIELDS)]
        raise ValueError(f"found unknown key {key!r}, {suggestion(key, known)}")
    return place, key, _phase_value(key, _read_value(given, PHASE_FIELDS.get(key, dict)))


def _phase_number(where: str, phases: Sequence[Phase]) -> int:
    names = [phase.name for phase in phases]
    if where in names:
        return names.index(where)
    if where.isdecimal() and 1 <= int(where) <= len(names):
        return int(where) - 1
    numbers = f"or a number from 1 to {len(names)}" if len(names) > 1 else "or 1"
    raise ValueError(f"found no phase {where!r}, expected {', '.join(names)} {numbers}")


def _read_value(text: str, kind: type) -> Any:
    """Read a value as TOML, and as it stands where it is no TOML or text is wanted."""
    text = text.strip()
    kind = str if choices(kind) else kind
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    value = table["value"]
    return text if len(table) > 1 or (kind is str and not isinstance(value, str)) else value
