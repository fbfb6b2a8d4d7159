"""Contexts of words: sentences sampled uniformly in one pass over text of any size.

Source: Pavlova and Makhlouf 2023 (BIOptimus), section 3 and figure 2, whose program (qik-find) was
never published.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from heapq import heappush, heapreplace
from itertools import islice
from tempfile import TemporaryFile
from typing import Any

import msgspec
import numpy as np

from bmtools.errors import DataError, RecordError, Reject, setting
from bmtools.io.jsonl import RecordReader, parse_records
from bmtools.io.parallel import Block, map_blocks, read_blocks
from bmtools.keyed_random import derive
from bmtools.records import RecordFields
from bmtools.search.case_folding import Folding
from bmtools.search.matching import Matcher, Matches
from bmtools.search.reservoir import HIGHEST, Hit, Reservoir, Stretch, word_keys
from bmtools.search.segment import stretch_spans, stretches
from bmtools.search.settings import ContextConfig
from bmtools.search.word_lists import WordList
from bmtools.vocab.words import Segmenter

Span = tuple[int, int]
_KEPT_KEYS = ("lang", "source", "licence")
# Keys whose content is checked beyond its type.
_CHECKED_KEYS = ("entities", "relations", "answers", "target")


@dataclass(frozen=True)
class SearchTask:
    """Task of a worker; can be sent to other processes.

    Args:
        targets: words to look for.
        config: of the sample.
        segmenter: finds words in scripts without spaces.
    """

    targets: WordList
    config: ContextConfig
    segmenter: Segmenter | None = None

    def stretches(self, text: str) -> list[Span]:
        """Split a text, at little cost, where sentences surely end; the parts touch."""
        return [(0, len(text))] if self.config.unit == "record" else stretches(text)

    def sentences(self, text: str, lang: str | None) -> list[Span]:
        """Find the sentences of a stretch, in code points."""
        if self.config.unit == "record":
            return [(0, len(text))]
        return stretch_spans(text, lang or self.config.lang)


@dataclass(frozen=True)
class FoundBlock:
    """Findings of a block.

    Args:
        words: numbers of words that occur.
        counts: how often.
        stretches: candidates for the sample, in order.
        characters: read.
        rejects: place, reason and content of each bad record.
    """

    words: np.ndarray
    counts: np.ndarray
    stretches: list[Stretch]
    characters: int
    rejects: list[tuple[str, str, Any]]


Progress = Callable[[Iterator[FoundBlock]], Iterable[FoundBlock]]
"""Passes on blocks, a megabyte of text each, to show progress."""


class ContextSample:
    """Sample of sentences.

    Args:
        task: words and settings of the search.
        occurrences: (words,) how often each word occurs in the text.
        sample: stretches with sampled sentences.
    """

    def __init__(self, task: SearchTask, occurrences: np.ndarray, sample: Reservoir) -> None:
        self._task = task
        self._words = task.targets.words
        self._occurrences = occurrences
        self._sample = sample

    def sentences(self) -> Iterator[dict[str, Any]]:
        """Yield the sentences in the order of the text, each once, with their sampled words."""
        for start, line, hits in self._sample.sampled():
            record = msgspec.json.decode(line)
            text, name = record["text"], record["id"]
            for (begin, end), found in _by_span(
                    self._task.sentences(text, record.get("lang")), hits):
                targets = [{"word": self._words[word], "start": first - begin, "end": last - begin}
                           for first, last, word in found]
                if self._task.config.unit == "sentence":
                    record = {**record, "id": f"{name}#{start + begin}", "text": text[begin:end]}
                yield {**record, "targets": targets}

    def report(self) -> Iterator[dict[str, Any]]:
        """Yield for each word how often it occurs and how many sentences were sampled."""
        for number, word in enumerate(self._words):
            yield {"word": word, "occurrences": int(self._occurrences[number]),
                   "sampled": self._sample.size(number)}

    def summary(self) -> dict[str, int]:
        """Count words, those that occur, and their occurrences."""
        return {"words": len(self._words), "found": int(np.count_nonzero(self._occurrences)),
                "occurrences": int(self._occurrences.sum())}


@contextmanager
def find_contexts(records: RecordReader, targets: WordList,
                  config: ContextConfig = ContextConfig(), *,  # noqa: B008 (frozen)
                  segmenter: Segmenter | None = None, processes: int = 1,
                  progress: Progress = iter) -> Iterator[ContextSample]:
    """Sample, for each word, up to `config.max_sentences` of the sentences that contain it.

    Every sentence with a word has the same chance for it, however often the word occurs in it; a
    sentence that the text repeats counts each time. The sample is the same for any number of
    processes and any size of blocks, and for a word whatever the others. Only texts are searched,
    not titles. Memory holds some megabytes of text and, for each sampled sentence, a few numbers;
    candidates are kept in a temporary file meanwhile, which grows with the logarithm of the text:
    to 80 MB for 10,000 words in 220 MB of abstracts.

    Args:
        records: names the files; its `reject` receives bad records, its `hashes` are filled.
        targets: words to look for.
        config: of the sample.
        segmenter: finds words in scripts without spaces; is sent to the processes.
        processes: that search; 0 for one a core. One works in this process.
        progress: passes blocks of text on, to show progress.

    Yields:
        the sample, usable within the `with` block.

    Raises:
        DataError: there is no text.
        BmtoolsError: a process died.
    """
    task = SearchTask(targets, config, segmenter)
    occurrences = np.zeros(len(targets.words), dtype=np.int64)
    characters = 0
    found = map_blocks(read_blocks(records), partial(BlockFinder, task), processes,
                       f"try again with fewer {setting('processes')}")
    with TemporaryFile() as spool, closing(found):
        sample = Reservoir(len(targets.words), config.max_sentences, spool)
        for block in progress(found):
            for reject in block.rejects:
                records.reject(RecordError(*reject))
            occurrences[block.words] += block.counts
            characters += block.characters
            for stretch in block.stretches:
                sample.offer(stretch)
        if not characters:
            raise DataError("no text in the input; expected records with some text")
        yield ContextSample(task, occurrences, sample)


class BlockFinder:
    """Search of a block for words, and for the stretches that may be sampled.

    Priorities are derived from positions of words, and the sample takes the lowest. The finder
    remembers those that it offered, so that a position without a chance costs nothing more. Only
    the first position in a sentence counts; a word that occurs once in a stretch is known to be
    the first without splitting the stretch into sentences.
    """

    def __init__(self, task: SearchTask) -> None:
        self._task = task
        self._max_sentences = task.config.max_sentences
        self._matcher = Matcher(task.targets.folded, Folding(task.targets.rule), task.segmenter)
        self._keys = word_keys(task.targets.folded, task.config.seed)
        self._is_long = [" " in word for word in task.targets.folded]
        self._lowest: list[list[int]] = [[] for _ in task.targets.words]
        self._limits = np.full(len(task.targets.words), HIGHEST, dtype=np.uint64)

    def __call__(self, block: Block) -> FoundBlock:
        rejects: list[tuple[str, str, Any]] = []

        def reject(error: RecordError) -> None:
            rejects.append((error.place, error.reason, error.content))

        numbered = read_numbered(block, reject)
        documents = np.array([number for number, _ in numbered], dtype=np.int64)
        records = [record for _, record in numbered]
        matches = self._matcher.find([record["text"] for record in records])
        counts = np.bincount(matches.words, minlength=len(self._keys))
        words = np.flatnonzero(counts)
        characters = sum(len(record["text"].strip()) for record in records)
        candidates = self._candidates(records, documents + block.earlier_lines, matches)
        return FoundBlock(words, counts[words], list(candidates), characters, rejects)

    def _candidates(self, records: list[Mapping[str, Any]], documents: np.ndarray,
                    matches: Matches) -> Iterator[Stretch]:
        priorities = derive(self._keys[matches.words], documents[matches.texts], matches.starts)
        chosen = np.flatnonzero(priorities < self._limits[matches.words])
        texts = matches.texts[chosen]
        columns = (matches.words, priorities, matches.starts, matches.ends, _previous(matches))
        hits = zip(*(column[chosen].tolist() for column in columns), strict=True)
        numbers, counts = np.unique(texts, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            yield from self._of_record(records[number], islice(hits, count))

    def _of_record(self, record: Mapping[str, Any],
                   hits: Iterable[tuple[int, int, int, int, int]]) -> Iterator[Stretch]:
        """Yield the stretches of a record in which some word still has a chance."""
        text = record["text"]
        offered: dict[Span, list[Hit]] = {}
        sentences: dict[Span, list[Span]] = {}
        rest = iter(self._task.stretches(text))
        begin, stop = next(rest)
        for word, priority, start, end, before in hits:
            while start >= stop:
                begin, stop = next(rest)
            is_plain = before < begin and end <= stop and not self._is_long[word]
            if not is_plain and (begin, stop) not in sentences:
                spans = self._task.sentences(text[begin:stop], record.get("lang"))
                sentences[begin, stop] = [(begin + first, begin + last) for first, last in spans]
            if ((is_plain or _is_first(sentences[begin, stop], before, start, end))
                and self._enters(word, priority)):
                offered.setdefault((begin, stop), []).append(
                    (word, priority, start - begin, end - begin))
        for (begin, stop), found in offered.items():
            yield Stretch(begin, _line(record, text[begin:stop]), found)

    def _enters(self, word: int, priority: int) -> bool:
        """Add a priority if it is among the lowest of its word."""
        lowest = self._lowest[word]
        if len(lowest) < self._max_sentences:
            heappush(lowest, -priority)
        elif priority < -lowest[0]:
            heapreplace(lowest, -priority)
        else:
            return False
        if len(lowest) == self._max_sentences:
            self._limits[word] = -lowest[0]
        return True


def _is_first(sentences: Iterable[Span], before: int, start: int, end: int) -> bool:
    """Return whether a position is in a sentence without the word's position before it."""
    return any(first <= start and end <= last and before < first for first, last in sentences)


