"""Entity recognition: records as windows of tagged words, and tags as entities again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bmtools.errors import RecordError, Reject, refuse
from bmtools.records import Record
from bmtools.tasks.span_scores import Mention
from bmtools.tasks.tag_schemes import Span, spans_to_tags, tags_to_spans
from bmtools.tasks.windows import WindowedText, cut_into_windows


@dataclass
class EntityCounts:
    """What was read, and what the tags of words cannot say.

    Args:
        records: texts read.
        windows: parts that the model reads at once.
        words: places that get a tag.
        entities: distinct entities (start, end and type), which is what scores count.
        repeated: annotations of an entity that the record holds already.
        discontinuous: entities with several parts; taken as one, with what lies between.
        unaligned: entities that begin or end inside a word, or at no word.
        overlapping: entities that share a word with a longer or earlier one, which is tagged.
        reachable: entities that come back from their record's tags; the highest recall there is.
        types: entities by type.
    """

    records: int = 0
    windows: int = 0
    words: int = 0
    entities: int = 0
    repeated: int = 0
    discontinuous: int = 0
    unaligned: int = 0
    overlapping: int = 0
    reachable: int = 0
    types: Counter[str] = field(default_factory=Counter)

    def line(self) -> dict[str, Any]:
        """What is printed."""
        return {**vars(self), "types": dict(sorted(self.types.items()))}


@dataclass(frozen=True, slots=True)
class Example:
    """A record to learn from or to be measured by.

    Args:
        document: its text.
        tags: (words,) one tag a word.
        gold: its distinct entities as they were annotated: start, end and type.
    """

    document: WindowedText
    tags: list[str]
    gold: frozenset[Span]


@dataclass
class Examples:
    """Annotated records in memory, and what was met on the way."""

    members: list[Example] = field(default_factory=list)
    tally: EntityCounts = field(default_factory=EntityCounts)

    def gold(self) -> Iterator[Mention]:
        """The entities of all records."""
        for number, example in enumerate(self.members):
            for span in example.gold:
                yield (number, *span)


def read_examples(records: Iterable[Record], tokenizer: Any, max_length: int,
                  merge_types: str = "", reject: Reject = refuse) -> Examples:
    """Read annotated records; all are held in memory, windows and tags.

    Args:
        tokenizer: of the model.
        max_length: longest window, special tokens included.
        merge_types: one type for all entities, or empty.
        reject: receives records without the key `entities`.
    """
    taken = [record for record in records if _is_annotated(record, reject)]
    documents = cut_into_windows(tokenizer, (record["text"] for record in taken), max_length)
    examples = Examples()
    for record, document in zip(taken, documents, strict=True):
        examples.members.append(_example(record, document, merge_types, examples.tally))
    return examples


def mentions(document: WindowedText, tags: Sequence[str]) -> list[Span]:
    """Read entities in code points from the tags of a document's words."""
    words = document.words
    return [(int(words[first, 0]), int(words[after - 1, 1]), kind)
            for first, after, kind in tags_to_spans(tags)]


def _is_annotated(record: Record, reject: Reject) -> bool:
    if "entities" in record:
        return True
    reject(RecordError(record.place, "key 'entities' is missing; expected a list, empty where "
                                     "the text names nothing", record))
    return False


def _example(record: Record, document: WindowedText, merge_types: str,
             tally: EntityCounts) -> Example:
    annotated = record["entities"]
    gold = {(entity["start"], entity["end"], merge_types or entity["type"])
            for entity in annotated}
    tags = spans_to_tags(len(document.words), _taggable(document.words, gold, tally))
    tally.records += 1
    tally.windows += len(document.windows)
    tally.words += len(document.words)
    tally.entities += len(gold)
    tally.repeated += len(annotated) - len(gold)
    tally.discontinuous += sum(len(entity.get("spans", ())) > 1 for entity in annotated)
    tally.reachable += len(gold.intersection(mentions(document, tags)))
    tally.types.update(kind for _, _, kind in gold)
    return Example(document, tags, frozenset(gold))


def _taggable(words: np.ndarray, gold: Iterable[Span], tally: EntityCounts) -> list[Span]:
    """Choose entities that share no word, longest first, as spans of words."""
    taken = np.zeros(len(words), dtype=bool)
    chosen = []
    for start, end, kind in sorted(gold, key=lambda span: (span[0] - span[1], *span)):
        first = int(np.searchsorted(words[:, 1], start, side="right"))
        after = int(np.searchsorted(words[:, 0], end, side="left"))
        if first >= after or words[first, 0] != start or words[after - 1, 1] != end:
            tally.unaligned += 1
        if taken[first:after].any():
            tally.overlapping += 1
        elif first < after:
            taken[first:after] = True
            chosen.append((first, after, kind))
    return chosen
