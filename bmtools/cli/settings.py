"""Options made from settings dataclasses: names, types, defaults and help have one home."""

from __future__ import annotations

import dataclasses
import re
import typing
from functools import partial
from typing import Any

import click

from bmtools.cli.options import OptionGroup, option_group, usage_errors
from bmtools.errors import choices


def takes_settings(kind: type, parameter: str, **defaults: Any) -> OptionGroup:
    """Add an option for each field of a dataclass; the function gets an instance.

    Args:
        kind: frozen dataclass whose docstring describes its fields under `Args:`.
        parameter: the function's parameter that receives the instance.
        defaults: values that this command prefers to the fields' own.
    """
    names = [field.name for field in dataclasses.fields(kind)]

    @option_group(partial(with_options, kind=kind, **defaults))
    def convert(values: dict[str, Any]) -> None:
        with usage_errors():
            values[parameter] = kind(**{name: values.pop(name) for name in names})

    return convert


def with_options(function: Any, kind: type, **defaults: Any) -> Any:
    """Add an option for each field of a dataclass; the function gets plain values.

    Args:
        function: what click calls.
        kind: frozen dataclass whose docstring describes its fields under `Args:`.
        defaults: values that this command prefers to the fields' own.
    """
    section = (kind.__doc__ or "").partition("Args:\n")[2]
    help_texts = {name: " ".join(text.split()).replace("`", "") for name, text in
                  re.findall(r"^        (\w+): (.+(?:\n {9,}.+)*)", section, re.MULTILINE)}
    types = typing.get_type_hints(kind)
    for field in reversed(dataclasses.fields(kind)):
        flag = "--" + field.name.replace("_", "-")
        spelled = f"{flag}/--no-{flag[2:]}" if types[field.name] is bool else flag
        function = click.option(
            spelled, field.name, default=defaults.get(field.name, field.default),
            type=option_type(types[field.name]), show_default=True,
            help=help_texts[field.name][0].upper() + help_texts[field.name][1:])(function)
    return function


def option_type(annotation: Any) -> Any:
    """Turn a field's type into click's; a `Literal` lists its choices in help and completion."""
    found = [choice for choice in choices(annotation) if choice is not None]
    return click.Choice(found) if found else annotation
