"""EBM-NLP's original files: tokens of abstracts, with a layer of labels for each PICO element."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import PurePath

from bmtools.corpus.formats.sets.conll import tag_entities
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.errors import DataError, RecordError
from bmtools.io.folders import corpus_files, read_text
from bmtools.io.sources import source_name
from bmtools.records import Record

TYPES = {"participants": "PAR", "interventions": "INT", "outcomes": "OUT"}
"""Types of entities, as in SciBERT's edition, by the folder of their layer."""
_GOLD = "test/gold"
_LABELS = re.compile(rf"aggregated/starting_spans/({'|'.join(TYPES)})/(train|test/\w+)/(\d+)[^/]*$")
_TOKENS = re.compile(r"documents/(\d+)\.tokens$")
_SEPARATORS = ("\n", " ", None)  # release 2.00: one token per line, 1.00: spaces
Layers = Mapping[str, str]
"""Labels of a document as in its files, by entity type."""


@reader
def ebm_nlp_records(names: Iterable[str], tally: Tally, split: str) -> Iterator[Record]:
    """Yield every sentence of a part, with the elements of all layers, which may overlap.

    The text consists of the tokens separated by one space. As in the authors' script for models, a
    sentence ends at the token `.`, and abstracts of the gold test set are left out of train. A run
    of labelled tokens is an entity. Sources: Nye et al. 2018; Gu et al. 2021, section 4.2.

    Args:
        names: folders or archives with `documents` and `annotations/aggregated/starting_spans`.
        tally: counts documents, documents without a layer, words of elements, and words of several
            elements. It rejects a document with fewer or more labels than tokens.
        split: part to read: `train`, `test/gold` or `test/crowd`.

    Raises:
        DataError: such files are missing.
    """
    for name in names:
        tokens: dict[str, str] = {}
        parts = defaultdict[str, dict[str, dict[str, str]]](dict)  # by part and document
        for file in corpus_files(name, ".tokens", ".ann", counts=Counter()):
            if found := _LABELS.search(PurePath(file).as_posix()):
                layers = parts[found[2]].setdefault(found[3], {})
                layers[TYPES[found[1]]] = read_text(file)
            elif found := _TOKENS.search(PurePath(file).as_posix()):
                tokens[found[1]] = read_text(file)
        if not tokens or not parts[split]:
            raise DataError(f"{source_name(name)}: found {len(tokens)} documents and "
                            f"{len(parts[split])} with labels of {split}, expected the folder or "
                            "archive of EBM-NLP with documents/PMID.tokens and annotations/"
                            f"aggregated/starting_spans/participants/{split}/PMID.AGGREGATED.ann")
        for document in sorted(parts[split]):
            if split == "train" and document in parts[_GOLD]:
                tally.counts[f"documents of {_GOLD} left out"] += 1
                continue
            with tally.rejecting():
                yield from _sentences(document, tokens.get(document, ""), parts[split][document],
                                      tally.counts, f"{source_name(name)} ({document})")


def _sentences(document: str, text: str, layers: Layers, counts: Counter[str],
               place: str) -> Iterator[Record]:
    """Yield the sentences of a document.

    Raises:
        RecordError: a layer has more or fewer labels than there are tokens.
    """
    labels = {kind: re.findall(r"\d+", layers[kind]) for kind in TYPES.values() if kind in layers}
    sizes = {len(own) for own in labels.values()}
    tokens = next((found for separator in _SEPARATORS
                   if sizes == {len(found := text.strip().split(separator))}), None)
    if tokens is None:
        given = ", ".join(f"{len(own)} labels of {kind}" for kind, own in labels.items())
        raise RecordError(place, f"found {len(text.split())} tokens and {given}, expected the same "
                                 "number of each")
    marked = {kind: [int(label) > 0 for label in own] for kind, own in labels.items()}
    depths = [sum(one) for one in zip(*marked.values(), strict=True)]
    counts.update({"documents": 1, "documents without a layer": len(labels) < len(TYPES),
                   "words of elements": sum(depth > 0 for depth in depths),
                   "words of several elements": sum(depth > 1 for depth in depths)})
    ends = [number for number, token in enumerate(tokens, 1) if token == "."]
    for number, (start, end) in enumerate(pairwise(dict.fromkeys([0, *ends, len(tokens)])), 1):
        sentence = " ".join(tokens[start:end])
        entities = [entity for kind, own in marked.items() for entity in tag_entities(
            [(token, "I" if is_marked else None, kind) for token, is_marked
             in zip(tokens[start:end], own[start:end], strict=True)], sentence, kind, Counter())]
        entities.sort(key=lambda entity: (entity["start"], entity["end"]))
        yield Record(id=f"{document}-s{number}", text=sentence, entities=entities,
                     meta={"document": document}, place=place)
