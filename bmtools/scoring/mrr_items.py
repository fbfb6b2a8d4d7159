"""Maskings under several models, and what can be said of them before anything is drawn."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bmtools.errors import DataError

_BOUNDS = (1, 2, 3, 4, 5, 10, 20, 50, 100)


@dataclass(frozen=True, slots=True)
class MrrItem:
    """One masking under all models.

    Args:
        name: id of the masking.
        text: the sentence with [MASK].
        target: the word behind it.
        domain: what the sentence is about, if known.
        ranks: places of the word from 1, one per model; None where it is not found.
        reciprocal_ranks: what counts for the score, one per model.
        proposals: best tokens with their probabilities, best first, one list per model.
    """

    name: str
    text: str
    target: str
    domain: str | None
    ranks: tuple[int | None, ...]
    reciprocal_ranks: tuple[float, ...]
    proposals: tuple[tuple[tuple[str, float], ...], ...]

    @property
    def spread(self) -> float:
        """Difference between the best and the worst reciprocal rank."""
        return max(self.reciprocal_ranks) - min(self.reciprocal_ranks)

    def marked(self, model: int) -> int | None:
        """Say which of a model's proposals is the word, or begins it; None where none is.

        The rank says where; a rank that was not found among single tokens marks nothing.
        """
        rank, proposals = self.ranks[model], self.proposals[model]
        if rank is None or rank > len(proposals):
            return None
        piece = _folded(proposals[rank - 1][0])
        return rank - 1 if piece and _folded(self.target).startswith(piece) else None


class ItemsByAgreement(NamedTuple):
    """Maskings by what models make of them, each in the order given.

    Args:
        changing: the rank is not the same under all models.
        steady: found by all models, at one rank.
        never: found by none.
    """

    changing: list[MrrItem]
    steady: list[MrrItem]
    never: list[MrrItem]


def sort_by_agreement(maskings: Sequence[MrrItem]) -> ItemsByAgreement:
    """Part maskings by whether models agree; ranks that count nothing are all alike."""
    parts = ItemsByAgreement([], [], [])
    for masking in maskings:
        if masking.spread:
            parts.changing.append(masking)
        elif masking.reciprocal_ranks[0]:
            parts.steady.append(masking)
        else:
            parts.never.append(masking)
    return parts


def choose_item(maskings: Sequence[MrrItem], sentence: str | None = None) -> MrrItem:
    """Choose the masking to show in detail.

    Args:
        sentence: id of a masking. Without one: where reciprocal ranks differ most between
            models; among equals where they take the most values, then the first.

    Raises:
        DataError: no masking has the id.
    """
    if sentence is None:
        return max(maskings, key=lambda masking: (masking.spread,
                                                  len(set(masking.reciprocal_ranks))))
    for masking in maskings:
        if masking.name == sentence:
            return masking
    raise DataError(f"--sentence: found {sentence!r}, expected the id of a masking, such as "
                    f"{maskings[0].name!r}")


@dataclass(frozen=True, slots=True)
class Levels:
    """Ranks as steps: the first five one by one, later ones in ranges, then all beyond `top`.

    Args:
        top: last rank that counts.
    """

    top: int

    @property
    def bounds(self) -> list[int]:
        """Last rank of each step but the one beyond."""
        return [bound for bound in _BOUNDS if bound < self.top] + [self.top]

    @property
    def names(self) -> list[str]:
        """What to call each step."""
        starts = [1, *(bound + 1 for bound in self.bounds)]
        return [ordinal(last) if first == last else f"{ordinal(first)}\N{EN DASH}{ordinal(last)}"
                for first, last in zip(starts, self.bounds, strict=False)] + ["beyond"]

    def find(self, rank: int | None) -> int:
        """Number the step of a rank, from 0."""
        return len(self.bounds) if rank is None else bisect_left(self.bounds, rank)


def flow(maskings: Sequence[MrrItem], before: int, after: int, levels: Levels) -> Counter[
        tuple[int, int]]:
    """Count maskings by their steps under two models."""
    return Counter((levels.find(masking.ranks[before]), levels.find(masking.ranks[after]))
                   for masking in maskings)


class Score(NamedTuple):
    """A mean reciprocal rank, the interval around it and the maskings behind it, where known."""

    mrr: float
    interval: tuple[float, float] | None = None
    maskings: int | None = None


def overall(maskings: Sequence[MrrItem], models: Sequence[str],
            lines: Sequence[Mapping[str, Any]]) -> list[Score]:
    """Give each model's score: its line's, or the plain mean where there is none."""
    found = [read_score(line) for line in lines_of(models, lines)]
    return [score or _mean(maskings, number) for number, score in enumerate(found)]


def by_group(maskings: Sequence[MrrItem], models: Sequence[str],
             lines: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[Score | None]]]:
    """Give scores by what lines tell apart, as `by[kind][group][model]`.

    Domains come from the maskings where no line has them.
    """
    kinds: defaultdict[str, dict[str, list[Score | None]]] = defaultdict(dict)
    for number, line in enumerate(lines_of(models, lines)):
        for kind, groups in _mapping(line.get("by")).items():
            for group, entry in _mapping(groups).items():
                row = kinds[kind].setdefault(str(group), [None] * len(models))
                row[number] = read_score(entry)
    if not kinds.get("domain"):
        domains = _by_domain(maskings, len(models))
        if domains:
            kinds["domain"] = domains
    return {kind: groups for kind, groups in kinds.items() if groups}


def _by_domain(maskings: Sequence[MrrItem], models: int) -> dict[str, list[Score | None]]:
    members: defaultdict[str, list[MrrItem]] = defaultdict(list)
    for masking in maskings:
        if masking.domain:
            members[masking.domain].append(masking)
    return {domain: [_mean(group, number) for number in range(models)]
            for domain, group in members.items()}


def _mean(maskings: Sequence[MrrItem], model: int) -> Score:
    total = sum(masking.reciprocal_ranks[model] for masking in maskings)
    return Score(total / len(maskings), None, len(maskings))


def read_score(entry: Any) -> Score | None:
    """Read a score from an object that has `mrr`, or a bare number; None where it is neither."""
    if not isinstance(entry, Mapping):
        return Score(float(entry)) if isinstance(entry, int | float) else None
    if not isinstance(entry.get("mrr"), int | float):
        return None
    interval = entry.get("interval")
    low_high = (float(interval[0]), float(interval[1])) if interval else None
    return Score(float(entry["mrr"]), low_high, entry.get("maskings", entry.get("count")))


def lines_of(models: Sequence[str],
             lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Find each model's line; an empty one where it has none."""
    named = {line.get("model"): line for line in lines}
    return [named.get(model, {}) for model in models]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def short_names(models: Sequence[str]) -> list[str]:
    """Call each model by the last part of its path, or by the whole where others share the part.

    Models of one path are numbered.
    """
    lasts = [model.rstrip("/").rpartition("/")[2] or model for model in models]
    shared = Counter(lasts)
    names = [visible(model if shared[last] > 1 else last)
             for model, last in zip(models, lasts, strict=True)]
    seen: Counter[str] = Counter()
    for number, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[number] = f"{name} ({seen[name]})"
    return names


