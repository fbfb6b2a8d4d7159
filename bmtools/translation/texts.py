"""Texts as sentences: split, and put together again from translations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bmtools.text.sentences import spans_between
from bmtools.translation.engines.engine import Translation, plain_line
from bmtools.translation.settings import DocumentConfig


@dataclass(frozen=True)
class SplitText:
    """A text and its sentences.

    Args:
        text: the whole.
        spans: start and end of each sentence in it.
        sentences: each as one plain line.
    """

    text: str
    spans: list[tuple[int, int]]
    sentences: list[str]


def split_text(text: str, config: DocumentConfig, borders: Iterable[int] = ()) -> SplitText:
    """Find the sentences of a text; each becomes one plain line.

    Args:
        text: the whole.
        config: its language, and abbreviations.
        borders: offsets that no sentence crosses.
    """
    found = [(start, end, plain) for start, end in spans_between(
        text, borders, config.source_lang, config.abbreviations)
        if (plain := plain_line(text[start:end]))]
    return SplitText(text, [(start, end) for start, end, _ in found],
                     [plain for *_, plain in found])


@dataclass(frozen=True)
class JoinedText:
    """A translated text.

    Args:
        text: the whole.
        spans: of each sentence of the source, start and end in the source and in the
            translation; no part of the translation where it was dropped.
    """

    text: str
    spans: list[tuple[int, int, int, int]]

    def place_of(self, offset: int) -> int:
        """Move an offset of the source; one inside a sentence goes to the sentence's end."""
        before = moved = 0
        for start, end, first, last in self.spans:
            if offset <= start:
                return min(moved + offset - before, first)
            if offset <= end:
                return last
            before, moved = end, last
        return min(moved + offset - before, len(self.text))


def join_text(source: SplitText, translations: Mapping[str, Translation],
              keep_missing: bool) -> JoinedText:
    """Put translations in the places of their sentences.

    A sentence without one stays as it is with `keep_missing`, or takes the space after it along.
    """
    if not source.spans:
        return JoinedText(source.text, [])
    ends = [*(start for start, _ in source.spans[1:]), len(source.text)]
    joined = source.text[:source.spans[0][0]]
    spans = []
    for (start, end), sentence, following in zip(source.spans, source.sentences, ends,
                                                 strict=True):
        found = translations[sentence]
        text = found.text if not found.fault else sentence if keep_missing else ""
        spans.append((start, end, len(joined), len(joined) + len(text)))
        if text or not found.fault:
            joined += text + source.text[end:following]
    return JoinedText(joined, spans)
