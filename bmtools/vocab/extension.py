"""Extension of a model's tokenizer by new pieces."""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, models, trainers

from bmtools.errors import CheckpointError, DataError, setting
from bmtools.records import JsonObject
from bmtools.vocab.pretokens import count_pretokens, most_frequent, train_model
from bmtools.vocab.settings import TokenizerType, VocabularyConfig
from bmtools.vocab.tokenizer import ENCODING_PARTS, save_tokenizer, unknown_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_TYPES: Mapping[str, TokenizerType] = {"WordPiece": "wordpiece", "BPE": "bpe"}
# Private use, planes 15 and 16: one character for each piece that occurs in the text.
_SYMBOLS = (*range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE))
_RARE_CHARACTER = 1e-6  # of all characters; a rarer character is not worth a token
_MORE_MERGES = 1.5  # factor for the number of merges if too few of the merged pieces can be used


@dataclass(frozen=True)
class _Piece:
    """A piece found by merging.

    Args:
        token: spelling of the piece.
        count: occurrences after all merges.
        saved: tokens that the piece saves in all occurrences together.
        halves: the two pieces that were merged last.
    """

    token: str
    count: int
    saved: int
    halves: tuple[str, str]


def tokenizer_type_of(backend: Tokenizer, name: str) -> TokenizerType:
    """Return the type of a tokenizer that can be extended.

    Raises:
        CheckpointError: the type is different, or BPE marks the inside or end of words.
    """
    model = json.loads(backend.to_str())["model"]
    found = model["type"]
    if found == "BPE" and (model["continuing_subword_prefix"] or model["end_of_word_suffix"]):
        found = "BPE that marks the inside or the end of words"
    if found not in _TYPES:
        raise CheckpointError(f"{name}: found a tokenizer of the type {found}, expected WordPiece "
                              "or byte-level BPE; train a new vocabulary instead")
    return _TYPES[found]


def extend_tokenizer(old: PreTrainedTokenizerFast, texts: Iterable[str], config: VocabularyConfig,
                     name: str) -> tuple[PreTrainedTokenizerFast, dict[str, int]]:
    """Continue the merges of an old vocabulary, and append the best new pieces.

    The text is split into old pieces, and pairs of pieces are merged as in BPE, the most frequent
    pair first. So the value of a piece is the number of tokens that it saves in this text. BPE uses
    all merges in order. WordPiece does not need the steps towards a longer piece. It uses the
    pieces that save most tokens and that the extended tokenizer uses in the text. Ids,
    normalization, casing and special tokens do not change. A word without new pieces keeps its ids.

    Characters that are missing in the old vocabulary are added first.

    Args:
        old: tokenizer of type WordPiece or BPE.
        texts: read once; their distinct words are kept in memory.
        config: `size`, which includes the old tokens, and the limits of merges; other settings
            are not used.
        name: name of the old tokenizer, for messages.

    Returns:
        the old tokenizer with more tokens, and the numbers of old ids, of new ids, and of the
        text's tokens before and after (without special tokens).

    Raises:
        CheckpointError: the tokenizer is of another type.
        DataError: there is no text or too little text, or the size leaves no room for new tokens.
    """
    backend = old.backend_tokenizer
    tokenizer_type_of(backend, name)
    kept = max(backend.get_vocab().values()) + 1
    if config.size <= kept:
        raise DataError(f"{setting('size')}: found {config.size}, but {name} already has {kept} "
                        "tokens; set a higher total, which includes the new tokens")
    words = count_pretokens(texts, backend)
    vocabulary = _GrowingVocabulary(json.loads(backend.to_str()), kept)
    before = vocabulary.count_tokens(words)
    vocabulary.append_characters(words, config)
    vocabulary.append_pieces(words, config)
    config.require_size(vocabulary.size, f", including those of {name}")
    return _with_backend(old, vocabulary.backend), {
        "kept_tokens": kept, "added_tokens": vocabulary.size - kept,
        "text_tokens_before": before, "text_tokens_after": vocabulary.count_tokens(words)}


