"""Training of tokenizers: WordPiece, byte-level BPE and Unigram, with their special tokens."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
from tokenizers.models import Model
from tokenizers.normalizers import Normalizer

from bmtools.errors import DataError, setting
from bmtools.status import set_status
from bmtools.vocab.loading import BackendTokenizer
from bmtools.vocab.pretokens import (
    BEFORE_EXPONENT,
    BEFORE_FRACTION,
    SPACES,
    count_pretokens,
    most_frequent,
    train_model,
)
from bmtools.vocab.settings import SpecialTokenStyle, TokenizerType, VocabularyConfig
from bmtools.vocab.tokenizer import CONFIG, METASPACE, TOKENIZER

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_PREFIX = "##"
# A separate digit includes the space before it, as a word does. The library's own digit splitter
# also splits at letters that represent bytes and look like raised digits.
_DIGITS: Mapping[TokenizerType, str] = {
    "wordpiece": "[0-9]", "bpe": "\u0120?[0-9]", "unigram": f"{METASPACE}?[0-9]"}
# Sums of probabilities depend on how words are divided among threads, not on the threads that run.
_UNIGRAM_THREADS = 8
_MAX_PIECE_CHARACTERS = 32  # long enough for the names of most substances


def train_backend(texts: Iterable[str], config: VocabularyConfig) -> TrainedTokenizer:
    """Train a tokenizer.

    The result is the same, byte for byte, for any order of the texts and any number of threads.

    Args:
        texts: read once; their distinct words are kept in memory.
        config: settings, including the size.

    Raises:
        DataError: there is no text, or too little text for the size.
    """
    backend, scheme = make_pipeline(config), SCHEMES[config.special_token_style]
    words = count_pretokens(texts, backend)
    alphabet = _alphabet(words, config)
    smallest = len(scheme.tokens) + len(alphabet)
    if config.size < smallest:
        size = setting("size")
        raise DataError(
            f"{size}: found {config.size}, but there are {smallest} special tokens and "
            f"single characters; set {size} {smallest} or more, or a lower "
            f"{setting('max_alphabet')}")
    set_status(f"learning {config.size:,} tokens from {len(words):,} different words")
    fit = {"wordpiece": _fit_wordpiece, "bpe": _fit_bpe, "unigram": _fit_unigram}
    backend.model = fit[config.tokenizer_type](words, alphabet, scheme, config)
    tokenizer = TrainedTokenizer(backend, scheme)
    config.require_size(len(tokenizer))
    return tokenizer


@dataclass(frozen=True)
class SpecialTokenScheme:
    """Special tokens of a model family and the template that puts them around a text.

    Args:
        tokens: tokens in the order of their ids, from 0.
        roles: token by transformers' attribute (`mask_token` ...).
        single: template of one text, with token type ids.
        pair: template of two texts.
        mask_takes_space: whether the mask also replaces the space before a word.
        model_inputs: names of the model's input tensors.
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
    # RoBERTa models count positions from the padding id, which is 1.
    "roberta": SpecialTokenScheme(
        ("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
        {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>",
         "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"},
        "<s>:0 $A:0 </s>:0", "<s>:0 $A:0 </s>:0 </s>:0 $B:0 </s>:0", mask_takes_space=True),
    "modernbert": SpecialTokenScheme(
        ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"), _BERT_ROLES, *_BERT_TEMPLATES,
        mask_takes_space=True),
}


