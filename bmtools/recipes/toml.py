"""Phases files in TOML and the recipes among them: reading, overriding, writing."""

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
from bmtools.recipes.distillation import DistillationConfig
from bmtools.recipes.phases import (
    ALTERNATIVES,
    DISTILLATION_FIELDS,
    PHASE_FIELDS,
    RUN_FIELDS,
    MixtureWeight,
    Phase,
    RunConfig,
    check_run_settings,
    merged,
    resolved,
)
from bmtools.recipes.settings import Values
from bmtools.records import JsonObject

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

MIXTURE = "mixture"
_FILE_KEYS = {"title": str, "source": str, "notes": list[str], "architecture": str, "run": dict,
              "distillation": dict, "common": dict, "phases": list}
_PHASE_KEYS = {**PHASE_FIELDS, MIXTURE: dict}
_WHOLE_FIELDS = {**RUN_FIELDS, **DISTILLATION_FIELDS}
_WEIGHT_KEYS = {"weight": float, "end": float, "epochs": float}
_EXPECTED = {str: "text", int: "a whole number", float: "a number", bool: "true or false",
             dict: "a table", list: "a list in brackets", list[str]: "a list of texts"}
_SUFFIX = ".toml"
_MOST_BYTES = 1 << 20
_MOST_DOTS = 5_000  # a key of n parts takes tomllib n² memory


def read_run_config(name: str) -> RunConfig:
    """Read a phases file, or stdin for `-`.

    Raises:
        DataError: one line that names the file, the phase and the key.
    """
    with open_bytes(name) as stream:
        content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise DataError(f"{source_name(name)}: found more than a megabyte, expected a phases file")
    return parse_run_config(content, source_name(name))


def _package_files() -> Traversable:
    from importlib.resources import files

    return files(__package__)


def recipe_names() -> list[str]:
    """List the recipes that come with the package."""
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
    """Read a recipe that comes with the package.

    Raises:
        ValueError: there is none of this name.
    """
    return parse_run_config(recipe_text(name).encode(), f"recipe {name}")


def parse_run_config(content: bytes, place: str) -> RunConfig:
    """Parse a phases file.

    Args:
        content: TOML: title, source, notes and architecture; [run] for settings of the whole run,
            [distillation] for those of `distill`, [common] for settings of every phase, [[phases]]
            for those of one, with a name, and [phases.mixture] for its corpora, each with a weight
            or with weight, end and epochs.
        place: name of the file in messages.

    Raises:
        DataError: one line that names the place, the phase and the key.
    """
    table = parse_toml(content, place)
    try:
        with settings_spelled_as_flags(False):
            return _run_config(table)
    except ValueError as error:
        line = _line_of_key(content.decode("utf-8"), str(error))
        raise DataError(f"{place}{line}: {error}") from error


def parse_toml(content: bytes, place: str) -> JsonObject:
    """Parse TOML.

    Raises:
        DataError: it is none, or it nests too deep.
    """
    if any(line.count(b".") > _MOST_DOTS for line in content.splitlines()):
        raise DataError(f"{place}: found a line with more than {_MOST_DOTS:,} dots, expected TOML")
    try:
        found = tomllib.loads(content.decode("utf-8"))
        repr(found)  # dotted keys nest deeper than Python can walk
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
        raise DataError(f"{place}: not TOML ({error})") from error
    return found


def _line_of_key(text: str, message: str) -> str:
    """Find the line of the key that a message names; nothing where others have the same key."""
    named = re.search(r"unknown key '([^']+)'|(?:^|: )(\w+): found", message)
    if named is None:
        return ""
    key = re.escape(named[1] or named[2])
    lines = [number for number, line in enumerate(text.splitlines(), 1)
             if re.match(rf"\s*[\"']?{key}[\"']?\s*=", line)]
    return f":{lines[0]}" if len(lines) == 1 else ""


