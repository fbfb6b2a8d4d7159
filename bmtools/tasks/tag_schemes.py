"""The BIO scheme: entities as one tag a word, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

OUTSIDE = "O"
Span = tuple[int, int, str]


def label_names(types: Iterable[str]) -> list[str]:
    """List every tag of some entity types, in an order that depends on nothing else."""
    return [OUTSIDE, *(f"{prefix}-{kind}" for kind in sorted(set(types)) for prefix in "BI")]


def is_bio(labels: Iterable[str]) -> bool:
    """Test whether all labels are `O`, `B-TYPE` or `I-TYPE`."""
    return all(label == OUTSIDE or (label[:2] in ("B-", "I-") and len(label) > 2)
               for label in labels)


def spans_to_tags(words: int, spans: Iterable[Span]) -> list[str]:
    """Tag words, the first of each span `B-`; later spans write over earlier ones.

    Args:
        words: number of words.
        spans: first word, word after the last, and type.
    """
    tags = [OUTSIDE] * words
    for start, end, kind in spans:
        tags[start:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - start - 1)
    return tags


def tags_to_spans(tags: Sequence[str]) -> list[Span]:
    """Read spans from tags, whatever a model made of them.

    An `I-` that continues nothing of its type opens a span, as in the CoNLL-2000 script and in
    seqeval's default mode.
    """
    spans: list[Span] = []
    start, open_kind = 0, ""
    for index, tag in enumerate([*tags, OUTSIDE]):
        prefix, _, kind = tag.partition("-")
        if open_kind and (prefix != "I" or kind != open_kind):
            spans.append((start, index, open_kind))
            open_kind = ""
        if kind and not open_kind:
            start, open_kind = index, kind
    return spans
