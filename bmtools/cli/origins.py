"""Values of options from environment variables and `--config` files, and their names there."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from bmtools.cli.help import Group, long_name
from bmtools.errors import DataError, did_you_mean, suggestion

if TYPE_CHECKING:
    from bmtools.records import JsonObject

_CONFIG = "bmtools.cli.origins.config"
_READABLE = (
    (r"(.+) is not a valid (?:integer|int)\b.*", r"found \1, expected a whole number"),
    (r"(.+) is not a valid float\b.*", r"found \1, expected a number"),
    (r"(.+) is not a valid boolean\b.*", r"found \1, expected true or false"),
    (r"(.+) is not one of (.+)", r"found \1, expected one of \2"),
    (r"(.+) is not in the range (.+)", r"found \1, expected a number in the range \2"),
)
_NEAR_VARIABLE = 0.9  # other programs may use variables that begin with BMTOOLS_


def check_variables(ctx: click.Context) -> None:
    """Raise an error for misspelt variables of a command, which would be ignored."""
    if ctx.auto_envvar_prefix is None or ctx.parent is None or ctx.resilient_parsing:
        return
    options = {long_name(one).replace("-", "_"): str(one.envvar) for one in ctx.command.params
               if isinstance(one, click.Option) and one.envvar}
    own, group = f"{ctx.auto_envvar_prefix}_", f"{ctx.parent.auto_envvar_prefix}_"
    commands = [f"{up.auto_envvar_prefix}_{name.upper().replace('-', '_')}_"
                for up in {ctx.parent, ctx.find_root()} if isinstance(up.command, Group)
                for name in up.command.list_commands(up)]
    for name in sorted({one for one in os.environ if one.startswith("BMTOOLS_")}
                       - {*options.values()}):
        owner = max(filter(name.startswith, commands), key=len, default="")
        if owner == own:
            key = name.removeprefix(own).lower()
            raise click.UsageError(f"{name}: found unknown option {key!r}, "
                                   f"{_meant(key, options, 'the name of an option')}", ctx)
        near = difflib.get_close_matches(name, options.values(), 1, _NEAR_VARIABLE)
        if owner == group or (near and not owner):
            raise click.UsageError(f"{name}: found no command of this name, expected "
                                   f"{near[0] if near else own + 'OPTION'}", ctx)


def _meant(name: str, known: Iterable[str], expected: str) -> str:
    return did_you_mean(name, known) or f"expected {expected}"


def read_config(ctx: click.Context, _param: click.Parameter, path: Path | None) -> None:
    """Read defaults from a TOML file: its top-level keys and the tables of the command.

    For a subcommand, keys of `[finetune]` are read first, then keys of `[ner]` and of
    `[finetune.ner]`; later values override earlier ones.
    """
    if path is None:
        return
    from bmtools.recipes.toml import parse_toml

    try:
        content = path.read_bytes()
        tables = [*_tables(parse_toml(content, str(path)))]
    except DataError as error:
        raise click.UsageError(str(error), ctx) from error
    lines = _lines(content.decode("utf-8"))
    words = ctx.command_path.split()[1:] or [ctx.command.name or ""]
    own = list(dict.fromkeys(["", *words[:-1], words[-1], " ".join(words)]))
    given: dict[tuple[int, str], tuple[str, str, object]] = {}
    for header, table in tables:
        name = " ".join(header).replace("_", "-")
        if name in own:
            for key, value in table.items():
                place = f"{path}:{lines[*header, key]}" if (*header, key) in lines else str(path)
                at = own.index(name), key.replace("-", "_")
                if at in given:
                    raise click.UsageError(f"{place}: found the key {key!r} twice, "
                                           "expected it once", ctx)
                given[at] = place, key, value
        elif name not in (known := _command_names(ctx)):
            place = f"{path}:{lines[header]}" if header in lines else str(path)
            raise click.UsageError(f"{place}: found unknown table [{'.'.join(header)}], "
                                   f"{_meant(name, known, 'the name of a command')}", ctx)
    options = {long_name(one).replace("-", "_"): one for one in ctx.command.params
               if isinstance(one, click.Option)}
    for (_, name), (place, *_) in given.items():
        if name not in options:
            raise click.UsageError(f"{place}: found unknown key {name!r}, "
                                   f"{suggestion(name, sorted(options))}", ctx)
    ctx.default_map, ctx.meta[_CONFIG] = {}, {}
    for (_, name), (place, key, value) in sorted(given.items(), key=lambda one: one[0][0]):
        try:
            found = _option_value(options[name], key, value)
        except ValueError as error:
            raise click.UsageError(f"{place}: {error}", ctx) from error
        if found is not None:
            ctx.default_map[options[name].name] = found
            ctx.meta[_CONFIG][options[name].name] = f"{place}: key {key!r}"


def _option_value(option: click.Option, key: str, value: object) -> object:
    """Convert a value of a TOML file for an option; None means that the option is not given.

    Raises:
        ValueError: the value has a different type than the option.
    """
    from bmtools.recipes.toml import TEXT, convert_value

    name = f"key {key!r}"
    if option.multiple:
        return convert_value(name, [value] if isinstance(value, str) else value, list[str])
    if option.is_flag:
        is_given = convert_value(name, value, bool)
        return is_given if option.is_bool_flag else option.flag_value if is_given else None
    kinds = {click.types.IntParamType: int, click.types.FloatParamType: float,
             click.types.StringParamType: TEXT}
    kind = next((kinds[one] for one in type(option.type).__mro__ if one in kinds), str)
    found = convert_value(name, value, kind)
    return str(found) if kind is TEXT else found


def _tables(content: JsonObject, header: tuple[str, ...] = ()) -> Iterator[
        tuple[tuple[str, ...], JsonObject]]:
    """Yield the path and the keys of each table, the top-level keys first."""
    yield header, {key: value for key, value in content.items() if not isinstance(value, dict)}
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _tables(value, (*header, key))


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line numbers of table headers and keys, by their path in a TOML file."""
    import tomllib

    lines: dict[tuple[str, ...], int] = {}
    header: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        bracket = re.match(r"\s*(\[[^][]+\])", line)
        with suppress(tomllib.TOMLDecodeError):  # the line continues a value
            part = tomllib.loads(bracket[1] if bracket else f"{line.partition('=')[0]}= 0")
            path: tuple[str, ...] = ()
            while isinstance(part, dict) and part:
                (key, part), = part.items()
                path = (*path, key)
            header = path if bracket else header
            lines.setdefault(path if bracket else (*header, *path), number)
    return lines


