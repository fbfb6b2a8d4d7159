"""Phases files in TOML, including recipes: reading, overriding, writing."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from bmtools.errors import (
    DataError,
    choices,
    did_you_mean,
    setting,
    settings_spelled_as_flags,
    suggestion,
)
from bmtools.io.sources import open_bytes, source_name
from bmtools.recipes.phases import Phase, RunConfig, merged, resolved
from bmtools.recipes.settings import PHASE_FIELDS, RUN_FIELDS, Values
from bmtools.records import JsonObject

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_FILE_KEYS = {"title": str, "source": str, "notes": list[str], "architecture": str, "run": dict,
              "common": dict, "phases": list}
_TABLES = {"[run]": RUN_FIELDS, "a phase or to [common]": PHASE_FIELDS}
TEXT = str | int | float
"""Text that may be a number without quotes in TOML."""
_EXPECTED = {str: "text", int: "a whole number", float: "a number", bool: "true or false",
             dict: "a table", list: "a list in brackets", list[str]: "a list of texts",
             dict[str, float]: "a table of numbers", TEXT: "text"}
_SUFFIX = ".toml"
_MOST_DOTS = 500  # a key of n parts has n levels and needs n² memory


def read_run_config(name: str) -> RunConfig:
    """Read a phases file, or stdin for `-`.

    Raises:
        DataError: the file is not valid; one line names the file, the phase and the key.
    """
    with open_bytes(name) as stream:
        return parse_run_config(stream.read(), source_name(name))


def _package_files() -> Traversable:
    from importlib.resources import files

    return files(__package__)


def recipe_names() -> list[str]:
    """List the recipes in the package."""
    names = [entry.name for entry in _package_files().iterdir()]
    return sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))


def recipe_text(name: str) -> str:
    """Read the text of a recipe, with its comments.

    Raises:
        ValueError: there is none of this name.
    """
    known = recipe_names()
    if name not in known:
        meant = suggestion(name, known)
        listed = "" if meant.startswith("expected") else f" Recipes: {', '.join(known)}"
        raise ValueError(f"found no recipe named {name!r}, {meant}{listed}")
    return _package_files().joinpath(name + _SUFFIX).read_text(encoding="utf-8")


def load_recipe(name: str) -> RunConfig:
    """Read a recipe in the package.

    Raises:
        ValueError: there is none of this name.
    """
    return parse_run_config(recipe_text(name).encode(), f"recipe {name}")


def parse_run_config(content: bytes, place: str) -> RunConfig:
    """Parse a phases file.

    Args:
        content: TOML with title, source, notes and architecture; [run] for settings of the whole
            run, [common] for settings of every phase, [[phases]] for settings of one phase, with a
            name, and [phases.mixture] for the weights of its corpora.
        place: name of the file in messages.

    Raises:
        DataError: the content is not valid; one line names the place, the phase and the key.
    """
    table = parse_toml(content, place)
    try:
        with settings_spelled_as_flags(False):
            return _run_config(table)
    except ValueError as error:
        raise DataError(f"{place}: {error}") from error


def parse_toml(content: bytes, place: str) -> JsonObject:
    """Parse TOML.

    Raises:
        DataError: it is not TOML, or its tables are nested too deeply.
    """
    if any(line.count(b".") > _MOST_DOTS for line in content.splitlines()):
        raise DataError(f"{place}: found a line with more than {_MOST_DOTS:,} dots, expected TOML")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # also for numbers with thousands of digits
        raise DataError(f"{place}: not TOML ({error})") from error


def _run_config(table: Values) -> RunConfig:
    given = {"run": {}, "common": {}, "phases": [], **_convert_table(table, _FILE_KEYS)}
    with _located("[run]"):
        run = _convert_table(given.pop("run"), RUN_FIELDS)
    with _located("[common]"):
        common = _convert_table(given.pop("common"), PHASE_FIELDS)
    phases = tuple(_phase(number, phase, common)
                   for number, phase in enumerate(given.pop("phases"), 1))
    return RunConfig(phases, run=run, **{**given, "notes": tuple(given.get("notes", ()))})


def _phase(number: int, table: object, common: Values) -> Phase:
    with _located(f"phase {number}"):
        if not isinstance(table, dict):
            raise ValueError(f"found {_shown(table)}, expected [[phases]]")
        if "name" not in table:
            raise ValueError("found no name, expected the key 'name'")
        phase = Phase(convert_value("name", table["name"], str))
    with _located(f"phase {phase.name!r}"):
        own = {key: value for key, value in table.items() if key != "name"}
        return phase.changed(merged(common, _convert_table(own, PHASE_FIELDS)))


def _convert_table(table: Values, kinds: Mapping[str, object]) -> JsonObject:
    """Convert the values of a table, and reject unknown keys."""
    for key in table:
        if key not in kinds:
            table_of_key = next((name for name, keys in _TABLES.items() if key in keys), None)
            meant = f"which belongs to {table_of_key}" if table_of_key else suggestion(key, kinds)
            raise ValueError(f"found unknown key {key!r}, {meant}")
    return {key: convert_value(key, value, kinds[key]) for key, value in table.items()}


def convert_value(key: str, value: object, kind: Any) -> Any:
    """Convert a value to a setting's type; integers are valid floats, 1e9 is a valid integer."""
    given = int(value) if kind is int and isinstance(value, float) and value.is_integer() else value
    try:
        found = msgspec.convert(given, kind)
        if not isinstance(found, float) or math.isfinite(found):
            return found
    except msgspec.ValidationError:
        pass
    allowed = choices(kind)
    meant = did_you_mean(value, allowed) if isinstance(value, str) else ""
    raise ValueError(f"{key}: found {_shown(value)}, expected "
                     f"{' or '.join(allowed) or _EXPECTED[kind]}{meant and f'; {meant}'}")


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    return str(value).lower() if isinstance(value, bool) else \
        repr(value) if isinstance(value, str) else str(value)


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Name the part of the file in messages."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def override(run_config: RunConfig, settings: Values,
             assignments: Sequence[str] = ()) -> RunConfig:
    """Override settings of a run from the command line.

    Args:
        run_config: the run; not changed.
        settings: settings of all phases or of the run, by name.
        assignments: `KEY=VALUE` for all phases or for the whole run, `PHASE.KEY=VALUE` for one
            phase, given by its name or number from 1. Values are TOML; words without quotes are
            text. They override `settings`, and later ones override earlier ones.

    Raises:
        ValueError: a key is unknown, or a value is out of range.
    """
    run = {**run_config.run, **{key: settings[key] for key in settings if key in RUN_FIELDS}}
    shared = {key: settings[key] for key in settings if key not in RUN_FIELDS}
    changes: list[Values] = [shared] * len(run_config.phases)
    for text in assignments:
        with _located(f"{setting('set')} {text}"):
            chosen, key, value = _parse_assignment(text, run_config.phases)
            if key in RUN_FIELDS:
                run[key] = value
            else:
                changes = [merged(given, {key: value}) if chosen in (None, number) else given
                           for number, given in enumerate(changes)]
    phases = []
    for phase, changed in zip(run_config.phases, changes, strict=True):
        # Messages do not name the phase of a run with a single phase.
        with _located(f"phase {phase.name!r}") if len(changes) > 1 else nullcontext():
            phases.append(phase.changed(changed))
    return replace(run_config, phases=tuple(phases), run=run)


