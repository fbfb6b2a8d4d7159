"""Training of tokenizers: WordPiece, byte-level BPE and Unigram behind one interface."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers.decoders import Decoder
from tokenizers.models import Model
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer
from transformers import PreTrainedTokenizerFast

from bmtools.errors import DataError, setting
from bmtools.vocab.normalization import bert_normalizer, plain_normalizer
from bmtools.vocab.pretokens import (
    count_characters,
    count_pretokens,
    most_frequent,
    train_model,
)
from bmtools.vocab.settings import TokenizerType, VocabularyConfig
from bmtools.vocab.special_tokens import SCHEMES, add_special_tokens
from bmtools.vocab.tokenizer_json import METASPACE

Components = tuple[Normalizer | None, PreTokenizer, Decoder]
_PREFIX = "##"
_BYTE_SPACE = "\u0120"  # the letter for the byte of a space
# Sums of probabilities depend on how words are split among threads, not on how many run.
_UNIGRAM_THREADS = 8
_MAX_PIECE_CHARACTERS = 32  # long enough for the names of most substances


def train_tokenizer(texts: Iterable[str], config: VocabularyConfig) -> PreTrainedTokenizerFast:
    """Train a tokenizer.

    The same texts, in any order, give the same bytes, at any number of threads.

    Args:
        texts: read once; their distinct words are held in memory.
        config: with a size.

    Raises:
        DataError: no text, or too little of it for the size.
    """
    trainer = trainer_for(config)
    words = trainer.count_words(texts)
    smallest = trainer.min_size(words)
    if config.size < smallest:
        size = setting("size")
        raise DataError(
            f"{size}: found {config.size}, but special tokens and single characters alone are "
            f"{smallest}; expected {size} {smallest} or more, or a lower "
            f"{setting('max_alphabet')}")
    tokenizer = trainer.train(words, config.size)
    require_size(len(tokenizer), config)
    return tokenizer


def require_size(found: int, config: VocabularyConfig, beside: str = "") -> None:
    """Refuse a vocabulary that is smaller than requested, unless that is allowed.

    Args:
        found: tokens that the text supports.
        config: the request.
        beside: what else the message says of these tokens.

    Raises:
        DataError: names the size that the text supports.
    """
    if found < config.size and not config.allow_fewer:
        size = setting("size")
        raise DataError(
            f"{size}: found {config.size}, but the text supports {found} tokens{beside}; expected "
            f"{size} {found} or less, more text, or {setting('allow_fewer')} to take what there "
            "is")


def trainer_for(config: VocabularyConfig) -> TokenizerTrainer:
    """Return the trainer of a tokenizer type."""
    return TRAINERS[config.tokenizer_type](config)


class TokenizerTrainer(ABC):
    """Trainer of one tokenizer type.

    Args:
        config: all settings; its size is not used.

    Attributes:
        sizes_nest: a smaller vocabulary is the beginning of a larger one (see `truncated`).
    """

    sizes_nest: ClassVar[bool] = True
    _digit: ClassVar[str]

    def __init__(self, config: VocabularyConfig) -> None:
        self.config = config
        self.special_tokens = SCHEMES[config.special_token_style]

    @abstractmethod
    def components(self) -> Components:
        """Return the normalizer, the pre-tokenizer and the decoder."""

    @abstractmethod
    def fit(self, words: Counter[str], size: int) -> Model:
        """Train a model on words with counts; it may turn out smaller than the size."""

    @abstractmethod
    def alphabet_size(self, words: Counter[str]) -> int:
        """Count the tokens of single characters, without which nothing can be spelled."""

    def truncated(self, model: dict[str, Any], size: int) -> dict[str, Any]:
        """Reduce a model, as JSON, to what training at a smaller size would have given."""
        return {**model, "vocab": {token: number for token, number in model["vocab"].items()
                                   if number < size}}

    def pipeline(self) -> Tokenizer:
        """Return a tokenizer with an empty model and all else that the settings ask for."""
        normalizer, pre_tokenizer, decoder = self.components()
        if self.config.split_digits:
            pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizer, pre_tokenizers.Split(Regex(self._digit), "isolated")])
        backend = Tokenizer(models.BPE())
        if normalizer is not None:
            backend.normalizer = normalizer
        backend.pre_tokenizer, backend.decoder = pre_tokenizer, decoder
        return backend

    def count_words(self, texts: Iterable[str]) -> Counter[str]:
        """Count words as this type splits them.

        Raises:
            DataError: no words.
        """
        return count_pretokens(texts, self.pipeline())

    def min_size(self, words: Counter[str]) -> int:
        """Return the smallest size that has room for all special tokens and characters."""
        return len(self.special_tokens.tokens) + self.alphabet_size(words)

    def build(self, model: Model) -> PreTrainedTokenizerFast:
        """Return a tokenizer of transformers around a model."""
        backend = self.pipeline()
        backend.model = model
        return add_special_tokens(backend, self.special_tokens)

    def train(self, words: Counter[str], size: int) -> PreTrainedTokenizerFast:
        """Train a tokenizer of a size, or of as many tokens as the words support."""
        return self.build(self.fit(words, size))


class WordPieceTrainer(TokenizerTrainer):
    """Trainer of WordPiece as BERT uses it."""

    _digit = "[0-9]"

    def components(self) -> Components:
        return (bert_normalizer(self.config), pre_tokenizers.BertPreTokenizer(),
                decoders.WordPiece(prefix=_PREFIX))

    def fit(self, words: Counter[str], size: int) -> Model:
        """Merge pairs of pieces, the most frequent first.

        The library's trainer numbers the characters inside words in the order of a randomly
        seeded hash map, and ties between merges follow those numbers, so two runs differ.
        Numbering all characters beforehand removes the chance.
        """
        alphabet = self._alphabet(words)
        trainer = trainers.WordPieceTrainer(
            vocab_size=size, min_frequency=self.config.min_frequency,
            special_tokens=[*self.special_tokens.tokens, *alphabet],
            continuing_subword_prefix=_PREFIX, show_progress=False)
        unknown = self.special_tokens.roles["unk_token"]
        model: Any = train_model(models.WordPiece(unk_token=unknown), trainer,
                                 _spellable(words, set(alphabet)))
        model.unk_token = unknown
        return model

    def alphabet_size(self, words: Counter[str]) -> int:
        return len(self._alphabet(words))

    def _alphabet(self, words: Counter[str]) -> list[str]:
        """Return the characters kept, at the start of words and inside them, in a fixed order."""
        kept = set(most_frequent(count_characters(words), self.config.max_alphabet))
        first = {word[0] for word in words} & kept
        inner = {character for word in words for character in word[1:]} & kept
        return sorted(first) + [_PREFIX + character for character in sorted(inner)]


def _spellable(words: Counter[str], alphabet: set[str]) -> Counter[str]:
    """Leave out words with a character outside the alphabet: they are unknown anyway, and the
    trainer would add the character."""
    return Counter({word: count for word, count in words.items()
                    if word[0] in alphabet and all(_PREFIX + c in alphabet for c in word[1:])})


class BpeTrainer(TokenizerTrainer):
    """Trainer of byte-level BPE as GPT-2 and RoBERTa use it.

    A digit of its own takes the space before it along, as a word does. The library's own
    splitter of digits also splits at letters that stand for bytes and look like raised digits,
    and would break other characters up.
    """

    _digit = f"{_BYTE_SPACE}?[0-9]"

    def components(self) -> Components:
        return (plain_normalizer(self.config, collapse_spaces=False),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
                decoders.ByteLevel())

    def fit(self, words: Counter[str], size: int) -> Model:
        """Merge pairs of tokens, the most frequent first; ties go by the order of the bytes.

        Source: Sennrich et al. 2016, section 3.2, over bytes as in Radford et al. 2019,
        section 2.2.
        """
        trainer = trainers.BpeTrainer(
            vocab_size=size, min_frequency=self.config.min_frequency,
            special_tokens=list(self.special_tokens.tokens), show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
        return train_model(models.BPE(), trainer, words)

    def alphabet_size(self, words: Counter[str]) -> int:
        return len(pre_tokenizers.ByteLevel.alphabet())

    def truncated(self, model: dict[str, Any], size: int) -> dict[str, Any]:
        """Keep the first tokens, and the merges up to the one that makes the last of them."""
        merges = []
        for left, right in model["merges"]:
            number = model["vocab"][left + right]
            if number >= size:
                break
            merges.append([left, right])
            if number == size - 1:
                break
        return {**super().truncated(model, size), "merges": merges}


class UnigramTrainer(TokenizerTrainer):
    """Trainer of Unigram as SentencePiece does it; each size is trained by itself."""

    sizes_nest = False
    _digit = f"{METASPACE}?[0-9]"

    def components(self) -> Components:
        return (plain_normalizer(self.config, collapse_spaces=True), pre_tokenizers.Metaspace(),
                decoders.Metaspace())

    def fit(self, words: Counter[str], size: int) -> Model:
        """Start from frequent strings and drop those that the likelihood of the text misses least.

        SentencePiece does it: the trainer of tokenizers gives other probabilities in every run,
        since it sums them up in the order of a randomly seeded hash map.

        Source: Kudo 2018, section 3.2.
        """
        alphabet = self._alphabet(words)
        lines = (f"{word}\t{words[word]}" for word in sorted(words) if alphabet.issuperset(word))
        written = io.BytesIO()
        SentencePieceTrainer.train(
            sentence_iterator=lines, input_format="tsv", model_writer=written,
            model_type="unigram", vocab_size=size - len(self.special_tokens.tokens) + 1,
            hard_vocab_limit=False, unk_id=0, bos_id=-1, eos_id=-1, pad_id=-1,
            character_coverage=1.0, normalization_rule_name="identity", add_dummy_prefix=False,
            remove_extra_whitespaces=False, max_sentencepiece_length=_MAX_PIECE_CHARACTERS,
            num_threads=_UNIGRAM_THREADS, minloglevel=2)
        trained = SentencePieceProcessor(model_proto=written.getvalue())
        pieces = [(trained.id_to_piece(number), trained.get_score(number))
                  for number in range(1, trained.get_piece_size())]
        special = [(token, 0.0) for token in self.special_tokens.tokens]
        unknown = self.special_tokens.tokens.index(self.special_tokens.roles["unk_token"])
        return models.Unigram([*special, *pieces], unknown)

    def alphabet_size(self, words: Counter[str]) -> int:
        return len(self._alphabet(words))

    def _alphabet(self, words: Counter[str]) -> set[str]:
        return set(most_frequent(count_characters(words), self.config.max_alphabet))


TRAINERS: Mapping[TokenizerType, type[TokenizerTrainer]] = {
    "wordpiece": WordPieceTrainer, "bpe": BpeTrainer, "unigram": UnigramTrainer}