def _run_config(table: Values) -> RunConfig:
    given = {"run": {}, "distillation": {}, "common": {}, "phases": [],
             **_convert_table(table, _FILE_KEYS)}
    with _located("[run]"):
        run = _convert_table(given.pop("run"), RUN_FIELDS)
        check_run_settings(run)
    with _located("[distillation]"):
        distillation = _convert_table(given.pop("distillation"), DISTILLATION_FIELDS)
        DistillationConfig(**distillation)
    with _located("[common]"):
        common = _phase_settings(given.pop("common"))
    phases = tuple(_phase(number, phase, common)
                   for number, phase in enumerate(given.pop("phases"), 1))
    return RunConfig(phases, run=run, distillation=distillation,
                     **{**given, "notes": tuple(given.get("notes", ()))})


def _phase(number: int, table: object, common: Values) -> Phase:
    with _located(f"phase {number}"):
        if not isinstance(table, dict):
            raise ValueError(f"found {_shown(table)}, expected [[phases]]")
        if "name" not in table:
            raise ValueError("found no name, expected one")
        phase = Phase(_convert("name", table["name"], str))
    with _located(f"phase {phase.name!r}"):
        own = _phase_settings({key: value for key, value in table.items() if key != "name"})
        return phase.changed(merged(common, own))


def _phase_settings(table: Values) -> JsonObject:
    settings = _convert_table(table, _PHASE_KEYS)
    if MIXTURE in settings:
        settings[MIXTURE] = tuple(map(_mixture_weight, settings[MIXTURE],
                                      settings[MIXTURE].values()))
    return settings


def _mixture_weight(corpus: str, value: object) -> MixtureWeight:
    key = f"{MIXTURE}: {corpus}"
    if not isinstance(value, dict):
        return MixtureWeight(corpus, _convert(key, value, float))
    with _located(key):
        # Infinite is the default of epochs, which other numbers may not be.
        given = {name: one for name, one in value.items() if (name, one) != ("epochs", math.inf)}
        weights = _convert_table(given, _WEIGHT_KEYS)
        if "weight" not in weights:
            raise ValueError("found no weight, expected one")
    return MixtureWeight(corpus, weights["weight"], weights.get("end"),
                         weights.get("epochs", math.inf))


def _convert_table(table: Values, kinds: Mapping[str, object]) -> JsonObject:
    """Convert the values of a table, and refuse unknown keys."""
    for key in table:
        if key not in kinds:
            raise ValueError(f"found unknown key {key!r}, {_belongs_to(key, kinds)}")
    return {key: _convert(key, value, kinds[key]) for key, value in table.items()}


def _belongs_to(key: str, known: Mapping[str, object]) -> str:
    if key in RUN_FIELDS and known is not _WEIGHT_KEYS:
        return "which belongs to [run]"
    if key in _PHASE_KEYS and known is not _WEIGHT_KEYS:
        return "which belongs to a phase or to [common]"
    if key in DISTILLATION_FIELDS and known is not _WEIGHT_KEYS:
        return "which belongs to [distillation]"
    return suggestion(key, list(known))


