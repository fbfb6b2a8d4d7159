"""Fragmentation: how far a tokenizer breaks words up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from tokenizers import Tokenizer

from bmtools.vocab.tokenizer_json import METASPACE, unknown_ids

_WORDS_AT_ONCE = 10_000
# A word is encoded after another, so that it has the space before it that it has in a text.
_PRECEDING = "a"


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """Pieces of words; every figure counts a word as often as it occurs.

    Args:
        words: number of words.
        pieces: their tokens; an unknown word counts its unknown tokens.
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


def fragmentation(backend: Tokenizer, words: Mapping[str, int],
                  spaced: bool = True) -> Fragmentation:
    """Measure how far words are broken up as in running text, after a space.

    Args:
        backend: a tokenizer of any type.
        words: how often each occurs, as from `bmtools.vocab.words.count_words`.
        spaced: words have a space before them in this language.
    """
    total = pieces = whole = unknown = 0
    unknowns = unknown_ids(backend)
    for ids, count in zip(encode_words(backend, words, spaced), words.values(), strict=True):
        is_unknown = not unknowns.isdisjoint(ids)
        total += count
        pieces += count * len(ids)
        whole += count * (len(ids) == 1 and not is_unknown)
        unknown += count * is_unknown
    return Fragmentation(total, pieces, whole, unknown)


def encode_words(backend: Tokenizer, words: Iterable[str],
                 spaced: bool = True) -> Iterator[list[int]]:
    """Encode each word, or several in one string, as after a space in a text.

    So byte-level BPE takes `Ġword` and Metaspace `▁word`, and WordPiece has no difference. A token
    of that space alone counts as part of the word.

    Args:
        backend: encodes each word once, in batches.
        spaced: words have a space before them; else Metaspace's token for one that is not there
            is left out.
    """
    preceding = backend.encode(_PRECEDING if spaced else "", add_special_tokens=False).ids
    lead = f"{_PRECEDING} " if spaced else ""
    space = None if spaced else backend.token_to_id(METASPACE)
    pending = iter(words)
    while chunk := list(islice(pending, _WORDS_AT_ONCE)):
        found = backend.encode_batch_fast([lead + word for word in chunk],
                                          add_special_tokens=False)
        for word, encoding in zip(chunk, found, strict=True):
            ids = encoding.ids
            if ids[:len(preceding)] != preceding:  # tokens across spaces have joined the two
                ids = [*preceding, *backend.encode(f" {word}", add_special_tokens=False).ids]
            begin = len(preceding)
            yield ids[begin + (space is not None and ids[begin:begin + 1] == [space]):]
