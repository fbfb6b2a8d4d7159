"""Training of tokenizers: WordPiece, byte-level BPE and Unigram, with their special tokens."""

from __future__ import annotations

import io
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tokenizers.decoders import Decoder
from tokenizers.models import Model
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer
from transformers import BertTokenizer, PreTrainedTokenizerFast

from bmtools.errors import DataError, setting
from bmtools.records import JsonObject
from bmtools.status import set_status
from bmtools.vocab.pretokens import MICRO, SPACES, count_pretokens, most_frequent, train_model
from bmtools.vocab.settings import SpecialTokenStyle, TokenizerType, VocabularyConfig
from bmtools.vocab.tokenizer import METASPACE

Components = tuple[Normalizer | None, PreTokenizer, Decoder]
_PREFIX = "##"
_BYTE_SPACE = "\u0120"  # the letter for the byte of a space
# Sums of probabilities depend on how words are split among threads, not on how many run.
_UNIGRAM_THREADS = 8
_MAX_PIECE_CHARACTERS = 32  # long enough for the names of most substances
_FORMS = {"nfc": normalizers.NFC, "nfkc": normalizers.NFKC}
_GREEK = [(letter, unicodedata.name(letter).split()[-1].lower().replace("lamda", "lambda"))
          for letter in map(chr, range(0x3B1, 0x3CA))]  # with the final sigma
_PLAIN_GREEK = {"\u03d1": "theta", "\u03d5": "phi", "\u03f0": "kappa", "\u03f1": "rho",
                "\u03f5": "epsilon"} | {
                    one: name if one.islower() else name.capitalize()
                    for letter, name in _GREEK for one in (letter, letter.upper())}
# Those with an accent stand for plain ones in many abstracts: TNF-\u03ac.
GREEK = _PLAIN_GREEK | {letter: _PLAIN_GREEK[plain[0]] for letter in map(chr, range(0x386, 0x3CF))
                        if len(plain := unicodedata.normalize("NFD", letter)) > 1}
"""Greek letters and their names; a capital letter has a capital name."""


def train_tokenizer(texts: Iterable[str], config: VocabularyConfig) -> PreTrainedTokenizerFast:
    """Train a tokenizer.

    The same texts, in any order, give the same bytes, at any number of threads.

    Args:
        texts: read once; their distinct words are held in memory.
        config: with a size.

    Raises:
        DataError: no text, or too little of it for the size.
    """
    trainer = TRAINERS[config.tokenizer_type](config)
    words = trainer.count_words(texts)
    smallest = trainer.min_size(words)
    if config.size < smallest:
        size = setting("size")
        raise DataError(
            f"{size}: found {config.size}, but special tokens and single characters alone are "
            f"{smallest}; expected {size} {smallest} or more, or a lower "
            f"{setting('max_alphabet')}")
    set_status(f"learning {config.size:,} tokens from {len(words):,} different words")
    tokenizer = trainer.train(words, config.size)
    config.require_size(len(tokenizer))
    return tokenizer


@dataclass(frozen=True)
class SpecialTokenScheme:
    """Special tokens of a model family and the template that puts them around a text.

    Args:
        tokens: names in the order of their ids, from 0.
        roles: token by transformers' attribute (`mask_token` ...).
        single: template of one text, with token type ids.
        pair: template of two.
        mask_takes_space: the mask replaces a word together with the space before it.
        model_inputs: names of the tensors that the model takes.
    """

    tokens: tuple[str, ...]
    roles: Mapping[str, str]
    single: str
    pair: str
    mask_takes_space: bool
    model_inputs: tuple[str, ...] = ("input_ids", "attention_mask")


_BERT_ROLES = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]",
               "sep_token": "[SEP]", "mask_token": "[MASK]"}
