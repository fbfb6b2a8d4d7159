"""Adding pieces to a vocabulary that a model knows already."""

from __future__ import annotations

import json
import math
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from bmtools.errors import CheckpointError, DataError
from bmtools.vocab.counting import count_split_words, most_frequent, train
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.token_text import BLANK
from bmtools.vocab.tokenizer import save_tokenizer

_KIND_OF = {"WordPiece": "wordpiece", "BPE": "bpe", "Unigram": "unigram"}
# Private use, planes 15 and 16: a sign for each piece that occurs in the text.
_SIGNS = (*range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE))
_RARE_CHARACTER = 1e-6  # of all characters; a rarer one is not worth a token
_MORE = 1.5  # of merges, where too few of the pieces that they make are of use
_UNSEEN = 0.5  # occurrences, so that a piece has a probability

Vocabulary = dict[str, int]


@dataclass(frozen=True)
class Extended:
    """A vocabulary that has grown.

    Args:
        tokenizer: the old one, with more tokens.
        kept: ids that stayed what they were.
        added: new ones, behind them.
        tokens_before: tokens of the text with the old vocabulary, special ones left out.
        tokens_after: with the new one.
    """

    tokenizer: Any
    kept: int
    added: int
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True)
class _Piece:
    """A piece that merging has found: its spelling, occurrences once all is merged, and the old
    pieces it stands for; the two that were merged last."""

    spelled: str
    count: int
    length: int
    halves: tuple[str, str]


def kind_of(tokenizer: Any, name: str) -> str:
    """Name the kind of a tokenizer that can be extended.

    Raises:
        CheckpointError: it is of another kind, or of a variety whose pieces cannot be spelled.
    """
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    if model["type"] not in _KIND_OF:
        raise CheckpointError(
            f"{name}: found a tokenizer of the kind {model['type']}, expected one of "
            f"{', '.join(_KIND_OF)}; learn a new vocabulary instead")
    if model["type"] == "BPE" and (model["continuing_subword_prefix"]
                                   or model["end_of_word_suffix"]):
        raise CheckpointError(f"{name}: found BPE that marks the inside or the end of words, "
                              "expected byte-level BPE; learn a new vocabulary instead")
    return _KIND_OF[model["type"]]


def extend(old: Any, texts: Iterable[str], settings: VocabularyConfig, name: str) -> Extended:
    """Go on merging where the old vocabulary stops, and append the best new pieces.

    The text is split into old pieces, and pairs of them are merged as in BPE, the most frequent
    first. So a piece is worth the tokens that it saves in this text. BPE takes all merges as they
    come; WordPiece and Unigram can do without the steps towards a longer piece, and take those
    that save most. Ids, normalization, casing and special tokens are the old ones, and a word
    that no new piece occurs in keeps its ids.

    Characters that the old vocabulary cannot spell are added first.

    Args:
        old: a tokenizer of transformers, of WordPiece, BPE or Unigram.
        texts: read once; their distinct words are held in memory.
        settings: `size` counts old tokens and new ones; how merges are limited. All else is the
            old tokenizer's.
        name: what messages call the old tokenizer.

    Raises:
        CheckpointError: a tokenizer of another family.
        DataError: no text, too little of it for the size, or a size without room.
    """
    backend = old.backend_tokenizer
    steps = json.loads(backend.to_str())
    kind_of(old, name)
    kept = max(backend.get_vocab(with_added_tokens=True).values()) + 1
    if settings.size <= kept:
        raise DataError(f"--size: found {settings.size}, but {name} holds {kept} tokens already; "
                        f"expected more, the new ones included")
    words = count_split_words(texts, backend)
    if not words:
        raise DataError("no words in the input; expected records with some text")
    growing = _Growing(steps, kept)
    before = growing.count_tokens(words)
    growing.append_characters(_missing_characters(growing, words, settings), words)
    growing.append_pieces(words, settings)
    size = growing.size
    if size < settings.size and not settings.at_most:
        raise DataError(
            f"--size: found {settings.size}, but the text supports {size} tokens beside those of "
            f"{name}; expected --size {size} or less, more text, or --at-most to take what there "
            "is")
    return Extended(_rebuilt(old, growing.backend), kept, size - kept, before,
                    growing.count_tokens(words))


