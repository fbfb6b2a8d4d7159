"""Fixtures of the tests of robustness: those of the commands, which build tiny directories."""

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
