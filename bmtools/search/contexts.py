"""Sentences in which words stand, drawn uniformly in one pass over text of any size.

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

from bmtools.errors import DataError, RecordError, Reject
from bmtools.io.jsonl import RecordReader, parse_records
from bmtools.io.parallel import Block, map_blocks, read_blocks
from bmtools.keyed_random import derive
from bmtools.records import RecordFields
from bmtools.search.case_folding import Folding
from bmtools.search.matching import Matcher, Matches, Segment
from bmtools.search.reservoir import HIGHEST, Hit, Reservoir, Stretch, word_keys
from bmtools.search.settings import ContextConfig
from bmtools.search.word_lists import WordList

Span = tuple[int, int]
_KEPT = ("lang", "source", "licence")
# Keys whose content is checked beyond its type.
_INTRICATE = ("entities", "relations", "answers", "target")


@dataclass(frozen=True)
class Splitter:
    """Finds sentences; both functions must be such that they can be sent to other processes.

    Args:
        stretches: cuts a text, at little cost, where sentences surely end; its parts touch.
        sentences: finds the sentences of such a stretch, by its language; all in code points.
    """

    stretches: Callable[[str], list[Span]]
    sentences: Callable[[str, str], list[Span]]


@dataclass(frozen=True)
class SearchTask:
    """What a worker needs to know; can be sent to other processes.

    Args:
        targets: words to look for.
        settings: what is drawn of them.
        splitter: finds sentences; None where records are sentences.
        segment: finds words in scripts without spaces.
    """

    targets: WordList
    settings: ContextConfig
    splitter: Splitter | None
    segment: Segment | None


@dataclass(frozen=True)
class FoundBlock:
    """What was found in a block.

    Args:
        words: numbers of words that occur.
        counts: how often.
        stretches: that may be drawn from, in order.
        characters: read.
        rejects: place, reason and content of each bad record.
    """

    words: np.ndarray
    counts: np.ndarray
    stretches: list[Stretch]
    characters: int
    rejects: list[tuple[str, str, Any]]


Watch = Callable[[Iterator[FoundBlock]], Iterable[FoundBlock]]
"""Passes on what goes by, a megabyte of text at a time, to show progress."""


class ContextSample:
    """The sample.

    Args:
        task: what was looked for.
        occurrences: (words,) how often each word stands in the text.
        sample: stretches drawn from.
    """

    def __init__(self, task: SearchTask, occurrences: np.ndarray, sample: Reservoir) -> None:
        self._task = task
        self._words = task.targets.words
        self._occurrences = occurrences
        self._sample = sample
        self.sentences = 0

    def lines(self) -> Iterator[dict[str, Any]]:
        """Give the sentences in the order of the text, each once, with the words drawn there.

        `sentences` counts them.
        """
        splitter, lang = self._task.splitter, self._task.settings.lang
        for start, line, hits in self._sample.drawn():
            record = msgspec.json.decode(line)
            text, name = record["text"], record["id"]
            spans = [(0, len(text))] if splitter is None else \
                splitter.sentences(text, record.get("lang") or lang)
            for (begin, end), found in _by_span(spans, hits):
                self.sentences += 1
                targets = [{"word": self._words[word], "start": first - begin, "end": last - begin}
                           for first, last, word in found]
                if splitter is not None:
                    record = {**record, "id": f"{name}#{start + begin}", "text": text[begin:end]}
                yield {**record, "targets": targets}

    def report(self) -> Iterator[dict[str, Any]]:
        """Tell of each word how often it occurs and how many sentences were drawn."""
        for number, word in enumerate(self._words):
            yield {"word": word, "occurrences": int(self._occurrences[number]),
                   "sampled": self._sample.size(number)}

    def summary(self) -> dict[str, int]:
        """Count words, those that occur, and their occurrences."""
        return {"words": len(self._words), "found": int(np.count_nonzero(self._occurrences)),
                "occurrences": int(self._occurrences.sum())}


@contextmanager
def find_contexts(records: RecordReader, targets: WordList, settings: ContextConfig,
                  splitter: Splitter, *, segment: Segment | None = None, processes: int = 1,
                  watch: Watch = iter) -> Iterator[ContextSample]:
    """Draw, for each word, up to `settings.most` of the sentences in which it stands.

    Every sentence with a word has the same chance for it, however often it says the word; a
    sentence that the text repeats counts as often as it stands there. The same are drawn whatever
    the number of processes and however large blocks are, and for a word whatever the others.
    Only texts are searched, not titles. Memory holds some megabytes of text and, for each sentence
    drawn, a few numbers; what may be drawn lies in a temporary file meanwhile, which grows with
    the logarithm of the text: to 80 MB for 10,000 words in 220 MB of abstracts.

    Args:
        records: names the files; its `reject` receives bad records, its `hashes` are filled.
        targets: words to look for.
        settings: what is drawn.
        splitter: finds sentences; not asked about records that are sentences.
        segment: finds words in scripts without spaces; must be such that it can be sent.
        processes: that search; 0 for one a core. One works in this process.
        watch: sees each block of text go by.

    Raises:
        DataError: there is no text.
        BmtoolsError: a process died.
    """
    task = SearchTask(targets, settings, splitter if settings.unit == "sentence" else None, segment)
    occurrences = np.zeros(len(targets.words), dtype=np.int64)
    characters = 0
    found = map_blocks(read_blocks(records), partial(BlockFinder, task), processes,
                       "try again with fewer --processes")
    with TemporaryFile() as spool, closing(found):
        sample = Reservoir(len(targets.words), settings.most, spool)
        for one in watch(found):
            for each in one.rejects:
                records.reject(RecordError(*each))
            occurrences[one.words] += one.counts
            characters += one.characters
            for stretch in one.stretches:
                sample.offer(stretch)
        if not characters:
            raise DataError("no text in the input; expected records with some text")
        yield ContextSample(task, occurrences, sample)


class BlockFinder:
    """Finds words in the records of a block, and the stretches that may be drawn from.

    Priorities are drawn for places of words, and the draw takes the lowest. The finder remembers
    those that it offered, so that a place without a chance costs nothing more. Only the first
    place in a sentence counts; where a word stands once in a stretch, that is known unsplit.
    """

    def __init__(self, task: SearchTask) -> None:
        self._settings = task.settings
        self._splitter = task.splitter
        self._matcher = Matcher(task.targets.folded, Folding(task.targets.rule), task.segment)
        self._keys = word_keys(task.targets.folded, task.settings.seed)
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
        stretches = self._stretches(records, documents + block.earlier_lines, matches)
        return FoundBlock(words, counts[words], list(stretches), characters, rejects)

    def _stretches(self, records: list[Mapping[str, Any]], documents: np.ndarray,
                   matches: Matches) -> Iterator[Stretch]:
        drawn = derive(self._keys[matches.words], documents[matches.texts], matches.starts)
        chosen = np.flatnonzero(drawn < self._limits[matches.words])
        texts = matches.texts[chosen]
        columns = (matches.words, drawn, matches.starts, matches.ends, _previous(matches))
        hits = zip(*(column[chosen].tolist() for column in columns), strict=True)
        numbers, counts = np.unique(texts, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            yield from self._of_record(records[number], islice(hits, count))

    def _of_record(self, record: Mapping[str, Any],
                   hits: Iterable[tuple[int, int, int, int, int]]) -> Iterator[Stretch]:
        """Offer the stretches of a record in which some word still has a chance."""
        text = record["text"]
        spans = [(0, len(text))] if self._splitter is None else self._splitter.stretches(text)
        offered: dict[Span, list[Hit]] = {}
        parted: dict[Span, list[Span]] = {}
        rest = iter(spans)
        begin, stop = next(rest)
        for word, priority, start, end, before in hits:
            while start >= stop:
                begin, stop = next(rest)
            plain = before < begin and end <= stop and not self._is_long[word]
            if not plain and (begin, stop) not in parted:
                parted[begin, stop] = self._sentences(record, begin, stop)
            if ((plain or _is_first(parted[begin, stop], before, start, end))
                and self._enters(word, priority)):
                offered.setdefault((begin, stop), []).append(
                    (word, priority, start - begin, end - begin))
        for (begin, stop), found in offered.items():
            yield Stretch(begin, _line(record, text[begin:stop]), found)

    def _sentences(self, record: Mapping[str, Any], begin: int, stop: int) -> list[Span]:
        """Find the sentences of a stretch, by places in the record's text."""
        if self._splitter is None:
            return [(begin, stop)]
        spans = self._splitter.sentences(record["text"][begin:stop],
                                         record.get("lang") or self._settings.lang)
        return [(begin + first, begin + last) for first, last in spans]

    def _enters(self, word: int, priority: int) -> bool:
        """Note a priority if it is among the lowest of its word."""
        lowest = self._lowest[word]
        if len(lowest) < self._settings.most:
            heappush(lowest, -priority)
        elif priority < -lowest[0]:
            heapreplace(lowest, -priority)
        else:
            return False
        if len(lowest) == self._settings.most:
            self._limits[word] = -lowest[0]
        return True


