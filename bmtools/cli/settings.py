"""Options made from settings, so that names, types, defaults and help are defined once."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import Field, fields
from functools import partial
from pathlib import Path
from typing import Any

import click

from bmtools.cli.help import Choice, KeyOption, SettingOption
from bmtools.cli.options import Decorator, Function, Values, add_options, together
from bmtools.cli.parameters import InputDirectory, InputFile, InputPath
from bmtools.cli.step import CommandStep
from bmtools.errors import choices
from bmtools.models.device import check_device
from bmtools.settings import Settings

_PATHS = {"model": InputDirectory(), "tokenizer": InputDirectory(),
          "memory": InputFile(Path, allow_dash=False),
          "glossary": InputFile(Path, allow_dash=False)}
"""Types of settings that name files or directories and whose type is not `Path`."""
_KEYS = """
    schedule warmup_ratio warmup_steps decay_ratio min_lr_ratio optimizer weight_decay
    adam_beta1 adam_beta2 adam_epsilon max_grad_norm dropout tf32 compile
    activation_checkpointing deterministic layer_decay mixout mixout_scope mixout_gradient l2_sp
    frozen_layers dev_fold decay_to_best head_layers head_size head_dropout label_pieces
    overlapping oversampling max_answer_tokens whole_words no_relation_label
    placeholders pooling
    null_score_diff_threshold key_variable answer_tokens
    retries timeout_seconds layer edges lost calibration pairing
    model_licence max_source_tokens prompt
    other_languages translate_mentions ray_cores
    focus_window focus_dim focus_min_count focus_max_tokens
    min_frequency max_alphabet unicode split_digits
    labels_separator label_names quoting
    header delimiter row token_column personal_kinds min_characters permutations
    words_per_band min_count min_letters
    single_token_words context_characters neighbours projection
"""
KEYS = frozenset(_KEYS.split())
"""Settings for papers and rare cases, which have no option; use `--set KEY=VALUE`."""


def takes_settings(kind: type[Settings], parameter: str, without: Sequence[str] = (),
                   **defaults: Any) -> Decorator:
    """Add an option for each field of settings; the function gets an instance.

    Args:
        kind: the settings.
        parameter: the function's parameter that receives the instance.
        without: fields that this command does not use; they keep their defaults.
        defaults: values that replace the fields' defaults in this command.
    """
    def convert(_step: CommandStep, values: Values) -> None:
        values[parameter] = kind(**{field.name: values.pop(field.name)
                                    for field in fields(kind) if field.name not in without})

    return partial(add_options, [partial(with_options, kind=kind, without=without, **defaults)],
                   convert)


def takes_values(*kinds: type[Settings], without: Sequence[str] = ()) -> Decorator:
    """Add an option for each field of settings; the function gets separate values.

    Args:
        kinds: the settings.
        without: fields that get no option.
    """
    return together(*(partial(with_options, kind=kind, without=without) for kind in kinds))


def with_options(function: Function, kind: type[Settings], without: Sequence[str] = (),
                 **defaults: object) -> Function:
    """Add an option for each field of settings; the function gets separate values.

    Args:
        function: function that click calls.
        kind: the settings.
        without: fields that get no option.
        defaults: values that replace the fields' defaults in this command.
    """
    types = typing.get_type_hints(kind)
    for field in reversed(fields(kind)):
        if field.name not in without:
            function = _option(field, types[field.name], kind.title,
                               defaults.get(field.name, field.default))(function)
    return function


def _option(field: Field[Any], annotation: Any, group: str, default: object) -> Decorator:
    flag = "--" + field.name.replace("_", "-")
    listed = [choice for choice in choices(annotation) if choice is not None]
    is_flag = bool in (annotation, *typing.get_args(annotation))
    return click.option(
        f"{flag}/--no-{flag[2:]}" if is_flag and not flag.startswith("--no-") else flag,
        field.name, cls=KeyOption if field.name in KEYS else SettingOption, group=group,
        is_flag=is_flag, default=default,
        type=Choice(listed) if listed else _value_type(field.name, annotation),
        show_default=True,
        metavar=field.metadata["metavar"]
        or ("PATH" if Path in typing.get_args(annotation) else None),
        callback=_check_device if field.name == "device" else None,
        help=field.metadata["help"])


def _value_type(name: str, annotation: Any) -> Any:
    """Return the type of an option's values: float for `float | None`."""
    if name in _PATHS:
        return _PATHS[name]
    kind = next((part for part in typing.get_args(annotation) if part is not type(None)),
                annotation)
    return InputPath(Path, exists=False) if kind is Path else kind


def _check_device(_ctx: click.Context, param: click.Parameter, name: str) -> str:
    if name != "same":
        check_device(name, str(param.name))
    return name
