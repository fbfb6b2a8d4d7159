"""Invalid settings of vocabularies."""

from __future__ import annotations

from typing import Any

import pytest

from bmtools.vocab.settings import VocabularyConfig


@pytest.mark.parametrize(("given", "message"), [
    ({"size": 99}, "size: found 99, expected 100 or more"),
    ({"min_frequency": 0}, "min_frequency: found 0"),
    ({"tokenizer_type": "words"},
     "tokenizer_type: found words, expected wordpiece or bpe or unigram"),
    ({"special_tokens": "gpt"},
     "special_tokens: found gpt, expected bert or roberta or modernbert"),
    ({"unicode": "nfd"}, "unicode: found nfd, expected nfc or nfkc or none"),
    ({"sample_megabytes": -1}, "sample_megabytes: found -1"),
])
def test_wrong_values_name_their_option(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VocabularyConfig(**given)