class _Growing:
    """A tokenizer, as `tokenizer.json` holds it, that gets new tokens at its end."""

    def __init__(self, steps: dict[str, Any], size: int) -> None:
        self.steps = steps
        self.model = steps["model"]
        self.kind = _KIND_OF[self.model["type"]]
        self.size = size
        self._fill()
        self._load()

    def _fill(self) -> None:
        """Give added tokens behind the pieces a place among them, which they would lose to new
        pieces: the library numbers them after all others."""
        pieces = self.model["vocab"]
        for token in sorted(self.steps["added_tokens"], key=lambda token: token["id"]):
            if self.kind != "unigram":
                pieces.setdefault(token["content"], token["id"])
            elif token["id"] >= len(pieces):
                pieces.append([token["content"], 0.0])

    def _load(self) -> None:
        self.backend = Tokenizer.from_str(json.dumps(self.steps))
        self.vocabulary: Vocabulary = self.backend.get_vocab(with_added_tokens=True)
        self.spelling = {number: token for token, number in self.vocabulary.items()}
        self.inner = self.model.get("continuing_subword_prefix") or ""

    @property
    def unknown(self) -> int | None:
        """The id that stands for what cannot be spelled."""
        if self.kind == "unigram":
            return self.model["unk_id"]
        return self.vocabulary.get(self.model["unk_token"] or "")

    def pieces_of(self, word: str) -> list[int]:
        """The ids of a word."""
        return [token.id for token in self.backend.model.tokenize(word)]

    def count_tokens(self, words: Counter[str]) -> int:
        """Count the tokens that words become."""
        return sum(count * len(self.pieces_of(word)) for word, count in words.items())

    def append_characters(self, characters: Mapping[str, int], words: Counter[str]) -> None:
        """Append tokens of one character, with their counts."""
        if characters:
            total = self.count_tokens(words)
            self._append([(token, count / total) for token, count in characters.items()])
            self._load()

    def append_pieces(self, words: Counter[str], settings: VocabularyConfig) -> None:
        """Merge pieces of words, and append those of the pieces made that are best."""
        runs = self._runs(words)
        room = settings.size - self.size
        if not runs or not room:
            return
        if self.kind == "bpe":
            chosen = self._first(runs, room, settings)
        else:
            chosen = self._best(runs, room, settings)
        total = sum(count * len(run) for run, count in runs.items())
        self._append([(piece.spelled, max(piece.count, _UNSEEN) / total) for piece in chosen])
        if self.kind == "bpe":
            self.model["merges"] += [list(piece.halves) for piece in chosen]
        self._load()

    def _append(self, tokens: Sequence[tuple[str, float]]) -> None:
        """Append tokens with their shares of all tokens of the text."""
        if self.kind == "unigram":
            self.model["vocab"] += [[token, math.log(share)] for token, share in tokens]
        else:
            self.model["vocab"].update(
                (token, number) for number, (token, _) in enumerate(tokens, self.size))
        self.size += len(tokens)

    def _runs(self, words: Counter[str]) -> Counter[str]:
        """Write words as runs of signs, one for each piece; what is unknown ends a run."""
        found = {word: self.pieces_of(word) for word in words}
        numbers = sorted({number for ids in found.values() for number in ids} - {self.unknown})
        if len(numbers) > len(_SIGNS):
            raise DataError(f"found {len(numbers)} different tokens in the text, expected at most "
                            f"{len(_SIGNS)}; extend a smaller vocabulary")
        self._sign = {number: chr(sign)
                      for number, sign in zip(numbers, _SIGNS, strict=False)}
        self._number = {sign: number for number, sign in self._sign.items()}
        runs: Counter[str] = Counter()
        for word, ids in found.items():
            for run in "".join(self._signs(ids)).split():
                if len(run) > 1:
                    runs[run] += words[word]
        return runs

    def _signs(self, ids: Sequence[int]) -> Iterator[str]:
        """Give the signs of a word's pieces, and a space where none may be merged."""
        before = ""
        for number in ids:
            if self.kind == "unigram" and _turns(before, self.spelling[number]):
                yield " "
            before = self.spelling[number]
            yield self._sign.get(number, " ")

    def _first(self, runs: Counter[str], room: int, settings: VocabularyConfig) -> list[_Piece]:
        """The first pieces that merging makes."""
        pieces = room
        while True:
            found, made = self._merged(runs, pieces, settings)
            if len(found) >= room or made < pieces:
                return found[:room]
            pieces = math.ceil(_MORE * pieces)

    def _best(self, runs: Counter[str], room: int, settings: VocabularyConfig) -> list[_Piece]:
        """The pieces that save most tokens, of about as many as there is room for in use."""
        pieces = math.ceil(_MORE * room)
        while True:
            found, made = self._merged(runs, pieces, settings)
            used = [piece for piece in found if piece.count >= settings.min_frequency]
            if len(used) >= room or made < pieces:
                return sorted(used, key=lambda piece: -piece.count * (piece.length - 1))[:room]
            pieces = math.ceil(_MORE * pieces)

    def _merged(self, runs: Counter[str], pieces: int, settings: VocabularyConfig,
                ) -> tuple[list[_Piece], int]:
        """Merge until there are so many pieces more, and give those that are new to the vocabulary.

        Returns:
            new pieces in the order they were made, and how many there were with known ones.
        """
        trainer = trainers.BpeTrainer(
            vocab_size=len(set().union(*runs)) + pieces, min_frequency=settings.min_frequency,
            show_progress=False)
        model = train(models.BPE(), trainer, runs)
        counts: Counter[str] = Counter()
        for run, count in runs.items():
            for token in model.tokenize(run):
                counts[token.value] += count
        merges = json.loads(Tokenizer(model).to_str())["model"]["merges"]
        found: dict[str, _Piece] = {}
        for left, right in merges:
            spelled = self._spell(left + right)
            if spelled not in self.vocabulary and spelled not in found:
                found[spelled] = _Piece(spelled, counts[left + right], len(left + right),
                                        (self._spell(left), self._spell(right)))
        return list(found.values()), len(merges)

    def _spell(self, run: str) -> str:
        """Write a run of signs as the token that its pieces become together."""
        first, *others = (self.spelling[self._number[sign]] for sign in run)
        return first + "".join(other.removeprefix(self.inner) for other in others)