def _convert(key: str, value: object, kind: Any) -> Any:
    """Convert a value to a setting's type; whole numbers pass as numbers, 1e9 as a whole number."""
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
        run_config: left unchanged.
        settings: by name, of all phases, of the run or of distillation.
        assignments: `KEY=VALUE` for all phases or for the whole run, `PHASE.KEY=VALUE` for one
            phase, a name or a number from 1. Values are TOML, bare words are text. They take
            precedence over `settings`, later ones over earlier ones.

    Raises:
        ValueError: an unknown key, or a value out of range.
    """
    whole = {name: {**before, **{key: settings[key] for key in settings if key in known}}
             for name, before, known in (("run", run_config.run, RUN_FIELDS), (
                 "distillation", run_config.distillation, DISTILLATION_FIELDS))}
    shared = {key: settings[key] for key in settings if key not in _WHOLE_FIELDS}
    changes: list[Values] = [shared] * len(run_config.phases)
    for text in assignments:
        with _located(f"{setting('set')} {text}"):
            chosen, key, value = _parse_assignment(text, run_config.phases)
            if key in _WHOLE_FIELDS:
                whole["run" if key in RUN_FIELDS else "distillation"][key] = value
            else:
                changes = [merged(given, {key: value}) if chosen in (None, number) else given
                           for number, given in enumerate(changes)]
    phases = []
    for phase, changed in zip(run_config.phases, changes, strict=True):
        # A run of a single phase has no need of its name in messages.
        with _located(f"phase {phase.name!r}") if len(changes) > 1 else nullcontext():
            phases.append(phase.changed(changed))
    return replace(run_config, phases=tuple(phases), run=whole["run"],
                   distillation=whole["distillation"])


def _parse_assignment(text: str, phases: Sequence[Phase]) -> tuple[int | None, str, object]:
    """Parse `KEY=VALUE` or `PHASE.KEY=VALUE`: number of the phase from 0, or None; key; value."""
    path, equals, given = text.partition("=")
    where, dot, key = path.strip().rpartition(".")
    if not equals or not key:
        raise ValueError("expected KEY=VALUE or PHASE.KEY=VALUE")
    number = _phase_number(where, phases) if dot else None
    if dot and key in _WHOLE_FIELDS:
        raise ValueError(f"{key} holds for the whole run; leave the phase out")
    if key in _WHOLE_FIELDS:
        kind = _WHOLE_FIELDS[key]
        return None, key, _convert(key, _parse_value(given, kind), kind)
    if key not in _PHASE_KEYS:
        known = [*_PHASE_KEYS, *(() if dot else _WHOLE_FIELDS)]
        raise ValueError(f"found unknown key {key!r}, {suggestion(key, known)}")
    return number, key, _phase_settings({key: _parse_value(given, _PHASE_KEYS[key])})[key]


def _phase_number(where: str, phases: Sequence[Phase]) -> int:
    names = [phase.name for phase in phases]
    if where in names:
        return names.index(where)
    if where.isdecimal() and 1 <= int(where) <= len(names):
        return int(where) - 1
    numbers = f"or a number from 1 to {len(names)}" if len(names) > 1 else "or 1"
    raise ValueError(f"found no phase {where!r}, expected {', '.join(names)} {numbers}")


def _parse_value(text: str, kind: object) -> object:
    """Parse a value as TOML, or take the text itself where it is none or text is expected."""
    text = text.strip()
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    value = table["value"]
    expects_text = kind is str or choices(kind)
    return text if len(table) > 1 or (expects_text and not isinstance(value, str)) else value


def to_toml(run_config: RunConfig) -> str:
    """Write a run as a phases file that reads back equal.

    Every setting is listed, so that later defaults change nothing; settings that all phases share
    are listed under [common].
    """
    content = resolved(run_config)
    phases, run, distillation = (content.pop(name) for name in ("phases", "run", "distillation"))
    common: JsonObject = {}
    if len(phases) > 1:
        same = {key: value for key, value in phases[0].items()
                if key in PHASE_FIELDS and all(phase[key] == value for phase in phases)}
        # Alternatives are common only together.
        apart = {name for names in ALTERNATIVES if not set(names) <= same.keys() for name in names}
        common = {key: value for key, value in same.items() if key not in apart}
    tables = [("", {key: value for key, value in content.items() if value}),
              ("[run]", run), ("[distillation]", distillation), ("[common]", common)]
    for phase in phases:
        mixture = phase.pop(MIXTURE, {})
        own = {key: value for key, value in phase.items() if key not in common}
        tables += [("[[phases]]", own), ("[phases.mixture]", mixture)]
    return "\n\n".join("\n".join(filter(None, (header, *_toml_lines(table))))
                       for header, table in tables if table) + "\n"


def _toml_lines(table: Values) -> list[str]:
    return [f"{key if re.fullmatch('[A-Za-z0-9_-]+', key) else _toml(key)} = {_toml(value)}"
            for key, value in table.items()]


def _toml(value: object) -> str:
    if isinstance(value, list):
        return "[" + "".join(f"\n    {_toml(item)}," for item in value) + "\n]"
    if isinstance(value, dict):
        return "{ " + ", ".join(_toml_lines(value)) + " }"
    if type(value) is int:
        return f"{value:_}"
    # JSON's texts, numbers and booleans are TOML's, which also escapes the delete character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