def _parse_assignment(text: str, phases: Sequence[Phase]) -> tuple[int | None, str, object]:
    """Parse `KEY=VALUE` or `PHASE.KEY=VALUE`; return the phase from 0 or None, key and value."""
    path, equals, given = text.partition("=")
    where, dot, key = path.strip().rpartition(".")
    if not equals or not key:
        raise ValueError("expected KEY=VALUE or PHASE.KEY=VALUE")
    number = _phase_number(where, phases) if dot else None
    if dot and key in RUN_FIELDS:
        raise ValueError(f"{key} holds for the whole run; leave the phase out")
    known = {**PHASE_FIELDS, **({} if dot else RUN_FIELDS)}
    if key not in known:
        raise ValueError(f"found unknown key {key!r}, {suggestion(key, known)}")
    return number, key, convert_value(key, _parse_value(given, known[key]), known[key])


def _phase_number(where: str, phases: Sequence[Phase]) -> int:
    names = [phase.name for phase in phases]
    if where in names:
        return names.index(where)
    if where.isdecimal() and 1 <= int(where) <= len(names):
        return int(where) - 1
    numbers = f"or a number from 1 to {len(names)}" if len(names) > 1 else "or 1"
    raise ValueError(f"found no phase {where!r}, expected {', '.join(names)} {numbers}")


def _parse_value(text: str, kind: object) -> object:
    """Parse a value as TOML, or return the text if it is not TOML or text is expected."""
    text = text.strip()
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    value = table["value"]
    expects_text = kind is str or choices(kind)
    return text if len(table) > 1 or (expects_text and not isinstance(value, str)) else value


def to_toml(run_config: RunConfig) -> str:
    """Write a run as a phases file that is read back as an equal run.

    All settings are written, so that later changes of defaults have no effect.
    """
    content = resolved(run_config)
    phases, run = content.pop("phases"), content.pop("run")
    tables = [("", {key: value for key, value in content.items() if value}), ("[run]", run)]
    for phase in phases:
        mixture = phase.pop("mixture", {})
        tables += [("[[phases]]", phase), ("[phases.mixture]", mixture)]
    lines = []
    for header, table in filter(lambda one: one[1], tables):
        lines += ["", header] if header else []
        lines += [f"{key if re.fullmatch('[A-Za-z0-9_-]+', key) else _toml(key)} = {_toml(value)}"
                  for key, value in table.items()]
    return "\n".join(lines).lstrip("\n") + "\n"


def _toml(value: object) -> str:
    if isinstance(value, list):
        return "[" + "".join(f"\n    {_toml(item)}," for item in value) + "\n]"
    if type(value) is int:
        return f"{value:_}"
    # Texts, numbers and booleans are written as in JSON; TOML also escapes the delete character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
