"""Options made from settings dataclasses: names, types, defaults and help have one home."""

from __future__ import annotations

import dataclasses
import functools
import re
import typing
from collections.abc import Callable
from typing import Any, TypeVar

import click

from bmtools.errors import choices

Function = TypeVar("Function", bound=Callable[..., Any])


def takes_settings(kind: type, parameter: str, **defaults: Any) -> Callable[[Function], Function]:
    """Add an option for each field of a dataclass; the function gets an instance.

    Args:
        kind: frozen dataclass whose docstring describes its fields under `Args:`.
        parameter: the function's parameter that receives the instance.
        defaults: values that this command prefers to the fields' own.
    """
    fields = dataclasses.fields(kind)

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def wrapper(*args: Any, **options: Any) -> Any:
            chosen = {field.name: options.pop(field.name) for field in fields}
            try:
                settings = kind(**chosen)
            except ValueError as error:
                raise click.UsageError(str(error), click.get_current_context()) from error
            return function(*args, **{parameter: settings}, **options)

        return with_options(wrapper, kind, **defaults)

    return decorate


def with_options(function: Any, kind: type, **defaults: Any) -> Any:
    """Add an option for each field of a dataclass; the function gets plain values.

    Args:
        function: what click calls.
        kind: frozen dataclass whose docstring describes its fields under `Args:`.
        defaults: values that this command prefers to the fields' own.
    """
    explained = _field_help(kind)
    types = typing.get_type_hints(kind)
    for field in reversed(dataclasses.fields(kind)):
        flag = "--" + field.name.replace("_", "-")
        spelled = f"{flag}/--no-{flag[2:]}" if types[field.name] is bool else flag
        function = click.option(
            spelled, field.name, default=defaults.get(field.name, field.default),
            type=option_type(types[field.name]), show_default=True,
            help=explained[field.name])(function)
    return function


def option_type(annotation: Any) -> Any:
    """Turn a field's type into click's; a `Literal` lists its choices in help and completion."""
    found = [choice for choice in choices(annotation) if choice is not None]
    return click.Choice(found) if found else annotation


def _field_help(kind: type) -> dict[str, str]:
    """Read a docstring's `Args:` section: name to description, first letter capital."""
    section = (kind.__doc__ or "").partition("Args:\n")[2]
    found = re.findall(r"^        (\w+): (.+(?:\n {9,}.+)*)", section, re.MULTILINE)
    joined = {name: " ".join(text.split()).replace("`", "") for name, text in found}
    return {name: text[0].upper() + text[1:] for name, text in joined.items()}
