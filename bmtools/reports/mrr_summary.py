"""Selections, counts and estimates that the report of score-mrr shows."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bmtools.errors import DataError, setting
from bmtools.reports.labels import DASH, ordinal, short_names
from bmtools.reports.mrr_collector import MrrItem

_BOUNDS = (1, 2, 3, 4, 5, 10, 20, 50, 100)


class MrrEstimate(NamedTuple):
    """A mean reciprocal rank, with its interval and number of maskings where known."""

    mrr: float
    interval: tuple[float, float] | None = None
    maskings: int | None = None

    @property
    def upper(self) -> float:
        """Upper end of the interval, or the mean itself."""
        return max(self.mrr, *self.interval or (0,))


@dataclass(frozen=True, slots=True)
class MrrSummary:
    """Content of a report, whatever its form.

    Args:
        items: masked words, each under all models.
        models: names or paths.
        names: short names of the models.
        lines: each model's line of scores, empty where there is none.
        estimates: one per model.
        groups: estimates by kind of group, then by group, one per model.
        top: last rank that counts.
        shown: the item shown in detail.
        auto_shown: whether `shown` was chosen for its spread.
    """

    items: Sequence[MrrItem]
    models: Sequence[str]
    names: list[str]
    lines: list[Mapping[str, Any]]
    estimates: list[MrrEstimate]
    groups: dict[str, dict[str, list[MrrEstimate | None]]]
    top: int
    shown: MrrItem
    auto_shown: bool

    @classmethod
    def of(cls, items: Sequence[MrrItem], models: Sequence[str],
           lines: Sequence[Mapping[str, Any]], top: int = 5,
           sentence: str | None = None) -> MrrSummary:
        """Summarize items and lines of scores.

        Args:
            items: each under all models; at least one.
            models: names or paths, in the order of the items' ranks.
            lines: scores as the command prints them; missing numbers are left out or counted
                from the items.
            top: last rank that counts.
            sentence: id of the item to show in detail; None chooses one.

        Raises:
            DataError: there are no items, or none has the id.
        """
        if not items:
            raise DataError(f"{setting('plot')}: found no masked words, expected at least one")
        shown, chosen = choose_item(items, sentence), choose_item(items)
        own_lines = lines_of(models, lines)
        return cls(items, models, short_names(models), own_lines, estimates(items, own_lines),
                   by_group(items, own_lines), top, shown, shown is chosen and shown.spread > 0)


class ItemsByAgreement(NamedTuple):
    """Items by whether the models agree, each list in the order given.

    Args:
        changing: different ranks under the models.
        steady: found by all models, at one rank.
        never: found by none.
    """

    changing: list[MrrItem]
    steady: list[MrrItem]
    never: list[MrrItem]


def sort_by_agreement(items: Sequence[MrrItem]) -> ItemsByAgreement:
    """Split items by whether the models agree; ranks that count nothing are alike."""
    parts = ItemsByAgreement([], [], [])
    for item in items:
        if item.spread:
            parts.changing.append(item)
        elif item.reciprocal_ranks[0]:
            parts.steady.append(item)
        else:
            parts.never.append(item)
    return parts


def choose_item(items: Sequence[MrrItem], sentence: str | None = None) -> MrrItem:
    """Choose the item to show in detail.

    Args:
        items: at least one.
        sentence: id of an item. Without one: where reciprocal ranks differ most between models;
            among equals where they take the most values, then the first.

    Raises:
        DataError: no item has the id.
    """
    if sentence is None:
        return max(items, key=lambda item: (item.spread, len(set(item.reciprocal_ranks))))
    for item in items:
        if item.name == sentence:
            return item
    raise DataError(f"{setting('sentence')}: found {sentence!r}, expected the id of a masking, "
                    f"such as {items[0].name!r}")


def matching_proposal(item: MrrItem, model: int) -> int | None:
    """Find a model's proposal that is the word, or begins it, from 0; None where none is.

    The rank gives the place; a rank that was not found among single tokens matches nothing.
    """
    rank, proposals = item.ranks[model], item.proposals[model]
    if rank is None or rank > len(proposals):
        return None
    piece = _folded(proposals[rank - 1][0])
    return rank - 1 if piece and _folded(item.target).startswith(piece) else None


def _folded(text: str) -> str:
    """Remove what vocabularies may: case, accents, and the prefix of a piece within a word."""
    letters = unicodedata.normalize("NFD", text.strip().removeprefix("##"))
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).casefold()


@dataclass(frozen=True, slots=True)
class RankLevels:
    """Ranges of ranks: the first five one by one, later ones together, then all beyond `top`.

    Args:
        top: last rank that counts.
    """

    top: int

    @property
    def bounds(self) -> list[int]:
        """Last rank of each level but the one beyond."""
        return [bound for bound in _BOUNDS if bound < self.top] + [self.top]

    @property
    def names(self) -> list[str]:
        """Label of each level."""
        starts = [1, *(bound + 1 for bound in self.bounds)]
        return [ordinal(last) if first == last else f"{ordinal(first)}{DASH}{ordinal(last)}"
                for first, last in zip(starts, self.bounds, strict=False)] + ["beyond"]

    def find(self, rank: int | None) -> int:
        """Number the level of a rank, from 0."""
        return len(self.bounds) if rank is None else bisect_left(self.bounds, rank)


def count_flow(items: Sequence[MrrItem], before: int, after: int,
               levels: RankLevels) -> Counter[tuple[int, int]]:
    """Count items by their levels under two models."""
    return Counter((levels.find(item.ranks[before]), levels.find(item.ranks[after]))
                   for item in items)


def estimates(items: Sequence[MrrItem], lines: Sequence[Mapping[str, Any]]) -> list[MrrEstimate]:
    """Read each model's estimate from its line, or take the plain mean where there is none."""
    return [read_estimate(line) or _mean(items, number) for number, line in enumerate(lines)]