def _command_names(ctx: click.Context) -> list[str]:
    """List the names that a table may have: `import`, `import text`, `text` ..."""
    root = ctx.find_root()
    names = root.command.command_names(root) if isinstance(root.command, Group) else []
    return [*names, *(name.partition(" ")[2] for name in names if " " in name)]


def message_by_origin(error: click.UsageError) -> str | None:
    """Describe a wrong value from the environment or a file, using the name that it has there.

    Returns:
        None for a value from the command line.
    """
    ctx = error.ctx
    if ctx is None:
        return None
    if isinstance(error, click.BadParameter):
        param, fault = error.param, error.message.removesuffix(".")
        for pattern, wording in _READABLE:
            if re.fullmatch(pattern, fault):
                fault = re.sub(pattern, wording, fault)
                break
    else:
        flag, _, fault = error.message.partition(": ")
        param = next((one for one in ctx.command.params if flag in one.opts), None)
    origin = _origin(ctx, param) if isinstance(param, click.Option) else ""
    return f"{origin}: {fault}" if origin else None


def _origin(ctx: click.Context, option: click.Option) -> str:
    """Return the variable or key that an option's value comes from; empty for other origins."""
    source = ctx.get_parameter_source(option.name or "")
    if source is ParameterSource.ENVIRONMENT:
        return str(option.envvar)
    return ctx.meta[_CONFIG][option.name] if source is ParameterSource.DEFAULT_MAP else ""