def _is_first(sentences: Iterable[Span], before: int, start: int, end: int) -> bool:
    """Whether a word's place lies within a sentence that does not hold its place before."""
    return any(first <= start and end <= last and before < first for first, last in sentences)


def _previous(matches: Matches) -> np.ndarray:
    """Where each word stood before in the same text, (matches,) int64; -1 where it did not."""
    names = matches.texts.astype(np.int64) << 32 | matches.words
    order = np.argsort(names, kind="stable")
    again = np.flatnonzero(names[order[1:]] == names[order[:-1]])
    found = np.full(len(names), -1, dtype=np.int64)
    found[order[again + 1]] = matches.starts[order[again]]
    return found


def read_numbered(block: Block, reject: Reject) -> list[tuple[int, Mapping[str, Any]]]:
    """Parse and check the records of a block; give each with its line number.

    Lines are parsed all at once, and one by one only where that does not succeed or says too little
    of what is wrong. Only keys that commands agree on are sure to be there.
    """
    lines = block.lines.split(b"\n")
    if not lines[-1]:
        lines.pop()
    try:
        found = _DECODER.decode_lines(block.lines)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        found = []
    if len(found) == len(lines) and not any(key in record for record in found
                                            for key in _INTRICATE):
        return list(enumerate(found, block.first_line))
    records = parse_records(lines, block.name, reject, block.first_line - 1)
    return [(int(record.place.rpartition(":")[2]), record) for record in records]


_DECODER = msgspec.json.Decoder(RecordFields)


def _by_span(spans: list[Span], hits: Iterable[tuple[int, int, int]],
             ) -> Iterator[tuple[Span, list[tuple[int, int, int]]]]:
    """Gather places by the span that they lie in; both come in order."""
    begins = [begin for begin, _ in spans]
    found: dict[int, list[tuple[int, int, int]]] = {}
    for hit in hits:
        found.setdefault(bisect_right(begins, hit[0]) - 1, []).append(hit)
    for number, within in found.items():
        yield spans[number], within


def _line(record: Mapping[str, Any], text: str) -> bytes:
    kept = {key: record[key] for key in _KEPT if key in record}
    return msgspec.json.encode({"id": record["id"], "text": text, **kept}) + b"\n"
