"""Tags of words: schemes, and conversion between entities and tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypedDict

import numpy as np

OUTSIDE = "O"
SUBTOKENS, SUBTOKEN_F1 = "subtokens", "subtoken_f1"
SCHEMES = {"bio": "BI", **dict.fromkeys(("bioul", "bilou", "iobes"), "BILU"), "io": "I"}
"""Prefixes of each scheme's tags. BIOUL is also called BILOU; IOBES is BIOUL with other letters."""
_OPENING, _CLOSING = "BUS", "LEUS"
Span = tuple[int, int, str]
TaggedWord = tuple[int, int, Sequence[str]]
"""Start and end of a word, and the BIO tag of each of its tokens."""


class TaggedTokens(TypedDict):
    """Predictions that contain the tags of all tokens."""

    subtokens: Sequence[TaggedWord]


def group_labels(scheme: str, types: Sequence[str], overlapping: bool) -> list[list[str]]:
    """List the tags of each group, O first; a word has one tag from each group.

    A group contains all types, or one type if types overlap.
    """
    groups = [[kind] for kind in types] if overlapping else [types]
    return [[OUTSIDE, *(f"{prefix}-{kind}" for kind in own for prefix in SCHEMES[scheme])]
            for own in groups]


def can_follow(scheme: str, tag: str, following: str) -> bool:
    """Return whether a scheme allows a tag right after another one."""
    if scheme == "io":
        return True
    (before, _, kind), (prefix, _, own_kind) = tag.partition("-"), following.partition("-")
    is_open, continues = before in ("B", "I"), prefix in ("I", "L")
    if continues:
        return is_open and kind == own_kind
    return scheme == "bio" or not is_open


def tag_words(words: np.ndarray, entities: Iterable[Span],
              scheme: str = "bio") -> tuple[list[str], Counter[str]]:
    """Tag words; if entities share a word, the longest one is tagged.

    Args:
        words: (words, 2) start and end of each word.
        entities: start, end and type of each.
        scheme: scheme of the tags.

    Returns:
        a tag for each word, and how many entities are `unaligned` or `overlapping`.
    """
    tags = [OUTSIDE] * len(words)
    faults: Counter[str] = Counter()
    for start, end, kind in sorted(entities, key=lambda span: (span[0] - span[1], *span)):
        first = int(np.searchsorted(words[:, 1], start, side="right"))
        after = int(np.searchsorted(words[:, 0], end, side="left"))
        if first >= after or words[first, 0] != start or words[after - 1, 1] != end:
            faults["unaligned"] += 1
        if any(tag != OUTSIDE for tag in tags[first:after]):
            faults["overlapping"] += 1
        elif first < after:
            tags[first:after] = [f"{prefix}-{kind}" for prefix in _prefixes(after - first, scheme)]
    return tags, faults


def _prefixes(length: int, scheme: str) -> str:
    """Return the prefixes of an entity's words."""
    if scheme == "io":
        return "I" * length
    if scheme == "bio":
        return "B" + "I" * (length - 1)
    return "U" if length == 1 else f"B{'I' * (length - 2)}L"


def tags_to_spans(tags: Sequence[str]) -> list[Span]:
    """Convert tags of any scheme to spans, including invalid sequences from a model.

    A tag that does not continue a span of its type opens one, and an open span ends where another
    begins, as in the CoNLL-2000 script and in seqeval's default mode. E and S are read as L and U.

    Returns:
        first word, word after the last, and type of each span.
    """
    spans: list[Span] = []
    start, open_kind = 0, ""
    for index, tag in enumerate([*tags, OUTSIDE]):
        prefix, _, kind = tag.partition("-")
        if open_kind and (prefix in _OPENING or kind != open_kind):
            spans.append((start, index, open_kind))
            open_kind = ""
        if kind and not open_kind:
            start, open_kind = index, kind
        if open_kind and prefix in _CLOSING:
            spans.append((start, index + 1, open_kind))
            open_kind = ""
    return spans


def iob2_spans(tags: Sequence[str]) -> list[Span]:
    """Convert BIO tags to spans strictly: an I that does not continue a span is not an entity.

    Source: seqeval's strict mode with its scheme IOB2.
    """
    kept: list[str] = []
    for tag in tags:
        continues = bool(kept) and kept[-1][1:] == tag[1:]
        kept.append(tag if continues or not tag.startswith("I") else OUTSIDE)
    return tags_to_spans(kept)


def token_runs(words: Sequence[TaggedWord], gold: Iterable[Span]) -> tuple[set[Span], set[Span]]:
    """Convert a text's entities to runs of tokens: first token, token after the last, and type.

    Args:
        words: words with predicted tags.
        gold: entities of the text; if entities share a word, only the longest one is converted.

    Returns:
        runs of gold entities and of predicted entities.
    """
    borders = np.array([word[:2] for word in words], dtype=np.int64).reshape(-1, 2)
    expected = [tag for word_tag, (*_, own) in zip(tag_words(borders, gold)[0], words, strict=True)
                for tag in [word_tag, *[word_tag.replace("B-", "I-", 1)] * len(own)][:len(own)]]
    return {*iob2_spans(expected)}, {*iob2_spans([tag for *_, own in words for tag in own])}