class TrainedTokenizer(BackendTokenizer):
    """A tokenizer that is saved without transformers, whose import takes a second and 200 MB.

    Args:
        backend: contains the special tokens at their ids; they are marked as special, and the
            templates are added.
        scheme: the special tokens.
    """

    def __init__(self, backend: Tokenizer, scheme: SpecialTokenScheme) -> None:
        mask = scheme.roles["mask_token"]
        self._special = {token: AddedToken(token, special=True, normalized=False,
                                           lstrip=token == mask and scheme.mask_takes_space)
                         for token in scheme.tokens}
        backend.add_special_tokens([*self._special.values()])
        model = type(backend.model).__name__
        if scheme is SCHEMES["roberta"] and model == "BPE":
            # The same template, but offsets do not include the space before a word.
            backend.post_processor = processors.RobertaProcessing(
                ("</s>", scheme.tokens.index("</s>")), ("<s>", scheme.tokens.index("<s>")),
                trim_offsets=True, add_prefix_space=False)
        else:
            backend.post_processor = processors.TemplateProcessing(
                single=scheme.single, pair=scheme.pair,
                special_tokens=[(token, number) for number, token in enumerate(scheme.tokens)
                                if token in scheme.pair])
        self._scheme = scheme
        # transformers builds the pipeline of its class BertTokenizer from tokenizer_config.json,
        # not from tokenizer.json. So that class is used only if it builds the same pipeline.
        self._is_bert = (scheme is SCHEMES["bert"] and model == "WordPiece"
                         and isinstance(backend.normalizer, normalizers.BertNormalizer)
                         and isinstance(backend.pre_tokenizer, pre_tokenizers.BertPreTokenizer))
        super().__init__(backend, {role.removesuffix("_token"): token
                                   for role, token in scheme.roles.items()})

    def save_pretrained(self, directory: Path) -> None:
        """Write tokenizer.json and tokenizer_config.json as transformers does."""
        self.backend_tokenizer.save(str(directory / TOKENIZER))
        config = {"backend": "tokenizers", "model_max_length": int(1e30), **self._scheme.roles}
        if self._is_bert:
            config |= {"tokenizer_class": "BertTokenizer", "tokenize_chinese_chars": True,
                       "strip_accents": self.backend_tokenizer.normalizer.strip_accents}
        else:
            config |= {"tokenizer_class": "PreTrainedTokenizerFast",
                       "model_input_names": self._scheme.model_inputs}
        (directory / CONFIG).write_text(json.dumps(config), encoding="utf-8")

    def loaded(self) -> PreTrainedTokenizerFast:
        """Return the tokenizer as an object of transformers."""
        from transformers import BertTokenizer, PreTrainedTokenizerFast

        if self._is_bert:
            normalizer = self.backend_tokenizer.normalizer
            return BertTokenizer(vocab=self.get_vocab(), do_lower_case=normalizer.lowercase,
                                 strip_accents=normalizer.strip_accents)
        roles = {role: self._special[token] if role == "mask_token" else token
                 for role, token in self._scheme.roles.items()}
        return PreTrainedTokenizerFast(
            tokenizer_object=self.backend_tokenizer,
            model_input_names=list(self._scheme.model_inputs), **roles)


def make_pipeline(config: VocabularyConfig) -> Tokenizer:
    """Make a tokenizer with an empty model and all other steps that the settings require.

    To drop accents, letters and accents are separated first. The remaining parts (of Korean
    syllables, for example) are joined again.
    """
    kind = config.tokenizer_type
    steps: list[Normalizer] = [] if config.unicode == "none" else \
        [getattr(normalizers, config.unicode.upper())()]
    if config.unicode == "nfkc":  # keep numbers correct: 10^6, not 106
        steps[:0] = [normalizers.Replace(Regex(BEFORE_EXPONENT), "^"),
                     normalizers.Replace(Regex(BEFORE_FRACTION), " ")]
    if kind == "wordpiece":
        steps.append(normalizers.BertNormalizer(lowercase=config.uncased,
                                                strip_accents=config.strip_accents))
    else:
        if kind == "unigram":  # it has no tokens for tabs and line ends
            steps += [normalizers.Replace(Regex(SPACES), " "),
                      normalizers.Strip(left=False, right=True)]
        if config.uncased:
            steps.append(normalizers.Lowercase())
        if config.strip_accents:
            steps += [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
    backend = Tokenizer(models.BPE())
    if steps:
        is_bert = kind == "wordpiece" and len(steps) == 1
        backend.normalizer = steps[0] if is_bert else normalizers.Sequence(steps)
    backend.pre_tokenizer, backend.decoder = {
        "wordpiece": (pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(_PREFIX)),
        "bpe": (pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()),
        "unigram": (pre_tokenizers.Metaspace(), decoders.Metaspace())}[kind]
    if config.split_digits:
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [backend.pre_tokenizer, pre_tokenizers.Split(Regex(_DIGITS[kind]), "isolated")])
    return backend


