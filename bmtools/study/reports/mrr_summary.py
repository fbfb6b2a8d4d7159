"""Masked words under all models: collected, selected and summarized for reports of score-mrr."""

from __future__ import annotations

import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bmtools.errors import DataError, setting
from bmtools.records import JsonMapping, JsonObject
from bmtools.study.reports.labels import short_names

if TYPE_CHECKING:
    from bmtools.scoring.mrr import MaskScore

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class MrrItem:
    """One masked word under all models.

    Args:
        name: id of the record.
        text: the sentence with [MASK].
        target: the word behind the mask.
        domain: subject of the sentence, if known.
        ranks: of the word among the proposals, from 1, one per model; None where it has none.
        reciprocal_ranks: as they count for the score, one per model; not a number where a model
            leaves the word out.
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
    def counted(self) -> bool:
        """Whether all models count it."""
        return not any(map(math.isnan, self.reciprocal_ranks))

    @property
    def spread(self) -> float:
        """Difference between the best and the worst reciprocal rank."""
        return max(self.reciprocal_ranks) - min(self.reciprocal_ranks)


class MrrCollector:
    """Collector of scores, word by word; keeps all of them in memory.

    Args:
        models: number of predictors to collect, from the first; 0 collects nothing.
    """

    def __init__(self, models: int) -> None:
        self._items: list[MrrItem] = []
        self._models = models
        self._scores: list[MaskScore] = []

    def add(self, score: MaskScore) -> None:
        """Add a score; those of one masked word follow each other, in order of models."""
        if score.predictor >= self._models:
            return
        self._scores.append(score)
        if len(self._scores) == self._models:
            record = score.record
            columns = ((one.rank, one.reciprocal_rank, one.proposals) for one in self._scores)
            self._items.append(MrrItem(str(record.get("id")), record["text"], record["target"],
                                      record.get("domain"), *zip(*columns, strict=True)))
            self._scores = []

    @property
    def items(self) -> list[MrrItem]:
        """Masked words that all models count."""
        return [item for item in self._items if item.counted]

    def word_lines(self, models: Sequence[str]) -> Iterator[JsonObject]:
        """Summarize the maskings of each word, in order of appearance.

        Yields:
            lines: `word`; number of `maskings`; `mrr` by model, over those that it counts; `found`:
            never, always (first under all models, in each masking) or sometimes, over those that
            all models count, or skipped where there are none.
        """
        by_word: defaultdict[str, list[MrrItem]] = defaultdict(list)
        for item in self._items:
            by_word[item.target].append(item)
        for word, items in by_word.items():
            columns = zip(*(item.reciprocal_ranks for item in items), strict=True)
            yield {"word": word, "maskings": len(items),
                   "found": _found([value for item in items if item.counted
                                    for value in item.reciprocal_ranks]),
                   "mrr": {model: _mean_counted(column)
                           for model, column in zip(models, columns, strict=True)}}


def _found(values: Sequence[float]) -> str:
    if not values:
        return "skipped"
    return "never" if not any(values) else "always" if min(values) == 1 else "sometimes"


def _mean_counted(values: Sequence[float]) -> float | None:
    counted = [value for value in values if not math.isnan(value)]
    return round(sum(counted) / len(counted), _DIGITS) if counted else None


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
    lines: list[JsonMapping]
    estimates: list[MrrEstimate]
    groups: dict[str, dict[str, list[MrrEstimate | None]]]
    top: int
    shown: MrrItem
    auto_shown: bool

    @classmethod
    def of(cls, items: Sequence[MrrItem], models: Sequence[str],
           lines: Sequence[JsonMapping], top: int = 5,
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
        by_model = {line.get("model"): line for line in lines}
        model_lines = [by_model.get(model, {}) for model in models]
        means = [_read_estimate(line) or _mean(items, number)
                 for number, line in enumerate(model_lines)]
        return cls(items, models, short_names(models), model_lines, means,
                   _by_group(items, model_lines), top, shown,
                   shown is chosen and shown.spread > 0)


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
    agreeing = [item for item in items if not item.spread]
    return ItemsByAgreement([item for item in items if item.spread],
                            [item for item in agreeing if item.reciprocal_ranks[0]],
                            [item for item in agreeing if not item.reciprocal_ranks[0]])


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
    # Vocabularies may fold case and accents, and mark pieces within a word.
    piece, target = ("".join(sign for sign in unicodedata.normalize(
        "NFD", text.strip().removeprefix("##")) if not unicodedata.combining(sign)).casefold()
        for text in (proposals[rank - 1][0], item.target))
    return rank - 1 if piece and target.startswith(piece) else None


def _by_group(items: Sequence[MrrItem], lines: Sequence[JsonMapping],
              ) -> dict[str, dict[str, list[MrrEstimate | None]]]:
    """Read estimates by group from the models' lines, as `by[kind][group][model]`.

    Domains come from the items where no line has them.
    """
    kinds: defaultdict[str, dict[str, list[MrrEstimate | None]]] = defaultdict(dict)
    for number, line in enumerate(lines):
        for kind, groups in (line.get("by") or {}).items():
            for group, entry in groups.items() if isinstance(groups, Mapping) else ():
                row = kinds[kind].setdefault(str(group), [None] * len(lines))
                row[number] = _read_estimate(entry)
    if not kinds.get("domain"):
        members: defaultdict[str, list[MrrItem]] = defaultdict(list)
        for item in items:
            if item.domain:
                members[item.domain].append(item)
        kinds["domain"] = {domain: [_mean(group, number) for number in range(len(lines))]
                           for domain, group in members.items()}
    return {kind: groups for kind, groups in kinds.items() if groups}


def _mean(items: Sequence[MrrItem], model: int) -> MrrEstimate:
    total = sum(item.reciprocal_ranks[model] for item in items)
    return MrrEstimate(total / len(items), None, len(items))


def _read_estimate(entry: object) -> MrrEstimate | None:
    """Read an object that has `mrr`, or a bare number; None where it is neither."""
    if not isinstance(entry, Mapping):
        return MrrEstimate(float(entry)) if isinstance(entry, int | float) else None
    if not isinstance(entry.get("mrr"), int | float):
        return None
    interval = entry.get("interval")
    low_high = (float(interval[0]), float(interval[1])) if interval else None
    return MrrEstimate(float(entry["mrr"]), low_high, entry.get("maskings", entry.get("count")))
