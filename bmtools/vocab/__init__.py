"""Vocabularies and tokenizers: training, extending, comparing, loading, encoding."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.vocab.build_vocab import build_vocab as build_vocab
    from bmtools.vocab.compare_vocab import compare_terms as compare_terms
    from bmtools.vocab.compare_vocab import compare_vocab as compare_vocab

export(__name__, build_vocab="bmtools.vocab.build_vocab:build_vocab",
       compare_terms="bmtools.vocab.compare_vocab:compare_terms",
       compare_vocab="bmtools.vocab.compare_vocab:compare_vocab")
