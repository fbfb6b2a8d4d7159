"""How far a tokenizer breaks words up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from bmtools.vocab.token_text import BLANK

_AT_ONCE = 10_000
# A word is encoded behind another, so that it has the space before it that it has in a text.
_LEAD = "a"


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """What becomes of words; every figure counts a word as often as it occurs.

    Args:
        words: number of words.
        pieces: tokens that they become; an unknown word counts what stands for it.
        whole: words that are one token, and known.
        unknown: words with an unknown token in them.
    """

    words: int
    pieces: int
    whole: int
    unknown: int

    @property
    def pieces_per_word(self) -> float:
        """Tokens of a word, on average; 1 where all stay whole.

        Source: Shin et al. 2020 (BioMegatron), table 3, #tokens/#words.
        """
        return self.pieces / self.words if self.words else 0.0

    @property
    def whole_share(self) -> float:
        """Share of words that stay whole, 0 to 1."""
        return self.whole / self.words if self.words else 0.0

    @property
    def unknown_share(self) -> float:
        """Share of words that the tokenizer cannot spell, 0 to 1; they look unbroken."""
        return self.unknown / self.words if self.words else 0.0


def fragmentation(backend: Any, words: Mapping[str, int], spaced: bool = True) -> Fragmentation:
    """Measure how far words are broken up as they stand in running text, behind a space.

    Args:
        backend: a `tokenizers.Tokenizer` of any kind.
        words: how often each occurs, as `bmtools.vocab.words.count_words` gives it.
        spaced: whether words have a space before them in this language.
    """
    total = pieces = whole = unknown = 0
    unknowns = find_unknown(backend)
    for ids, count in zip(encode_words(backend, words, spaced), words.values(), strict=True):
        lost = not unknowns.isdisjoint(ids)
        total += count
        pieces += count * len(ids)
        whole += count * (len(ids) == 1 and not lost)
        unknown += count * lost
    return Fragmentation(total, pieces, whole, unknown)


def encode_words(backend: Any, words: Iterable[str], spaced: bool = True) -> Iterator[list[int]]:
    """Give the ids of each word, or of several in one string, as behind a space in a text.

    So byte-level BPE takes `Ġword` and Metaspace `▁word`, and WordPiece has no difference. A token
    of that space alone counts to the word.

    Args:
        backend: a `tokenizers.Tokenizer`; encodes each word once, in batches.
        spaced: whether words have a space before them; else Metaspace's token for one that is not
            there is left out.
    """
    before = backend.encode(_LEAD if spaced else "", add_special_tokens=False).ids
    lead = f"{_LEAD} " if spaced else ""
    blank = None if spaced else backend.token_to_id(BLANK)
    pending = iter(words)
    while chunk := list(islice(pending, _AT_ONCE)):
        found = backend.encode_batch_fast([lead + word for word in chunk],
                                          add_special_tokens=False)
        for word, encoding in zip(chunk, found, strict=True):
            ids = encoding.ids
            if ids[:len(before)] != before:  # tokens across spaces have joined the two
                ids = [*before, *backend.encode(f" {word}", add_special_tokens=False).ids]
            begin = len(before)
            yield ids[begin + (blank is not None and ids[begin:begin + 1] == [blank]):]


def find_unknown(backend: Any) -> frozenset[int]:
    """Name the id that stands for what cannot be spelled; empty where everything can be."""
    model = json.loads(backend.to_str())["model"]
    if model["type"] == "Unigram":
        return frozenset() if model["unk_id"] is None else frozenset((model["unk_id"],))
    number = backend.token_to_id(model["unk_token"]) if model.get("unk_token") else None
    return frozenset() if number is None else frozenset((number,))