def _alphabet(words: Counter[str], config: VocabularyConfig) -> set[str]:
    """Find the tokens of single characters, which all other tokens consist of."""
    if config.tokenizer_type == "bpe":
        return set(pre_tokenizers.ByteLevel.alphabet())
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    kept = set(most_frequent(counts, config.max_alphabet))
    if config.tokenizer_type == "unigram":
        return kept
    inner = {character for word in words for character in word[1:]} & kept
    return {word[0] for word in words} & kept | {_PREFIX + character for character in inner}


def _fit_wordpiece(words: Counter[str], alphabet: set[str], scheme: SpecialTokenScheme,
                   config: VocabularyConfig) -> Model:
    """Merge pairs of pieces, the most frequent first.

    The library's trainer numbers the characters inside words in the order of a randomly
    seeded hash map. These numbers decide ties between merges, so two runs differ. To prevent this,
    all characters are numbered beforehand.
    """
    first = sorted(token for token in alphabet if not token.startswith(_PREFIX))
    trainer = trainers.WordPieceTrainer(
        vocab_size=config.size, min_frequency=config.min_frequency,
        special_tokens=[*scheme.tokens, *first, *sorted(alphabet - {*first})],
        continuing_subword_prefix=_PREFIX, show_progress=False)
    unknown = scheme.roles["unk_token"]
    # Words with other characters are unknown anyway, and the trainer would add the characters.
    spellable = Counter({word: count for word, count in words.items() if word[0] in alphabet
                         and all(_PREFIX + character in alphabet for character in word[1:])})
    model = train_model(models.WordPiece(unk_token=unknown), trainer, spellable)
    assert isinstance(model, models.WordPiece)
    model.unk_token = unknown
    return model


def _fit_bpe(words: Counter[str], alphabet: set[str], scheme: SpecialTokenScheme,
             config: VocabularyConfig) -> Model:
    """Merge pairs of tokens, the most frequent first; the order of bytes decides ties.

    Source: Sennrich et al. 2016, section 3.2, over bytes as in Radford et al. 2019,
    section 2.2.
    """
    return train_model(models.BPE(), trainers.BpeTrainer(
        vocab_size=config.size, min_frequency=config.min_frequency,
        special_tokens=list(scheme.tokens), show_progress=False,
        initial_alphabet=sorted(alphabet)), words)


def _fit_unigram(words: Counter[str], alphabet: set[str], scheme: SpecialTokenScheme,
                 config: VocabularyConfig) -> Model:
    """Start from frequent strings, and drop strings that contribute least to the text's likelihood.

    SentencePiece does the training. The trainer in tokenizers computes different probabilities in
    every run, because it sums them in the order of a randomly seeded hash map.

    Source: Kudo 2018, section 3.2.
    """
    lines = (f"{word}\t{words[word]}" for word in sorted(words) if alphabet.issuperset(word))
    written = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=lines, input_format="tsv", model_writer=written,
        model_type="unigram", vocab_size=config.size - len(scheme.tokens) + 1,
        hard_vocab_limit=False, unk_id=0, bos_id=-1, eos_id=-1, pad_id=-1,
        character_coverage=1.0, normalization_rule_name="identity", add_dummy_prefix=False,
        remove_extra_whitespaces=False, max_sentencepiece_length=_MAX_PIECE_CHARACTERS,
        num_threads=_UNIGRAM_THREADS, minloglevel=2)
    trained = SentencePieceProcessor(model_proto=written.getvalue())
    pieces = [(trained.id_to_piece(number), trained.get_score(number))
              for number in range(1, trained.get_piece_size())]
    special = [(token, 0.0) for token in scheme.tokens]
    model = models.Unigram([*special, *pieces], scheme.tokens.index(scheme.roles["unk_token"]))
    # The library rounds scores when it reads them; this makes the scores equal to a saved file.
    return Tokenizer.from_str(Tokenizer(model).to_str()).model
