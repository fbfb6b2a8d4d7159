"""Contexts of words: sentences sampled uniformly in one pass over text of any size.

Source: Pavlova and Makhlouf 2023 (BIOptimus), section 3 and figure 2. Their program, qik-find, was
never published.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from heapq import heappush, heapreplace
from itertools import islice
from os import PathLike
from typing import IO

import msgspec
import numpy as np

from bmtools.errors import DataError, RecordError, setting
from bmtools.io.jsonl import Block, RecordReader
from bmtools.io.output import temporary_file
from bmtools.io.parts import read_blocks
from bmtools.io.workers import map_parallel
from bmtools.keyed_random import derive
from bmtools.records import JsonObject, Record
from bmtools.text.case_folding import Folding
from bmtools.text.matching import Matcher, Matches
from bmtools.text.reservoir import HIGHEST, Hit, Reservoir, Stretch, word_keys
from bmtools.text.segment import Span, stretch_spans, stretches
from bmtools.text.settings import ContextConfig
from bmtools.text.word_lists import StrPath, WordList, choose_words

_KEPT_KEYS = ("lang", "source", "licence")


@dataclass(frozen=True)
class FoundBlock:
    """Results of searching a block.

    Args:
        words: numbers of the words that occur.
        counts: how often each of these words occurs.
        stretches: candidates for the sample, in order.
        characters: number of characters read.
        rejects: errors of bad records.
    """

    words: np.ndarray
    counts: np.ndarray
    stretches: list[Stretch]
    characters: int
    rejects: list[RecordError]


Progress = Callable[[Iterator[FoundBlock]], Iterable[FoundBlock]]
"""Function that passes on blocks of a megabyte of text each, to show progress."""


class ContextSample:
    """Sample of sentences.

    Args:
        words: words that are searched for.
        config: settings of the sample.
        spool: empty file, closed with the sample.

    Attributes:
        occurrences: (words,) how often each word occurs in the text.
        reservoir: stretches with sampled sentences.
    """

    def __init__(self, words: tuple[str, ...], config: ContextConfig, spool: IO[bytes]) -> None:
        self._words = words
        self._config = config
        self.occurrences = np.zeros(len(words), dtype=np.int64)
        self.reservoir = Reservoir(len(words), config.max_sentences, spool)
        weakref.finalize(self, spool.close)

    def sentences(self) -> Iterator[JsonObject]:
        """Yield each sentence once, in the order of the text, with its sampled words."""
        for start, line, hits in self.reservoir.sampled():
            record = msgspec.json.decode(line)
            text, name = record["text"], record["id"]
            spans = stretch_spans(text, record.get("lang") or self._config.lang)
            begins = [begin for begin, _ in spans]
            targets: dict[Span, list[JsonObject]] = {}
            for first, last, word in hits:
                span = spans[bisect_right(begins, first) - 1]
                targets.setdefault(span, []).append(
                    {"word": self._words[word], "start": first - span[0], "end": last - span[0]})
            for (begin, end), found in targets.items():
                yield {**record, "id": f"{name}#{start + begin}", "text": text[begin:end],
                       "targets": found}

    def report(self) -> Iterator[JsonObject]:
        """Yield for each word how often it occurs and how many sentences were sampled."""
        for number, word in enumerate(self._words):
            yield {"word": word, "occurrences": int(self.occurrences[number]),
                   "sampled": self.reservoir.size(number)}

    def summary(self) -> dict[str, int]:
        """Count the words, the words that occur, and their occurrences."""
        return {"words": len(self._words), "found": int(np.count_nonzero(self.occurrences)),
                "occurrences": int(self.occurrences.sum())}


def find_contexts(records: RecordReader | StrPath | Iterable[StrPath],
                  words: WordList | StrPath | Iterable[str] | None = None,
                  config: ContextConfig = ContextConfig(), *,  # noqa: B008 (frozen)
                  tokenizer: StrPath | None = None, base: StrPath | None = None,
                  uncased: bool = False, processes: int = 1,
                  progress: Progress = iter) -> ContextSample:
    """Sample, for each word, up to `config.max_sentences` of the sentences that contain it.

    All sentences with a word have the same chance, however often they contain it. A repeated
    sentence counts each time. The sample does not depend on the number of processes or the size of
    blocks, and the sample of a word does not depend on the other words. Only texts are searched,
    not titles. Memory contains some megabytes of text and, for each sampled sentence, a few
    numbers. Candidates are kept in a temporary file, which grows with the logarithm of the text: to
    80 MB for 10,000 words in 220 MB of abstracts.

    Args:
        records: one or several files of records; a reader's `reject` receives bad records, and its
            `hashes` are filled.
        words: words to search for, or a file with one word per line; by default the words of
            `tokenizer`.
        config: settings of the sample.
        tokenizer: tokenizer or checkpoint whose rule folds case and accents.
        base: tokenizer or checkpoint whose words are left out.
        uncased: ignore case, if no tokenizer is given.
        processes: number of processes that search; 0 for one per core, 1 to use this process.
        progress: passes blocks of text on, to show progress.

    Raises:
        DataError: there is no text, or there are no words.
        BmtoolsError: a process died.
    """
    targets = words if isinstance(words, WordList) \
        else choose_words(words, tokenizer, base, uncased)
    if not isinstance(records, RecordReader):
        names = [records] if isinstance(records, str | PathLike) else records
        records = RecordReader([str(name) for name in names])
    sample = ContextSample(targets.words, config, temporary_file())
    characters = 0
    blocks = map_parallel(read_blocks(records), partial(BlockFinder, targets, config),
                        processes, f"try again with fewer {setting('workers')}")
    with closing(blocks):
        for block in progress(blocks):
            for error in block.rejects:
                records.reject(error)
            sample.occurrences[block.words] += block.counts
            characters += block.characters
            for stretch in block.stretches:
                sample.reservoir.offer(stretch)
    if not characters and not records.allow_empty:
        raise DataError("no text in the input; expected records with some text")
    return sample


class BlockFinder:
    """Search of a block for words and for stretches that may be sampled.

    Priorities are derived from positions of words, and the sample keeps the lowest. The finder
    remembers the priorities that it offered, so it can drop positions that cannot enter the sample.
    Only the first position of a word in a sentence counts. If a word occurs once in a stretch, the
    stretch need not be split into sentences to find the first position.

    Args:
        targets: words to search for.
        config: settings of the sample.
    """

    def __init__(self, targets: WordList, config: ContextConfig) -> None:
        self._config = config
        self._matcher = Matcher(targets.folded, Folding(targets.rule))
        self._keys = word_keys(targets.folded, config.seed)
        self._is_long = [" " in word for word in targets.folded]
        self._lowest: list[list[int]] = [[] for _ in targets.words]
        self._limits = np.full(len(targets.words), HIGHEST, dtype=np.uint64)

    def __call__(self, block: Block) -> FoundBlock:
        rejects: list[RecordError] = []
        records = list(block.records(rejects.append))
        documents = block.first_line + np.array([*map(block.line_of, records)], dtype=np.int64)
        matches = self._matcher.find([record["text"] for record in records])
        counts = np.bincount(matches.words, minlength=len(self._keys))
        words = np.flatnonzero(counts)
        characters = sum(len(record["text"].strip()) for record in records)
        candidates = self._candidates(records, documents + block.earlier_lines, matches)
        return FoundBlock(words, counts[words], list(candidates), characters, rejects)

    def _candidates(self, records: Sequence[Record], documents: np.ndarray,
                    matches: Matches) -> Iterator[Stretch]:
        priorities = derive(self._keys[matches.words], documents[matches.texts], matches.starts)
        chosen = np.flatnonzero(priorities < self._limits[matches.words])
        columns = (matches.words, priorities, matches.starts, matches.ends, _previous(matches))
        hits = zip(*(column[chosen].tolist() for column in columns), strict=True)
        numbers, counts = np.unique(matches.texts[chosen], return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            yield from self._of_record(records[number], islice(hits, count))

    def _of_record(self, record: JsonObject,
                   hits: Iterable[tuple[int, int, int, int, int]]) -> Iterator[Stretch]:
        """Yield the stretches of a record with a word that may still enter the sample."""
        text = record["text"]
        offered: dict[Span, list[Hit]] = {}
        sentences: dict[Span, list[Span]] = {}
        rest = iter(stretches(text))
        begin, stop = next(rest)
        for word, priority, start, end, before in hits:
            while start >= stop:
                begin, stop = next(rest)
            is_first = before < begin and end <= stop and not self._is_long[word]
            if not is_first:
                if (begin, stop) not in sentences:
                    spans = stretch_spans(text[begin:stop], record.get("lang") or self._config.lang)
                    sentences[begin, stop] = [(begin + first, begin + last)
                                              for first, last in spans]
                is_first = any(first <= start and end <= last and before < first
                               for first, last in sentences[begin, stop])
            if is_first and self._enters(word, priority):
                offered.setdefault((begin, stop), []).append(
                    (word, priority, start - begin, end - begin))
        kept = {key: record[key] for key in _KEPT_KEYS if key in record}
        for (begin, stop), found in offered.items():
            content = {"id": record["id"], "text": text[begin:stop], **kept}
            yield Stretch(begin, msgspec.json.encode(content) + b"\n", found)

    def _enters(self, word: int, priority: int) -> bool:
        """Add a priority if it is among the word's lowest; return whether it was added."""
        lowest = self._lowest[word]
        if len(lowest) < self._config.max_sentences:
            heappush(lowest, -priority)
        elif priority < -lowest[0]:
            heapreplace(lowest, -priority)
        else:
            return False
        if len(lowest) == self._config.max_sentences:
            self._limits[word] = -lowest[0]
        return True


def _previous(matches: Matches) -> np.ndarray:
    """Find each word's previous start in its text, (matches,) int64; -1 for the first match."""
    names = matches.texts.astype(np.int64) << 32 | matches.words
    order = np.argsort(names, kind="stable")
    again = np.flatnonzero(names[order[1:]] == names[order[:-1]])
    found = np.full(len(names), -1, dtype=np.int64)
    found[order[again + 1]] = matches.starts[order[again]]
    return found