def _turns(before: str, after: str) -> bool:
    """Whether letters and other signs meet, which SentencePiece has in no piece."""
    return bool(before.strip(BLANK)) and _is_of_word(before[-1]) != _is_of_word(after[0])


def _is_of_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


def _missing_characters(growing: _Growing, words: Counter[str],
                        settings: VocabularyConfig) -> dict[str, int]:
    """Find tokens of one character that words need and the vocabulary lacks, with their counts."""
    if growing.unknown is None:
        return {}
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for token in _spelled_out(word, growing.inner):
            counts[token] += count
    least = max(settings.min_frequency, _RARE_CHARACTER * counts.total())
    missing = Counter({token: count for token, count in counts.items()
                       if count >= least and token not in growing.vocabulary})
    room = min(settings.max_alphabet, settings.size - growing.size)
    return {token: missing[token] for token in most_frequent(missing, room)}


def _spelled_out(word: str, inner: str) -> Iterator[str]:
    yield word[0]
    for character in word[1:]:
        yield inner + character


def _rebuilt(old: Any, backend: Tokenizer) -> Any:
    """Make a tokenizer of transformers like another, but for its steps.

    It is written and read again, since some classes build their steps only then; where one builds
    others than those written, the generic class takes its place.
    """
    with tempfile.TemporaryDirectory() as name:
        save_tokenizer(old, Path(name))
        backend.save(str(Path(name) / "tokenizer.json"))
        made = AutoTokenizer.from_pretrained(name, local_files_only=True, trust_remote_code=False)
    if _steps(made.backend_tokenizer) == _steps(backend):
        return made
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, model_input_names=old.model_input_names,
        **{role: getattr(old, f"_{role}", None) or token
           for role, token in old.special_tokens_map.items() if isinstance(token, str)})


def _steps(backend: Tokenizer) -> dict[str, Any]:
    steps = json.loads(backend.to_str())
    return {key: steps[key] for key in
            ("added_tokens", "normalizer", "pre_tokenizer", "post_processor", "model")}