class _GrowingVocabulary:
    """A tokenizer, as in `tokenizer.json`, to which new tokens are appended."""

    def __init__(self, content: JsonObject, size: int) -> None:
        self.content = content
        self.model = content["model"]
        self.merges_all = self.model["type"] == "BPE"
        self.prefix: str = self.model.get("continuing_subword_prefix") or ""
        self.size = size
        # The library numbers added tokens after all others, so new pieces would get their ids.
        # To prevent this, added tokens become part of the model's vocabulary.
        for token in sorted(content["added_tokens"], key=lambda token: token["id"]):
            self.model["vocab"].setdefault(token["content"], token["id"])
        self._append([])

    def _append(self, tokens: Iterable[str]) -> None:
        for token in tokens:
            self.model["vocab"][token] = self.size
            self.size += 1
        self.backend = Tokenizer.from_str(json.dumps(self.content))
        self.ids = self.backend.get_vocab()
        self.tokens = {number: token for token, number in self.ids.items()}

    def encode(self, word: str) -> list[int]:
        """Return the ids of a word."""
        return [token.id for token in self.backend.model.tokenize(word)]

    def count_tokens(self, words: Counter[str]) -> int:
        """Count the tokens of words."""
        return sum(count * len(self.encode(word)) for word, count in words.items())

    def append_characters(self, words: Counter[str], config: VocabularyConfig) -> None:
        """Append tokens of one character that words need and the vocabulary does not contain."""
        if not unknown_ids(self.backend):
            return
        counts: Counter[str] = Counter()
        for word, count in words.items():
            for token in (word[0], *(self.prefix + character for character in word[1:])):
                counts[token] += count
        min_count = max(config.min_frequency, _RARE_CHARACTER * counts.total())
        missing = Counter({token: count for token, count in counts.items()
                           if count >= min_count and token not in self.ids})
        self._append(most_frequent(missing, min(config.max_alphabet, config.size - self.size)))

    def append_pieces(self, words: Counter[str], config: VocabularyConfig) -> None:
        """Merge pieces of words, and append the best merged pieces.

        BPE needs all merge steps. In WordPiece, longer pieces may cover a piece, so that words no
        longer use it. Then it is replaced by the next best piece.
        """
        runs = self._runs(words)
        room = config.size - self.size
        if not runs or not room:
            return
        old, size = self.model["vocab"], self.size
        unused: set[str] = set()
        candidates = self._new_pieces(runs, room, config.min_frequency)
        while True:
            pieces = [piece for piece in candidates if piece.token not in unused][:room]
            self.model["vocab"], self.size = old.copy(), size
            if self.merges_all:
                self.model["merges"] += [list(piece.halves) for piece in pieces]
            self._append(piece.token for piece in pieces)
            used = {number for word in words for number in self.encode(word)}
            found = {self.tokens[number] for number in range(size, self.size)
                     if number not in used}
            if self.merges_all or not found:
                return
            unused |= found
            if len(candidates) < room + len(unused):
                candidates = self._new_pieces(runs, room + len(unused), config.min_frequency)

    def _runs(self, words: Counter[str]) -> Counter[str]:
        """Write words as runs of symbols, one symbol per piece; an unknown piece ends a run."""
        encoded = {word: self.encode(word) for word in words}
        numbers = sorted({number for ids in encoded.values() for number in ids}
                         - unknown_ids(self.backend))
        symbols = {number: chr(symbol) for number, symbol in zip(numbers, _SYMBOLS, strict=False)}
        self._symbol_tokens = {symbol: self.tokens[number] for number, symbol in symbols.items()}
        runs: Counter[str] = Counter()
        for word, ids in encoded.items():
            for run in "".join(symbols.get(number, " ") for number in ids).split():
                if len(run) > 1:
                    runs[run] += words[word]
        return runs

    def _new_pieces(self, runs: Counter[str], room: int, min_frequency: int) -> list[_Piece]:
        """Return the first merged pieces (BPE), or all pieces by the tokens that they save.

        If the text supports it, there are at least `room` pieces.
        """
        merges = room if self.merges_all else math.ceil(_MORE_MERGES * room)
        while True:
            pieces, made = self._merge(runs, merges, min_frequency)
            if not self.merges_all:
                pieces = [piece for piece in pieces if piece.count >= min_frequency]
            if len(pieces) >= room or made < merges:
                break
            merges = math.ceil(_MORE_MERGES * merges)
        return pieces[:room] if self.merges_all else sorted(pieces, key=lambda one: -one.saved)

    def _merge(self, runs: Counter[str], merges: int,
               min_frequency: int) -> tuple[list[_Piece], int]:
        """Make a number of merges, and collect the pieces that are new to the vocabulary.

        Returns:
            new pieces in the order in which they were made, and the number of merges.
        """
        trainer = trainers.BpeTrainer(vocab_size=len(set().union(*runs)) + merges,
                                      min_frequency=min_frequency, show_progress=False)
        model = train_model(models.BPE(), trainer, runs)
        counts: Counter[str] = Counter()
        for run, count in runs.items():
            for symbols in model.tokenize(run):
                counts[symbols.value] += count
        merged = json.loads(Tokenizer(model).to_str())["model"]["merges"]
        new: dict[str, _Piece] = {}
        for left, right in merged:
            token = self._spell(left + right)
            if token not in self.ids and token not in new:
                count = counts[left + right]
                new[token] = _Piece(token, count, count * (len(left + right) - 1),
                                    (self._spell(left), self._spell(right)))
        return list(new.values()), len(merged)

    def _spell(self, run: str) -> str:
        """Return the token for a run of symbols."""
        first, *others = (self._symbol_tokens[symbol] for symbol in run)
        return first + "".join(other.removeprefix(self.prefix) for other in others)


def _with_backend(old: PreTrainedTokenizerFast, backend: Tokenizer) -> PreTrainedTokenizerFast:
    """Return a copy of a transformers tokenizer with a new backend.

    The tokenizer is saved and loaded, because some classes build their pipeline only when loaded.
    If a class builds a different pipeline, the generic class is used instead.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    with tempfile.TemporaryDirectory() as name:
        save_tokenizer(old, Path(name))
        backend.save(str(Path(name) / "tokenizer.json"))
        loaded = AutoTokenizer.from_pretrained(name, local_files_only=True, trust_remote_code=False)
    if isinstance(loaded, PreTrainedTokenizerFast):
        found, expected = (json.loads(one.to_str()) for one in (loaded.backend_tokenizer, backend))
        if all(found[key] == expected[key] for key in ENCODING_PARTS):
            return loaded
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, model_input_names=old.model_input_names,
        **{role: getattr(old, f"_{role}", None) or token
           for role, token in old.special_tokens_map.items() if isinstance(token, str)})
