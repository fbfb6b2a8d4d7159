"""Options made from settings dataclasses: names, types, defaults and help have one home."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import click

from bmtools.cli.help import Choice, SettingOption
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
    title, section = (kind.__doc__ or "").split("\n", 1)
    help_texts = dict(re.findall(r"^        (\w+): (.+(?:\n {9,}.+)*)",
                                 section.partition("Args:\n")[2], re.MULTILINE))
    types = typing.get_type_hints(kind)
    for field in reversed(dataclasses.fields(kind)):
        annotation = types[field.name]
        flag = "--" + field.name.replace("_", "-")
        listed = [choice for choice in choices(annotation) if choice is not None]
        function = click.option(
            f"{flag}/--no-{flag[2:]}" if annotation is bool else flag, field.name,
            cls=SettingOption, group=re.split(r" \(|[:;]", title)[0].rstrip("."),
            type=Choice(listed) if listed else annotation, show_default=True,
            default=defaults.get(field.name, field.default),
            help=_sentence(help_texts[field.name], listed, help_texts))(function)
    return function


def _sentence(text: str, values: Sequence[str], settings: Iterable[str]) -> str:
    """Begin with a capital letter, but for a value; write settings in backticks as flags."""
    text = " ".join(text.split())
    for name in settings:
        text = text.replace(f"`{name}`", f"--{name.replace('_', '-')}")
    text = text.replace("`", "")
    begins_with_value = re.split(r"[ ,:;]", text)[0] in values
    return text if begins_with_value else text[0].upper() + text[1:]
