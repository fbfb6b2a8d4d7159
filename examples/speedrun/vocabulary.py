"""Make a vocabulary of the most frequent words of a text, and of pieces for all other words.

    python vocabulary.py TEXT... --pieces WORDPIECE --words 10000 -o DIRECTORY

A masked word counts in the score only if it is one token. In a WordPiece vocabulary, about two of
five tokens are pieces and intermediate steps to longer words. This script uses these tokens for
words. Therefore 12,000 tokens contain the same number of masked words as 24,000 WordPiece tokens.
The pieces are from a small WordPiece vocabulary (`bmtools build-vocab --size 2000`).
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from transformers import BertTokenizer

from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.tokenizer import is_uncased, save_tokenizer


def count_words(texts: Iterable[str], tokenizer: Any) -> Counter[str]:
    """Count words as the tokenizer's pre-tokenizer splits them."""
    backend = tokenizer.backend_tokenizer
    chunks: Counter[str] = Counter()
    for text in texts:
        chunks.update(text.split())
    words: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for word, _ in backend.pre_tokenizer.pre_tokenize_str(
                backend.normalizer.normalize_str(chunk)):
            words[word] += count
    return words


def with_words(tokenizer: Any, words: Counter[str], most: int) -> Any:
    """Add the most frequent words that a WordPiece tokenizer splits into pieces.

    Ties are broken alphabetically, so equal texts produce equal tokens.
    """
    known = tokenizer.get_vocab()
    ranked = sorted(words, key=lambda word: (-words[word], word))[:most]
    tokens = [*sorted(known, key=lambda token: known[token]),
              *(word for word in ranked if word not in known)]
    return BertTokenizer(vocab={token: number for number, token in enumerate(tokens)},
                         do_lower_case=is_uncased(tokenizer), strip_accents=False)


def content_words(tokenizer: Any, words: Counter[str], common: int) -> list[str]:
    """List the content words of a vocabulary: words of letters, except for the most frequent words.

    The hundred most frequent words, mostly articles and prepositions, are half of all words in a
    text.
    """
    known = tokenizer.get_vocab()
    ranked = sorted(words, key=lambda word: (-words[word], word))
    return [word for word in ranked[common:] if word in known and word.isalpha() and len(word) > 1]


def texts_of(names: Iterable[Path]) -> Iterator[str]:
    """Yield the texts of records."""
    for name in names:
        for line in name.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)["text"]


def main() -> None:
    """Write the tokenizer."""
    parser = argparse.ArgumentParser(description="Make a vocabulary of whole words.")
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--pieces", type=Path, required=True, help="WordPiece tokenizer")
    parser.add_argument("--words", type=int, required=True, help="most frequent words to add")
    parser.add_argument("--content", type=Path,
                        help="write the content words, which will be masked, to this file")
    parser.add_argument("--common", type=int, default=100,
                        help="number of most frequent words and signs that are not content words")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    pieces = load_tokenizer(given.pieces)
    words = count_words(texts_of(given.texts), pieces)
    made = with_words(pieces, words, given.words)
    save_tokenizer(made, given.output)
    if given.content:
        given.content.write_text("\n".join(content_words(made, words, given.common)) + "\n",
                                 encoding="utf-8")
    print(json.dumps({"output": str(given.output), "tokens": len(made)}))


if __name__ == "__main__":
    main()