def by_group(items: Sequence[MrrItem], lines: Sequence[Mapping[str, Any]],
             ) -> dict[str, dict[str, list[MrrEstimate | None]]]:
    """Read estimates by group from the models' lines, as `by[kind][group][model]`.

    Domains come from the items where no line has them.
    """
    kinds: defaultdict[str, dict[str, list[MrrEstimate | None]]] = defaultdict(dict)
    for number, line in enumerate(lines):
        for kind, groups in _mapping(line.get("by")).items():
            for group, entry in _mapping(groups).items():
                row = kinds[kind].setdefault(str(group), [None] * len(lines))
                row[number] = read_estimate(entry)
    if not kinds.get("domain"):
        kinds["domain"] = _by_domain(items, len(lines))
    return {kind: groups for kind, groups in kinds.items() if groups}


def _by_domain(items: Sequence[MrrItem], models: int) -> dict[str, list[MrrEstimate | None]]:
    members: defaultdict[str, list[MrrItem]] = defaultdict(list)
    for item in items:
        if item.domain:
            members[item.domain].append(item)
    return {domain: [_mean(group, number) for number in range(models)]
            for domain, group in members.items()}


def _mean(items: Sequence[MrrItem], model: int) -> MrrEstimate:
    total = sum(item.reciprocal_ranks[model] for item in items)
    return MrrEstimate(total / len(items), None, len(items))


def read_estimate(entry: Any) -> MrrEstimate | None:
    """Read an object that has `mrr`, or a bare number; None where it is neither."""
    if not isinstance(entry, Mapping):
        return MrrEstimate(float(entry)) if isinstance(entry, int | float) else None
    if not isinstance(entry.get("mrr"), int | float):
        return None
    interval = entry.get("interval")
    low_high = (float(interval[0]), float(interval[1])) if interval else None
    return MrrEstimate(float(entry["mrr"]), low_high, entry.get("maskings", entry.get("count")))


def lines_of(models: Sequence[str],
             lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Find each model's line; an empty one where it has none."""
    named = {line.get("model"): line for line in lines}
    return [named.get(model, {}) for model in models]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
