"""From documents to a vocabulary: drawn, learned or extended, and described."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bmtools.errors import DataError
from bmtools.vocab.document_sample import MEGABYTE, DocumentSample, is_held_out
from bmtools.vocab.extension import extend, kind_of
from bmtools.vocab.settings import AUTO, SizeSearchConfig, VocabularyConfig
from bmtools.vocab.sizes import choose_size
from bmtools.vocab.tokenizer import lower_cases
from bmtools.vocab.train import learn_vocabulary


@dataclass(frozen=True)
class Built:
    """A vocabulary.

    Args:
        tokenizer: of transformers.
        results: what was found on the way, for JSON.
    """

    tokenizer: Any
    results: dict[str, Any]


def build(documents: Iterable[str], settings: VocabularyConfig, choosing: SizeSearchConfig,
          terms: Sequence[str] = (), old: Any = None, name: str = "") -> Built:
    """Learn a vocabulary, choose its size, or extend one, as settings say.

    Args:
        documents: read once; those drawn are held, unless `sample_megabytes` is 0.
        settings: what is asked for.
        choosing: how a size is chosen, where that is asked for.
        terms: what else sizes are judged by.
        old: a tokenizer of transformers to extend; None to learn a new one.
        name: what messages call the old one.

    Raises:
        DataError: the documents do not hold what it takes.
        CheckpointError: the old tokenizer cannot be extended.
    """
    bound = settings.sample_megabytes * MEGABYTE
    texts: Iterator[str]
    sample = DocumentSample(round(bound) if bound else sys.maxsize, settings.seed)
    if bound or settings.size == AUTO:
        sample.add(documents)
        _require_some(sample)
        texts = (text for _, text in sample)
    else:
        texts = sample.passed(documents)
    if settings.size == AUTO:
        made, figures = _choose(sample, settings, choosing, terms)
    elif old is not None:
        made, figures = _extend(old, texts, settings, name)
    else:
        made, figures = learn_vocabulary(texts, settings), {}
    return Built(made, {
        "tokens": len(made), "asked": settings.size or "auto", **_kind(made, settings, old),
        "uncased": lower_cases(made), "sample": sample.figures(), **figures})


def _require_some(sample: DocumentSample) -> None:
    if sample.documents and not len(sample):
        raise DataError(
            f"--sample-megabytes: found a bound of {sample.most_bytes} bytes, which no document "
            f"drawn fits into (they have {sample.total_bytes // sample.documents} on average); "
            "expected more")


def _kind(made: Any, settings: VocabularyConfig, old: Any) -> dict[str, str]:
    if old is None:
        return {"kind": settings.kind, "layout": settings.frame}
    return {"kind": kind_of(made, "")}


def _extend(old: Any, texts: Iterator[str], settings: VocabularyConfig,
            name: str) -> tuple[Any, dict[str, Any]]:
    found = extend(old, texts, settings, name)
    return found.tokenizer, {
        "kept": found.kept, "added": found.added, "text_tokens_before": found.tokens_before,
        "text_tokens_after": found.tokens_after}


def _choose(sample: DocumentSample, settings: VocabularyConfig, choosing: SizeSearchConfig,
            terms: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    held_out = [text for number, text in sample
                if is_held_out(settings.seed, number, choosing.held_out)]
    learned = (text for number, text in sample
               if not is_held_out(settings.seed, number, choosing.held_out))
    found = choose_size(learned, held_out, terms, settings, choosing)
    knees = {"knee": found.knee} if found.term_knee is None else \
        {"knee": found.knee, "term_knee": found.term_knee}
    return found.tokenizer, {
        "chosen": found.chosen, **knees, "held_out_documents": len(held_out),
        "curve": [point.figures() for point in found.curve]}
