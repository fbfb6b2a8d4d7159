"""Contamination: records of a corpus that share runs of words with evaluation texts.

Source: Brown et al. 2020 (GPT-3), appendix C: runs of 13 words, lower-cased and without
punctuation, or shorter texts as one run, down to 8 words. Departure: one shared run is enough, and
runs that are common in the corpus also count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from bmtools.corpus.duplicates.settings import ContaminationConfig
from bmtools.corpus.duplicates.words import Words, batches, fold_texts, run_hashes
from bmtools.corpus.record_files import as_lines, read_texts
from bmtools.errors import DataError, Reject, refuse, setting
from bmtools.io.jsonl import Block, as_records
from bmtools.io.output import encode_lines
from bmtools.io.workers import Outcome
from bmtools.records import MASK, Record, RecordSource
from bmtools.settings import split_settings
from bmtools.text.hashing import HashIndex

_RECORDS = 100  # number of records searched together


@dataclass(frozen=True)
class Hit:
    """An evaluation text that shares runs of words with a record.

    Args:
        id: id of the record.
        evaluation: id of the evaluation record.
        place: file and line of the evaluation record.
        ngram: the first shared run, folded.
        shared: number of distinct shared runs.
        share: share of the evaluation text's runs.
    """

    id: str
    evaluation: str
    place: str
    ngram: str
    shared: int
    share: float


@dataclass(frozen=True, eq=False)
class EvaluationRuns:
    """Hashes of word runs in evaluation texts.

    Args:
        runs: by size in words, ascending: hashes of the runs, (runs,) uint64, and the number of
            each run's text, (runs,). A run of several texts occurs once for each text.
        counts: (texts,) number of distinct runs.
        names: id and place of each text's record.
        short: number of texts with too few words for the search.
    """

    runs: dict[int, tuple[np.ndarray, np.ndarray]]
    counts: np.ndarray
    names: list[tuple[str, str]]
    short: int

    @classmethod
    def of(cls, records: Iterable[Record], config: ContaminationConfig) -> EvaluationRuns:
        """Hash the runs of records, using only the first of equal texts.

        Raises:
            DataError: all texts are too short.
        """
        found: dict[str, tuple[str, str]] = {}
        files: dict[str, None] = {}
        for record in records:
            files[record.place.rpartition(":")[0]] = None
            for text in _texts(record, config.key_list):
                found.setdefault(text, (record["id"], record.place))
        words = Words.of(fold_texts([*found]))
        lengths = np.diff(words.offsets)
        sizes = np.minimum(lengths, config.ngram_words)
        is_long = (lengths >= min(config.least_words, config.ngram_words)) & (lengths > 0)
        if not is_long.any():
            raise DataError(
                f"{', '.join(files)}: found no text with at least {config.least_words} words under "
                f"{config.keys}; change {setting('least_words')} or {setting('keys')}")
        runs: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for size, own in run_hashes(words.hashes, np.unique(sizes[is_long]).tolist()):
            numbers = np.flatnonzero(is_long & (sizes == size))
            parts = [np.unique(own[words.offsets[number]:words.offsets[number + 1] - size + 1])
                     for number in numbers.tolist()]
            runs[size] = np.concatenate(parts), numbers.repeat([*map(len, parts)])
        counts = np.bincount(np.concatenate([texts for _, texts in runs.values()]),
                             minlength=len(found))
        return cls(runs, counts, [*found.values()], int((~is_long).sum()))


def _texts(record: Record, keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        text = record.get(key)
        if isinstance(text, str):
            yield text.replace(MASK, str(record.get("target") or MASK))


class ContaminationFinder:
    """Worker that finds contaminated records in blocks.

    Args:
        runs: runs of the evaluation texts.
        config: settings.
    """

    def __init__(self, runs: EvaluationRuns, config: ContaminationConfig | None = None) -> None:
        self._runs, self._config = runs, config or ContaminationConfig()
        self._indices = {size: HashIndex(hashes) for size, (hashes, _) in runs.runs.items()}

    def __call__(self, block: Block) -> Iterator[Outcome]:
        """Yield the outcome of a block; hits go to the second file."""
        outcome = Outcome()
        ids, texts, places = read_texts(block, outcome.reject)
        hits = [(first + number, hit) for first, end in batches(texts)
                for number, hit in self.find(ids[first:end], texts[first:end])]
        contaminated = {number for number, _ in hits}
        lines = block.lines.splitlines(keepends=True)
        kept = [lines[place] for number, place in enumerate(places.tolist())
                if self._config.action == "report" or number not in contaminated]
        outcome.lines = as_lines(kept)
        outcome.records = len(kept)
        outcome.aside = encode_lines([hit for _, hit in hits])
        outcome.counts = Counter(all=len(ids), contaminated=len(contaminated))
        outcome.counts.update({f"{hit.place} {hit.evaluation}" for _, hit in hits})
        yield outcome

    def find(self, ids: Sequence[str], texts: Sequence[str]) -> Iterator[tuple[int, Hit]]:
        """Yield the number of each contaminated text and its hits."""
        words = Words.of(fold_texts(texts))
        found: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}
        for size, hashes in run_hashes(words.hashes, [*self._indices]):
            index = self._indices[size]
            places, equals = index.find(hashes)
            ends = np.searchsorted(index.hashes, hashes[places], side="right")
            for first, equal, end in zip(places.tolist(), equals.tolist(), ends.tolist(),
                                         strict=True):
                text = int(np.searchsorted(words.offsets, first, side="right")) - 1
                if first + size > words.offsets[text + 1]:
                    continue  # the run continues in the next text
                for evaluation in self._runs.runs[size][1][index.order[equal:end]].tolist():
                    own = found.setdefault((text, evaluation), {})
                    own.setdefault(int(hashes[first]), (first, size))
        for (text, evaluation), own in sorted(found.items()):
            first, size = min(own.values())
            name, place = self._runs.names[evaluation]
            share = len(own) / int(self._runs.counts[evaluation])
            yield text, Hit(ids[text], name, place, words.text(first, first + size - 1),
                            len(own), round(share, 3))


def decontaminate(records: RecordSource, evaluation: RecordSource, *,
                  on_hit: Callable[[Hit], object] | None = None, reject: Reject = refuse,
                  **settings: object) -> Iterator[Record]:
    """Yield the records without evaluation texts: `decontaminate("corpus.jsonl", "test.jsonl")`.

    Args:
        records: one or several files, or dictionaries with `id` and `text`.
        evaluation: records with the texts to search for, in the same form.
        on_hit: receives each pair of a record and an evaluation text with shared runs of words.
        reject: receives bad records.
        settings: fields of `ContaminationConfig`.

    Raises:
        DataError: all evaluation texts are too short.
        ValueError: a setting is out of range.
    """
    [config] = split_settings(settings, ContaminationConfig)
    finder = ContaminationFinder(EvaluationRuns.of(as_records(evaluation, reject), config), config)
    waiting = as_records(records, reject)
    while some := list(islice(waiting, _RECORDS)):
        hits = list(finder.find([record["id"] for record in some],
                                [record["text"] for record in some]))
        for _, hit in hits:
            if on_hit:
                on_hit(hit)
        contaminated = {number for number, _ in hits} if config.action == "drop" else set()
        yield from (record for number, record in enumerate(some) if number not in contaminated)
