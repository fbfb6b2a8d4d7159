"""Names, ranks, probabilities and texts as plots and pages spell them."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence

from bmtools.errors import without_controls
from bmtools.records import JsonMapping

BASELINE = "frequency of "
"""Beginning of the name of a baseline, before the path of its text."""
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
DASH = "\N{EN DASH}"


def short_names(models: Sequence[str]) -> list[str]:
    """Name each model by as few last parts of its path as tell it from the others.

    Models of one path are numbered.
    """
    parts = [model.rstrip("/").split("/") for model in models]
    names: list[str] = []
    seen: Counter[str] = Counter()
    for model, own in zip(models, parts, strict=True):
        distinct = next((count for count in range(1, len(own)) if all(
            other == own or other[-count:] != own[-count:] for other in parts)), len(own))
        name = printable("/".join(own[-distinct:]) or model)
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
    """Spell a key of a line as words."""
    return key.replace("_", " ")


def figure(value: float | str) -> str:
    """Spell a number with as many digits as can be read at a glance; words stay."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, str):
        return value
    if abs(value) >= 10000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 1e-4 else f"{value:.2g}"


def printable(text: str) -> str:
    """Replace what `without_controls` does, and show white space that is alone."""
    spelled = without_controls(text)
    return spelled if spelled.strip() else "\N{OPEN BOX}" * max(len(spelled), 1)


def ordinal(number: int | None) -> str:
    """Spell a rank: 1st, 2nd, 11th; a dash where it is missing."""
    if number is None:
        return DASH
    last = 0 if number // 10 % 10 == 1 else number % 10
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th')}"


def percent(share: float) -> str:
    """Spell a probability in percent, with a decimal where it is small."""
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{share:.0%}" if share >= 0.0995 or not share else f"{share:.1%}"


def excerpt(text: str, mark: str, width: int) -> str:
    """Keep a mark and `width` characters on either side, with an ellipsis for the rest."""
    before, found, after = text.partition(mark)
    if len(before) > width:
        before = ELLIPSIS + before[-width:].lstrip()
    if len(after) > width:
        after = after[:width].rstrip() + ELLIPSIS
    return before + found + after


def truncate(text: str, width: int) -> str:
    """Cut a text to `width` characters, the last of them an ellipsis."""
    return text if len(text) <= width else text[:width - 1] + ELLIPSIS


def truncate_start(text: str, width: int) -> str:
    """Keep the last `width` characters of a text, behind an ellipsis."""
    return text if len(text) <= width else ELLIPSIS + text[-width:]


def wrap_path(name: str, width: int, max_lines: int = 4) -> str:
    """Break a path after its separators, and leave out the middle of long ones.

    Args:
        name: path or name of a model.
        width: characters in a line.
        max_lines: lines that are kept.
    """
    lines = [""]
    for part in re.findall(r"[^/_.\- ]*[/_.\- ]|[^/_.\- ]+", name):
        for piece in textwrap.wrap(part, width, drop_whitespace=False):
            if len(lines[-1]) + len(piece) > width:
                lines.append("")
            lines[-1] += piece
    if len(lines) > max_lines:
        lines = [lines[0], ELLIPSIS + lines[1 - max_lines], *lines[2 - max_lines:]]
    return "\n".join(lines)
