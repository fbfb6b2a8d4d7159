"""Names of models, numbers and texts as charts and pages spell them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from bmtools.errors import without_controls
from bmtools.records import JsonMapping
from bmtools.values import format_cell

BASELINE = "frequency of "
"""Beginning of the name of a baseline, before the path of its text."""
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
_METRICS = re.compile(r"\b(f1|mrr|pppl|mlm|rmse)\b")
_TIMES = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_SIZES = {1e6: "TB", 1e3: "GB", 1.0: "MB", 1e-3: "kB"}  # by megabytes
DASH = "\N{EN DASH}"


def short_names(models: Sequence[str]) -> list[str]:
    """Name each model by as few last parts of its path as distinguish it from the others.

    Models of one path are numbered.
    """
    parts = [model.rstrip("/").split("/") for model in models]
    names: list[str] = []
    seen: Counter[str] = Counter()
    for model, own in zip(models, parts, strict=True):
        distinct = next((count for count in range(1, len(own)) if all(
            other == own or other[-count:] != own[-count:] for other in parts)), len(own))
        name = without_controls("/".join(own[-distinct:]) or model)
        if model.startswith(BASELINE) and not name.startswith(BASELINE):
            name = BASELINE + name
        seen[name] += 1
        names.append(f"{name} ({seen[name]})" if seen[name] > 1 else name)
    return names


def model_names(lines: Iterable[JsonMapping]) -> list[str]:
    """Name the model of each line as `short_names` does."""
    return short_names([line["model"] for line in lines])


def names_of(models: Iterable[str]) -> dict[str, str]:
    """Name models as `short_names` does, each once."""
    distinct = list(dict.fromkeys(models))
    return dict(zip(distinct, short_names(distinct), strict=True))


def words_of(key: str) -> str:
    """Spell a key of a line as words; names of metrics as papers do."""
    return _METRICS.sub(lambda name: name[0].upper(), key.replace("_", " "))


class Seconds(float):
    """A time in a table."""


class Megabytes(float):
    """A size in a table."""


class Best(float):
    """The best score of a row or column."""


def spell(value: object) -> str:
    """Spell a cell: times and sizes with their units, other numbers with about four digits."""
    if isinstance(value, Megabytes):
        unit = next((one for one in _SIZES if value >= one), min(_SIZES))
        return f"{value / unit:.{1 if value < 100 * unit else 0}f} {_SIZES[unit]}"
    return duration(value) if isinstance(value, Seconds) else format_cell(value)


def duration(seconds: float) -> str:
    """Spell a time in its two largest units: `4.3 s`, `3 min 5 s`, `2 d 7 h`."""
    whole = round(seconds)
    for (size, unit), (part, smaller) in pairwise(_TIMES):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {smaller}"
    return f"{seconds:.2g} s"


def short(value: float) -> str:
    """Spell a number of an axis: 1.5M, 20k, 0.25."""
    for size, sign in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{sign}"
    return f"{value:.4g}"


def truncate(text: str, width: int) -> str:
    """Cut a printable text to `width` characters, the last of them an ellipsis."""
    text = without_controls(text)
    return text if len(text) <= width else text[:width - 1] + _ELLIPSIS


def wrap_name(name: str, width: int) -> str:
    """Break a name into two lines at most, after separators and without the middle of a long one.

    Args:
        name: of a model or a value.
        width: letters in a line.
    """
    name = without_controls(name)
    if len(name) <= width:
        return name
    end = max(name.rfind(sign, 0, width) for sign in "/_.- ") + 1 or width
    rest = name[end:]
    return f"{name[:end]}\n{rest if len(rest) <= width else _ELLIPSIS + rest[1 - width:]}"