def _previous(matches: Matches) -> np.ndarray:
    """Find where each word occurs before in its text, (matches,) int64; -1 where it does not."""
    names = matches.texts.astype(np.int64) << 32 | matches.words
    order = np.argsort(names, kind="stable")
    again = np.flatnonzero(names[order[1:]] == names[order[:-1]])
    found = np.full(len(names), -1, dtype=np.int64)
    found[order[again + 1]] = matches.starts[order[again]]
    return found


def read_numbered(block: Block, reject: Reject) -> list[tuple[int, Mapping[str, Any]]]:
    """Parse and check the records of a block; return each with its line number.

    Lines are parsed all at once, and one by one only where that fails or tells too little about
    what is wrong. Only the keys that commands agree on are kept for sure.
    """
    lines = block.lines.split(b"\n")
    if not lines[-1]:
        lines.pop()
    try:
        found = _DECODER.decode_lines(block.lines)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        found = []
    if len(found) == len(lines) and not any(key in record for record in found
                                            for key in _CHECKED_KEYS):
        return list(enumerate(found, block.first_line))
    records = parse_records(lines, block.name, reject, block.first_line - 1)
    return [(int(record.place.rpartition(":")[2]), record) for record in records]


_DECODER = msgspec.json.Decoder(RecordFields)


def _by_span(spans: list[Span], hits: Iterable[tuple[int, int, int]],
             ) -> Iterator[tuple[Span, list[tuple[int, int, int]]]]:
    """Group positions by the span around them; both come in order."""
    begins = [begin for begin, _ in spans]
    found: dict[int, list[tuple[int, int, int]]] = {}
    for hit in hits:
        found.setdefault(bisect_right(begins, hit[0]) - 1, []).append(hit)
    for number, within in found.items():
        yield spans[number], within


def _line(record: Mapping[str, Any], text: str) -> bytes:
    kept = {key: record[key] for key in _KEPT_KEYS if key in record}
    return msgspec.json.encode({"id": record["id"], "text": text, **kept}) + b"\n"
