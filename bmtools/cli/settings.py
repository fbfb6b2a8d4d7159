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
from bmtools.models.device import check_device

_DEVICES = ("device", "teacher_device")
# Values of options that take text, by field.
_METAVARS = {
    "format": "NAME,...", "lang": "CODE", "segmenter": "NAME", "device": "auto|cpu|cuda[:N]",
    "layers": "last|all|N,...", "teacher_cache": "DIR", "teacher_device": "same|cpu|cuda[:N]",
    "terms": "FILE", "candidates": "N,...", "compare": "METHOD,...", "budget": "TIME",
    "trackers": "NAME,...", "frozen": "NAME,...", "masking": "UNIT,...", "mask_rate": "X,...",
    "corruption": "M/R/S,...", "merge_types": "NAME", "negative": "LABEL", "predicted": "KEY",
    "types": "NAME,...", "seed_list": "N,...", "grid": "NAME=X,...", "task": "NAME",
    "grow": "LAYERSxWIDTH|NAME",
    "size": "100MB,...", "words": "N,...", "records": "N,...", "share": "X,...", "by": "KEY",
    "bands": "N,...", "weights": "NAME=X,...", "keys": "KEY,...",
    "ratios": "X,X,X", "counts": "N,N,N", "stratify": "KEY",
    "label_names": "VALUE=LABEL,...", "delimiter": "CHARACTER|tab", "labels_separator": "CHARACTER",
    "head_types": "NAME,...", "tail_types": "NAME,...", "no_relation_label": "LABEL",
    "checks": "all|none|NAME,...", "protect_kinds": "KIND,...",
    "repairs": "basic|all|none|NAME,...", "languages": "declared|CODE,...",
    "licences": "commercial|NAME,...", "personal_kinds": "basic|all|NAME,...",
    "placeholders": "NAMES", "markers": "NAMES",
    **dict.fromkeys((f"{key}_column" for key in (
        "text", "text_pair", "question", "label", "labels", "score", "id", "document")), "COLUMN")}


def takes_settings(kind: type, parameter: str, without: Sequence[str] = (),
                   **defaults: Any) -> Callable[..., Any]:
    """Add an option for each field of a dataclass; the function gets an instance.

    Args:
        kind: frozen dataclass whose docstring describes its fields under `Args:`.
        parameter: the function's parameter that receives the instance.
        without: fields that mean nothing to this command and keep their defaults.
        defaults: values that this command prefers to the fields' own.
    """
    def convert(values: dict[str, Any]) -> None:
        values[parameter] = kind(**{field.name: values.pop(field.name)
                                    for field in dataclasses.fields(kind)
                                    if field.name not in without})

    return partial(add_options, [partial(with_options, kind=kind, without=without, **defaults)],
                   convert)


def with_options(function: Any, kind: type, without: Sequence[str] = (), **defaults: Any) -> Any:
    """Add an option for each field of a dataclass; the function gets plain values.

    Args:
        function: what click calls.
        kind: frozen dataclass whose docstring describes its fields under `Args:`.
        without: fields that get no option.
        defaults: values that this command prefers to the fields' own.
    """
    title = (kind.__doc__ or "").partition("\n")[0]
    sections = [(one.__doc__ or "").partition("Args:\n")[2] for one in reversed(kind.__mro__)]
    help_texts = dict(re.findall(r"^        (\w+): (.+(?:\n {9,}.+)*)", "\n".join(sections),
                                 re.MULTILINE))
    types = typing.get_type_hints(kind)
    for field in reversed(dataclasses.fields(kind)):
        if field.name in without:
            continue
        annotation = types[field.name]
        flag = "--" + field.name.replace("_", "-")
        listed = [choice for choice in choices(annotation) if choice is not None]
        function = click.option(
            f"{flag}/--no-{flag[2:]}" if annotation is bool and not flag.startswith("--no-")
            else flag, field.name, cls=SettingOption, group=_group_title(title),
            is_flag=annotation is bool,
            type=Choice(listed) if listed else _value_type(annotation), show_default=True,
            metavar=_METAVARS.get(field.name) if annotation is str else None,
            default=defaults.get(field.name, field.default),
            callback=_check_device if field.name in _DEVICES else None,
            help=_sentence(help_texts[field.name], listed, help_texts))(function)
    return function


def _value_type(annotation: Any) -> Any:
    """Name the type of an option's values: that of `float | None` is float."""
    return next((part for part in typing.get_args(annotation) if part is not type(None)),
                annotation)


def _group_title(line: str) -> str:
    """Shorten the first line of a dataclass's docstring to the title of its options."""
    title = re.split(r" \(|[:;]", line)[0].rstrip(".").removeprefix("Settings of ")
    return title[0].upper() + title[1:]


def _sentence(text: str, values: Sequence[str], settings: Iterable[str]) -> str:
    """Begin with a capital letter, but for a value; write settings in backticks as flags."""
    text = " ".join(text.split())
    for name in settings:
        text = text.replace(f"`{name}`", f"--{name.replace('_', '-')}")
    text = text.replace("`", "")
    begins_with_value = re.split(r"[ ,:;]", text)[0] in values
    return text if begins_with_value else text[0].upper() + text[1:]


def _check_device(_ctx: click.Context, param: click.Parameter, name: str) -> str:
    if name != "same":
        check_device(name, str(param.name))
    return name
