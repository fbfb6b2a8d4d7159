"""Settings: frozen dataclasses whose fields hold the defaults and the help of options."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

from bmtools.errors import check_values, require

Value = TypeVar("Value")
_BOUNDS = {"least": (operator.ge, "{} or more"), "above": (operator.gt, "above {}"),
           "most": (operator.le, "at most {}"), "below": (operator.lt, "less than {}")}


class UnknownSettingError(ValueError, TypeError):
    """An unknown keyword: a ValueError like other wrong settings, and a TypeError as in Python."""


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Settings:
    """Base class of settings; it makes each subclass a frozen dataclass.

    Args:
        title: heading of the subclass's options in help; given as a keyword of the class.
    """

    title = ""  # without an annotation, which would make it a field

    def __init_subclass__(cls, title: str) -> None:
        cls.title = title
        dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        """Raise an error for values of a wrong type, outside the choices or out of bounds."""
        check_values(self)
        for one in fields(self):
            found, bounds = getattr(self, one.name), one.metadata.get("bounds", {})
            if not isinstance(found, int | float):
                continue
            if not bounds.keys() & {"least", "above"}:
                bounds = {"least": 0, **bounds}
            expected = ", ".join(_BOUNDS[kind][1].format(limit) for kind, limit in bounds.items())
            require(all(_BOUNDS[kind][0](found, limit) for kind, limit in bounds.items()),
                    one.name, found, expected.replace(" or more, at most", " to").replace(
                        " or more, less than", " to below"))


def option(default: Value, help: str, metavar: str | None = None, **bounds: float) -> Value:
    """Declare a field of settings that becomes an option.

    Args:
        default: default of the field and of the option.
        help: meaning of the value, in sentences; names of other settings are in backticks.
        metavar: name of a value that is text, such as FILE.
        bounds: limits of a number: `least` (default 0) or `above`, and `most` or `below`.
    """
    return field(default=default, metadata={"help": help, "metavar": metavar, "bounds": bounds})


def split_settings(settings: Mapping[str, object], *kinds: Any) -> list[Any]:
    """Sort keyword settings into the dataclasses that have a field with their name.

    Returns:
        an instance of each dataclass; fields without a keyword keep their defaults.

    Raises:
        ValueError: a keyword is unknown, or a value has a wrong type or is out of range.
    """
    known = [{field.name for field in fields(kind)} for kind in kinds]
    unknown = sorted(set(settings).difference(*known))
    if unknown:
        raise UnknownSettingError(f"found {', '.join(unknown)}, expected some of "
                                  f"{', '.join(sorted(set().union(*known)))}")
    return [kind(**{name: settings[name] for name in names & set(settings)})
            for kind, names in zip(kinds, known, strict=True)]
