"""Vocabularies and tokenizers: training, extending, comparing, loading, encoding."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.vocab.build import build_vocab as build_vocab
    from bmtools.vocab.comparison import compare_vocab as compare_vocab

export(__name__, build_vocab="bmtools.vocab.build:build_vocab",
       compare_vocab="bmtools.vocab.comparison:compare_vocab")
