"""Fixtures for tests of robustness: the tiny directories of the tests of commands."""

from commands.conftest import (  # noqa: F401
    contents,
    corpus_records,
    make_checkpoint,
    make_tagger,
    make_tokenizer,
    piped,
    tiny_checkpoint,
    tiny_tokenizer,
)
