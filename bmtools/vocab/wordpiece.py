"""Learning a WordPiece vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer

from bmtools.errors import DataError
from bmtools.vocab.settings import WordPieceSettings

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
INNER = "##"


def learn(texts: Iterable[str], settings: WordPieceSettings) -> Any:
    """Learn a vocabulary and return a BERT tokenizer; the same texts give the same bytes.

    The library's trainer numbers the characters inside words in the order of a randomly seeded
    hash map, and ties between merges follow those numbers, so two runs differ. Numbering all
    characters beforehand removes the chance.

    Args:
        texts: read once; distinct chunks between white space and their counts are held in
            memory, which grows with the vocabulary of the corpus and not with its length.

    Raises:
        DataError: no text, or too little of it for one character.
    """
    normalizer = normalizers.BertNormalizer(
        lowercase=settings.uncased, strip_accents=settings.strip_accents)
    splitter = pre_tokenizers.BertPreTokenizer()
    words = _count_words(texts, normalizer, splitter)
    alphabet = _alphabet(words, settings.max_alphabet)
    if not alphabet:
        raise DataError("no words in the input; expected records with some text")
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=settings.size, min_frequency=settings.min_frequency,
        special_tokens=[*SPECIAL, *alphabet], continuing_subword_prefix=INNER,
        show_progress=False)
    tokenizer.train_from_iterator(_repeated(_spellable(words, alphabet)), trainer)
    return BertTokenizer(vocab=tokenizer.get_vocab(), do_lower_case=settings.uncased,
                         strip_accents=settings.strip_accents)


def _count_words(texts: Iterable[str], normalizer: Any, splitter: Any) -> Counter[str]:
    """Count words; each distinct chunk between white space is split only once."""
    chunks: Counter[str] = Counter()
    for text in texts:
        chunks.update(text.split())
    words: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(chunk)):
            words[word] += count
    return words


def _alphabet(words: Counter[str], limit: int) -> list[str]:
    """The characters to keep, at the start of words and inside them, in a stable order."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    kept = set(ranked[:limit])
    first = {word[0] for word in words} & kept
    inner = {character for word in words for character in word[1:]} & kept
    return sorted(first) + [INNER + character for character in sorted(inner)]


def _spellable(words: Counter[str], alphabet: list[str]) -> Counter[str]:
    """Leave out words with a character outside the alphabet: they are unknown anyway, and the
    trainer would take the character in."""
    known = set(alphabet)
    return Counter({word: count for word, count in words.items()
                    if word[0] in known and all(INNER + c in known for c in word[1:])})


def _repeated(words: Counter[str], line: int = 1_000) -> Iterator[str]:
    """Spell a count as that many words, in lines of bounded length."""
    for word, count in words.items():
        for start in range(0, count, line):
            yield " ".join([word] * min(line, count - start))
