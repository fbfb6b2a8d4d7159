"""Vocabularies and tokenizers: training, extending, comparing, loading, encoding."""

from bmtools.lazy import export

export(__name__, build_vocab="bmtools.vocab.build:build_vocab",
       compare_vocab="bmtools.vocab.comparison:compare_vocab")
