"""Options made from settings dataclasses: names, types, defaults and help have one home."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from bmtools.cli.options import add_options
from bmtools.errors import choices


def takes_settings(kind: type, parameter: str, **defaults: Any) -> Callable[..., Any]:
    """Add an option for each field of a dataclass; the function gets an instance.

    Args:
        kind: frozen dataclass whose docstring describes its fields under `Args:`.
        parameter: the function's parameter that receives the instance.
        defaults: values that this command prefers to the fields' own.
    """
    def convert(values: dict[str, Any]) -> None:
        values[parameter] = kind(**{field.name: values.pop(field.name)
                                    for field in dataclasses.fields(kind)})

    return partial(add_options, [partial(with_options, kind=kind, **defaults)], convert)


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
        annotation, help_text = types[field.name], help_texts[field.name]
        flag = "--" + field.name.replace("_", "-")
        listed = [choice for choice in choices(annotation) if choice is not None]
        function = click.option(
            f"{flag}/--no-{flag[2:]}" if annotation is bool else flag, field.name,
            type=click.Choice(listed) if listed else annotation, show_default=True,
            default=defaults.get(field.name, field.default),
            help=help_text[0].upper() + help_text[1:])(function)
    return function