def visible(text: str) -> str:
    """Spell text so that every character can be printed and stand in XML."""
    spelled = "".join(_visible(character) for character in text)
    return spelled if spelled.strip() else "\N{OPEN BOX}" * max(len(spelled), 1)


def _visible(character: str) -> str:
    if character.isspace():
        return " "
    # Control characters, halves of surrogate pairs and what is no character.
    if unicodedata.category(character) in {"Cc", "Cs", "Cn"}:
        return "\N{REPLACEMENT CHARACTER}"
    return character


def ordinal(number: int) -> str:
    """Spell a rank: 1st, 2nd, 11th."""
    last = 0 if number // 10 % 10 == 1 else number % 10
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th')}"


def rank_text(rank: int | None) -> str:
    """Spell a rank that may be missing."""
    return "\N{EN DASH}" if rank is None else ordinal(rank)


def percent(share: float) -> str:
    """Spell a probability in percent, with a decimal where it is small."""
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{share:.0%}" if share >= 0.0995 or not share else f"{share:.1%}"


def _folded(text: str) -> str:
    """Leave out what vocabularies do: case, accents, and the mark of a piece within a word."""
    letters = unicodedata.normalize("NFD", text.strip().removeprefix("##"))
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).casefold()


def around(text: str, mark: str, width: int) -> str:
    """Cut what stands far from a mark, with an ellipsis where something was cut."""
    before, found, after = text.partition(mark)
    if len(before) > width:
        before = "\N{HORIZONTAL ELLIPSIS}" + before[-width:].lstrip()
    if len(after) > width:
        after = after[:width].rstrip() + "\N{HORIZONTAL ELLIPSIS}"
    return before + found + after
