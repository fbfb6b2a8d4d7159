"""Extension of a tokenizer that a model already uses by new pieces."""

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
# Private use, planes 15 and 16: a character for each piece that occurs in the text.
_SYMBOLS = (*range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE))
_RARE_CHARACTER = 1e-6  # of all characters; a rarer one is not worth a token
_MORE_MERGES = 1.5  # times as many, where too few of the merged pieces can be used


@dataclass(frozen=True)
class _Piece:
    """A piece found by merging.

    Args:
        token: its spelling.
        count: occurrences after all merges.
        saved: tokens that it saves, all occurrences together.
        halves: the two pieces merged last.
    """

    token: str
    count: int
    saved: int
    halves: tuple[str, str]


def tokenizer_type_of(backend: Tokenizer, name: str) -> TokenizerType:
    """Return the type of a tokenizer that can be extended.

    Raises:
        CheckpointError: another type, or BPE whose pieces cannot be spelled.
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
    """Go on merging where the old vocabulary stops, and append the best new pieces.

    The text is split into old pieces, and pairs of them are merged as in BPE, the most frequent
    first. So a piece is worth the tokens that it saves in this text. BPE takes all merges as they
    come; WordPiece does not need the steps towards a longer piece, and takes the pieces
    that save most, of those that the extended tokenizer uses in the text. Ids, normalization,
    casing and special tokens are the old ones, and a word that no new piece occurs in keeps its
    ids.

    Characters that the old vocabulary cannot spell are added first.

    Args:
        old: tokenizer of WordPiece or BPE.
        texts: read once; their distinct words are held in memory.
        config: `size` counts old tokens and new ones; how merges are limited. All else is the
            old tokenizer's.
        name: of the old tokenizer, for messages.

    Returns:
        the old tokenizer with more tokens; and the number of old ids, of new ones, and of the
        text's tokens before and after, special ones left out.

    Raises:
        CheckpointError: a tokenizer of another type.
        DataError: no text, too little of it for the size, or a size without room.
    """
    backend = old.backend_tokenizer
    tokenizer_type_of(backend, name)
    kept = max(backend.get_vocab().values()) + 1
    if config.size <= kept:
        raise DataError(f"{setting('size')}: found {config.size}, but {name} holds {kept} tokens "
                        "already; expected more, the new ones included")
    words = count_pretokens(texts, backend)
    vocabulary = _GrowingVocabulary(json.loads(backend.to_str()), kept)
    before = vocabulary.count_tokens(words)
    vocabulary.append_characters(words, config)
    vocabulary.append_pieces(words, config)
    config.require_size(vocabulary.size, f" beside those of {name}")
    return _with_backend(old, vocabulary.backend), {
        "kept_tokens": kept, "added_tokens": vocabulary.size - kept,
        "text_tokens_before": before, "text_tokens_after": vocabulary.count_tokens(words)}


class _GrowingVocabulary:
    """A tokenizer, as in `tokenizer.json`, that gets new tokens at its end."""

    def __init__(self, content: JsonObject, size: int) -> None:
        self.content = content
        self.model = content["model"]
        self.merges_all = self.model["type"] == "BPE"
        self.prefix: str = self.model.get("continuing_subword_prefix") or ""
        self.size = size
        # The library numbers added tokens after all others, so new pieces would take the ids of
        # those at the end: they become part of the model's vocabulary.
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
        """Append tokens of one character that words need and the vocabulary lacks."""
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
        """Merge pieces of words, and append the best of the merged ones.

        BPE needs its steps. Of WordPiece, pieces that the words then do not use make room for the
        next best: longer ones cover them.
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
        """Write words as runs of symbols, one for each piece; an unknown piece ends a run."""
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
        """Return the first pieces that merging makes (BPE), or all, which save most tokens first.

        There are as many as there is room for, if the text has them.
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
        """Merge a number of times, and collect the pieces that are new to the vocabulary.

        Returns:
            new pieces in the order they were made, and how many merges there were.
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
        """Write a run of symbols as the token that its pieces become together."""
        first, *others = (self._symbol_tokens[symbol] for symbol in run)
        return first + "".join(other.removeprefix(self.prefix) for other in others)


def _with_backend(old: PreTrainedTokenizerFast, backend: Tokenizer) -> PreTrainedTokenizerFast:
    """Return a tokenizer of transformers like another, around a new backend.

    It is written and read again, since some classes build their pipeline only then; where one
    builds another than was written, the generic class takes its place.
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
