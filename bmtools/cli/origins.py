"""Origins of options' values: wrong ones are named by their variable or their TOML key."""

from __future__ import annotations

import re
from pathlib import Path

import click
from click.core import ParameterSource

CONFIG = "bmtools.cli.origins.config"
"""Key of the context for the TOML file that gave defaults, and the key of each parameter."""
_READABLE = (
    (r"(.+) is not a valid (?:integer|int)\b.*", r"found \1, expected a whole number"),
    (r"(.+) is not a valid float\b.*", r"found \1, expected a number"),
    (r"(.+) is not a valid boolean\b.*", r"found \1, expected true or false"),
    (r"(.+) is not one of (.+)", r"found \1, expected one of \2"),
    (r"(.+) is not in the range (.+)", r"found \1, expected a number in the range \2"),
)


def key_place(path: Path, text: str, key: str) -> str:
    """Return `file:line` of a key in a TOML file; the file alone where the key is there twice."""
    lines = [number for number, line in enumerate(text.splitlines(), 1)
             if re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line)]
    return f"{path}:{lines[0]}" if len(lines) == 1 else str(path)


def message_by_origin(error: click.UsageError) -> str | None:
    """Say what is wrong with a value from the environment or a file, by the name that it has there.

    Returns:
        None for what the command line itself says.
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
    """Name the variable or the key that an option's value comes from; empty for other origins."""
    source = ctx.get_parameter_source(option.name or "")
    if source is ParameterSource.ENVIRONMENT:
        return str(option.envvar)
    if source is ParameterSource.DEFAULT_MAP and CONFIG in ctx.meta:
        path, keys = ctx.meta[CONFIG]
        key = keys[option.name]
        return f"{key_place(path, path.read_text(encoding='utf-8'), key)}: key {key!r}"
    return ""
