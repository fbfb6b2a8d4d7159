"""How charts and pages write names of models, numbers and texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from bmtools.errors import without_controls
from bmtools.records import JsonMapping

BASELINE = "frequency of "
"""Prefix of the name of a baseline; the path of its text follows."""
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
_METRICS = re.compile(r"\b(f1|mrr|pppl|mlm|rmse)\b")
DASH = "\N{EN DASH}"


def short_names(models: Sequence[str]) -> list[str]:
    """Shorten each path of a model to the shortest end that distinguishes it from the others.

    Models with the same path are numbered.
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
    """Return the short name of the model of each line, see `short_names`."""
    return short_names([line["model"] for line in lines])


def names_of(models: Iterable[str]) -> dict[str, str]:
    """Return the short name of each distinct model, see `short_names`."""
    distinct = list(dict.fromkeys(models))
    return dict(zip(distinct, short_names(distinct), strict=True))


def words_of(key: str) -> str:
    """Write a key of a line as words, and names of metrics such as F1 in capitals."""
    return _METRICS.sub(lambda name: name[0].upper(), key.replace("_", " "))


class Best(float):
    """The best score of a row or column, which a page shows in bold."""


def short(value: float) -> str:
    """Format a number for an axis: 1.5M, 20k, 0.25."""
    for size, sign in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{sign}"
    return f"{value:.4g}"


def truncate(text: str, width: int) -> str:
    """Remove control characters, and shorten the text to `width` characters with an ellipsis."""
    text = without_controls(text)
    return text if len(text) <= width else text[:width - 1] + _ELLIPSIS


def wrap_name(name: str, width: int) -> str:
    """Break a name after a separator into at most two lines; replace the middle by an ellipsis.

    Args:
        name: name of a model or a value.
        width: maximum number of characters in a line.
    """
    name = without_controls(name)
    if len(name) <= width:
        return name
    end = max(name.rfind(sign, 0, width) for sign in "/_.- ") + 1 or width
    rest = name[end:]
    return f"{name[:end]}\n{rest if len(rest) <= width else _ELLIPSIS + rest[1 - width:]}"
