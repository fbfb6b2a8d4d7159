"""Learning a Unigram vocabulary."""

from __future__ import annotations

import io
from typing import Any

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from bmtools.vocab.counting import alphabet_of, blank, most_frequent
from bmtools.vocab.normalization import plain_normalizer
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.special_tokens import SpecialTokensLayout
from bmtools.vocab.token_text import BLANK
from bmtools.vocab.tokenizer_type import TokenizerType, Words

# Sums of probabilities depend on how words are shared out among threads, not on how many run.
_THREADS = 8
_LONGEST_PIECE = 32  # characters; long enough for the names of most substances


def _steps(settings: VocabularyConfig) -> Tokenizer:
    splitter: Any = pre_tokenizers.Metaspace()
    if settings.split_digits:
        splitter = pre_tokenizers.Sequence(
            [splitter, pre_tokenizers.Split(Regex(f"{BLANK}?[0-9]"), "isolated")])
    return blank(plain_normalizer(settings, join_spaces=True), splitter, decoders.Metaspace())


def _fit(words: Words, settings: VocabularyConfig, layout: SpecialTokensLayout) -> Any:
    """Start from frequent strings and drop those that the likelihood of the text misses least.

    SentencePiece does it: the trainer of tokenizers gives other probabilities in every run, since
    it sums them up in the order of a randomly seeded hash map.

    Source: Kudo 2018, section 3.2.
    """
    kept = _alphabet(words, settings)
    lines = (f"{word}\t{words[word]}" for word in sorted(words) if kept.issuperset(word))
    written = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=lines, input_format="tsv", model_writer=written, model_type="unigram",
        vocab_size=settings.size - len(layout.tokens) + 1, hard_vocab_limit=False,
        unk_id=0, bos_id=-1, eos_id=-1, pad_id=-1, character_coverage=1.0,
        normalization_rule_name="identity", add_dummy_prefix=False,
        remove_extra_whitespaces=False, max_sentencepiece_length=_LONGEST_PIECE,
        num_threads=_THREADS, minloglevel=2)
    learned = SentencePieceProcessor(model_proto=written.getvalue())
    pieces = [(learned.id_to_piece(number), learned.get_score(number))
              for number in range(1, learned.get_piece_size())]
    special = [(token, 0.0) for token in layout.tokens]
    unknown = layout.tokens.index(layout.roles["unk_token"])
    return models.Unigram([*special, *pieces], unknown)


def _alphabet(words: Words, settings: VocabularyConfig) -> set[str]:
    return set(most_frequent(alphabet_of(words), settings.max_alphabet))


def _count_alphabet(words: Words, settings: VocabularyConfig) -> int:
    return len(_alphabet(words, settings))


UNIGRAM = TokenizerType(_steps, _fit, _count_alphabet)