_BERT_TEMPLATES = ("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1")
SCHEMES: Mapping[SpecialTokenStyle, SpecialTokenScheme] = {
    "bert": SpecialTokenScheme(
        ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), _BERT_ROLES, *_BERT_TEMPLATES,
        mask_takes_space=False, model_inputs=("input_ids", "token_type_ids", "attention_mask")),
    # Positions of RoBERTa models count from the id of padding, which is 1.
    "roberta": SpecialTokenScheme(
        ("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
        {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>",
         "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"},
        "<s>:0 $A:0 </s>:0", "<s>:0 $A:0 </s>:0 </s>:0 $B:0 </s>:0", mask_takes_space=True),
    "modernbert": SpecialTokenScheme(
        ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"), _BERT_ROLES, *_BERT_TEMPLATES,
        mask_takes_space=True),
}


def add_special_tokens(backend: Tokenizer, scheme: SpecialTokenScheme) -> PreTrainedTokenizerFast:
    """Add special tokens and templates to a tokenizer and wrap it for transformers.

    transformers builds the pipeline of its class BertTokenizer from `tokenizer_config.json`, not
    from `tokenizer.json`. So that class is used only where it comes to the same pipeline, and the
    generic one, which reads the pipeline as it is, elsewhere.

    Args:
        backend: has the special tokens at their ids; gets the templates.
        scheme: the special tokens.
    """
    mask = scheme.roles["mask_token"]
    special = [AddedToken(token, special=True, normalized=False,
                          lstrip=token == mask and scheme.mask_takes_space)
               for token in scheme.tokens]
    backend.add_special_tokens(special)
    model = type(backend.model).__name__
    if scheme is SCHEMES["roberta"] and model == "BPE":
        # The same template, which also leaves the space before a word out of its offsets.
        backend.post_processor = processors.RobertaProcessing(
            ("</s>", scheme.tokens.index("</s>")), ("<s>", scheme.tokens.index("<s>")),
            trim_offsets=True, add_prefix_space=False)
    else:
        backend.post_processor = processors.TemplateProcessing(
            single=scheme.single, pair=scheme.pair,
            special_tokens=[(token, number) for number, token in enumerate(scheme.tokens)
                            if token in scheme.pair])
    if scheme is SCHEMES["bert"] and model == "WordPiece":
        normalizer = backend.normalizer
        bert = BertTokenizer(vocab=backend.get_vocab(),
                             do_lower_case=getattr(normalizer, "lowercase", False),
                             strip_accents=getattr(normalizer, "strip_accents", False))
        theirs = bert.backend_tokenizer
        if (theirs.normalizer.__getstate__() == normalizer.__getstate__()
            and theirs.pre_tokenizer.__getstate__() == backend.pre_tokenizer.__getstate__()):
            return bert
    roles = {**scheme.roles, "mask_token": special[scheme.tokens.index(mask)]}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, model_input_names=list(scheme.model_inputs), **roles)


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
    def alphabet(self, words: Counter[str]) -> set[str]:
        """Find the tokens of single characters, without which nothing can be spelled."""

    def frequent_characters(self, words: Counter[str]) -> set[str]:
        """Find the characters that are frequent enough to keep."""
        counts: Counter[str] = Counter()
        for word, count in words.items():
            for character in word:
                counts[character] += count
        return set(most_frequent(counts, self.config.max_alphabet))

    def unicode_steps(self) -> list[Normalizer]:
        """Return the normalizers of Unicode form and Greek letters."""
        form = _FORMS.get(self.config.unicode)
        steps: list[Normalizer] = [form()] if form else []
        if self.config.spell_greek:
            steps.append(normalizers.Replace(Regex(MICRO), "u"))
            steps += [normalizers.Replace(letter, name) for letter, name in GREEK.items()]
        return steps

    def plain_normalizer(self, collapse_spaces: bool) -> Normalizer | None:
        """Return Unicode form, Greek, case and accents, in this order; None without any of them.

        Accents can only be dropped once they are apart from their letters; what is left of them
        (Korean syllables, say) is joined again.

        Args:
            collapse_spaces: make one space of each run of white space, and none at the end: for
                tokenizer types that have no tokens for tabs and ends of lines.
        """
        steps = self.unicode_steps()
        if collapse_spaces:
            steps += [normalizers.Replace(Regex(SPACES), " "),
                      normalizers.Strip(left=False, right=True)]
        if self.config.uncased:
            steps.append(normalizers.Lowercase())
        if self.config.strip_accents:
            steps += [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
        return normalizers.Sequence(steps) if steps else None

    def truncated(self, model: JsonObject, size: int) -> JsonObject:
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
        return len(self.special_tokens.tokens) + len(self.alphabet(words))

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
        bert = normalizers.BertNormalizer(lowercase=self.config.uncased,
                                          strip_accents=self.config.strip_accents)
        before = self.unicode_steps()  # BERT's own normalizer lacks them
        return (normalizers.Sequence([*before, bert]) if before else bert,
                pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(prefix=_PREFIX))

    def fit(self, words: Counter[str], size: int) -> Model:
        """Merge pairs of pieces, the most frequent first.

        The library's trainer numbers the characters inside words in the order of a randomly
        seeded hash map, and ties between merges follow those numbers, so two runs differ.
        Numbering all characters beforehand removes the chance.
        """
        alphabet = self.alphabet(words)
        first = sorted(token for token in alphabet if not token.startswith(_PREFIX))
        trainer = trainers.WordPieceTrainer(
            vocab_size=size, min_frequency=self.config.min_frequency,
            special_tokens=[*self.special_tokens.tokens, *first, *sorted(alphabet - {*first})],
            continuing_subword_prefix=_PREFIX, show_progress=False)
        unknown = self.special_tokens.roles["unk_token"]
        # Words with another character are unknown anyway; the trainer would add the character.
        spellable = Counter({word: count for word, count in words.items() if word[0] in alphabet
                             and all(_PREFIX + character in alphabet for character in word[1:])})
        model = train_model(models.WordPiece(unk_token=unknown), trainer, spellable)
        assert isinstance(model, models.WordPiece)
        model.unk_token = unknown
        return model

    def alphabet(self, words: Counter[str]) -> set[str]:
        """Find the characters kept, at the start of words and inside them."""
        kept = self.frequent_characters(words)
        inner = {character for word in words for character in word[1:]} & kept
        return {word[0] for word in words} & kept | {_PREFIX + character for character in inner}


class BpeTrainer(TokenizerTrainer):
    """Trainer of byte-level BPE as GPT-2 and RoBERTa use it.

    A digit of its own takes the space before it along, as a word does. The library's own
    splitter of digits also splits at letters that stand for bytes and look like raised digits,
    and would break other characters up.
    """

    _digit = f"{_BYTE_SPACE}?[0-9]"

    def components(self) -> Components:
        return (self.plain_normalizer(collapse_spaces=False),
                pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel())

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

    def alphabet(self, words: Counter[str]) -> set[str]:
        return set(pre_tokenizers.ByteLevel.alphabet())

    def truncated(self, model: JsonObject, size: int) -> JsonObject:
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
        return (self.plain_normalizer(collapse_spaces=True), pre_tokenizers.Metaspace(),
                decoders.Metaspace())

    def fit(self, words: Counter[str], size: int) -> Model:
        """Start from frequent strings and drop those that the likelihood of the text misses least.

        SentencePiece does it: the trainer of tokenizers gives other probabilities in every run,
        since it sums them up in the order of a randomly seeded hash map.

        Source: Kudo 2018, section 3.2.
        """
        alphabet = self.alphabet(words)
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

    def alphabet(self, words: Counter[str]) -> set[str]:
        return self.frequent_characters(words)


TRAINERS: Mapping[TokenizerType, type[TokenizerTrainer]] = {
    "wordpiece": WordPieceTrainer, "bpe": BpeTrainer, "unigram": UnigramTrainer}
