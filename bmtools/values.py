"""Values and headings for people: rounded numbers with units and separators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

Value: TypeAlias = "str | float | Sequence[Value] | Mapping[str, Value] | None"
"""A value of a result line: a scalar, a list, or values by name."""
NOTHING = "-"
_SIZES = {1e6: "TB", 1e3: "GB", 1.0: "MB", 1e-3: "kB"}  # units by their size in megabytes
_TIMES = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_SHARES = ("accuracy", "precision", "recall", "f1", "share", "ratio", "rate", "hits_at_1",
           "hits_at_5", "hits_at_10", "jaccard", "coverage", "probability", "utilisation",
           "words_masked", "whole_words", "specificity")
_NO_SHARES = ("learning_rate",)
_HEADINGS = {
    "mlm_accuracy": "accuracy", "tokens_per_second": "tokens/s", "bits_per_character": "bits/char",
    "bits_per_word": "bits/word", "nats_per_token": "nats/token", "seconds_left": "left",
    "seconds": "took", "wall_seconds": "took", "tokens_seen": "tokens", "p_holm": "p (Holm)",
    "p_over_seeds_holm": "p over seeds (Holm)", "model_flop_utilisation": "of peak",
    "perplexity_sd": "sd over draws"}
_PLAIN_INTEGERS = ("seed", "best_seed", "year", "id")


class Seconds(float):
    """A duration in a table."""


class Megabytes(float):
    """A size in a table."""


def heading(name: str) -> str:
    """Return the heading for a key: "dev f1" for `dev.f1`."""
    *before, last = name.split(".")
    return " ".join([*before, _HEADINGS.get(last, last)]).replace("_", " ")


def format_figure(name: str, value: Value) -> str:
    """Format the value of a key: three significant digits, separators, shares as percentages.

    Args:
        name: the key, including dots.
        value: a scalar, a list, `{"mean": ..., "deviation": ...}`, or counts by name.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return _format_mapping(name, value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return (" - " if name == "compared" else ", ").join(
            format_figure(name, item) for item in value)
    last = name.rpartition(".")[2]
    if isinstance(value, str):
        return heading(value) if last == "metric" else value
    if last.endswith(("seconds", "seconds_left", "hours")):
        return format_duration(value * (3600 if last.endswith("hours") else 1))
    if is_share(last) and isinstance(value, float):
        return f"{three_digits(100 * value)}%"
    if isinstance(value, int):
        return str(value) if last in _PLAIN_INTEGERS else f"{value:,}"
    return three_digits(value)


def format_estimate(name: str, value: Value, bounds: Sequence[Value] | None) -> str:
    """Format a value with its interval: `1.23 [1.10, 1.40]`."""
    if not bounds or value is None:
        return format_figure(name, value)
    low, high = (format_figure(name, bound) for bound in bounds)
    return f"{format_figure(name, value)} [{low}, {high}]"


def is_share(name: str) -> bool:
    """Return whether a key's value is a share of something, 0 to 1."""
    return name not in _NO_SHARES and name.endswith(_SHARES)


def three_digits(value: float) -> str:
    """Round to three significant digits; round values from a thousand to whole numbers."""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    if abs(rounded) >= 1000:
        return f"{value:,.0f}"
    if abs(rounded) < 1e-4:
        return f"{rounded:.3g}"
    return f"{rounded:.{max(0, 2 - math.floor(math.log10(abs(rounded))))}f}"


def format_cell(value: object) -> str:
    """Format a cell: durations and sizes with units, numbers with about four digits, None as ""."""
    if isinstance(value, Megabytes):
        unit = next((one for one in _SIZES if value >= one), min(_SIZES))
        return f"{value / unit:.{1 if value < 100 * unit else 0}f} {_SIZES[unit]}"
    if isinstance(value, Seconds):
        return format_duration(value)
    if isinstance(value, float):
        if abs(value) >= 10000:
            return f"{value:,.0f}"
        if 0 < abs(value) < 0.001:
            return f"{value:.2g}"
        return f"{value:.4g}" if abs(value) >= 1 else f"{value:.3f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)


def format_duration(seconds: float) -> str:
    """Format a duration in its two largest units: `6.4 ms`, `4.3 s`, `3 min 5 s`."""
    whole = round(seconds)
    for (size, unit), (part, smaller) in pairwise(_TIMES):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {smaller}"
    return f"{1000 * seconds:.2g} ms" if 0 < seconds < 0.0995 else f"{seconds:.2g} s"


def _format_mapping(name: str, value: Mapping[str, Value]) -> str:
    if {"mean", "deviation"} <= set(value):
        mean, deviation = (format_figure(name, value[key]) for key in ("mean", "deviation"))
        return mean if value["deviation"] is None else f"{mean.removesuffix('%')} ± {deviation}"
    return ", ".join(f"{key} {format_figure(key, one)}" for key, one in value.items())
