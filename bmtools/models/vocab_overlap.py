"""Where the tokens of a new vocabulary come from in an old one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import decoders, pre_tokenizers

from bmtools.errors import CheckpointError
from bmtools.vocab.tokenizer_json import METASPACE, model_name

_INNER = "##"
_BROKEN = "\ufffd"
_ROLES = ("pad", "unk", "cls", "sep", "mask", "bos", "eos")
_NEEDED = ("pad", "cls", "sep", "mask")


@dataclass(frozen=True)
class VocabOverlap:
    """Where the tokens of a new vocabulary come from.

    Args:
        shared: old id of each new token that the old vocabulary has too.
        folded: old ids of the spellings of each new token that the old vocabulary has in another
            case, or with or without accents, and one of the two tokenizers tells not apart.
        pieces: old ids that each other new token breaks into.
    """

    shared: dict[int, int]
    folded: dict[int, list[int]]
    pieces: dict[int, list[int]]


def find_overlap(old: Any, new: Any) -> VocabOverlap:
    """Find each new token in the old vocabulary: as it is, in another spelling, or in pieces.

    Special tokens are matched by role, all others by their surface first. Failing that, an old
    tokenizer that folds case or accents reads the new token in its own spelling. Where the new
    tokenizer folds them instead, old tokens that it would spell alike stand for the new one, all
    with one weight: a vocabulary does not say which of them is more frequent. Tokens inside words
    never stand for those at their beginning.

    Raises:
        CheckpointError: vocabularies of two kinds, ids with gaps, or a special token that is
            missing.
    """
    kind = _common_kind(old, new)
    _check_usable(new)
    known = old.get_vocab()
    roles = {getattr(new, f"{role}_token_id"): getattr(old, f"{role}_token_id")
             for role in reversed(_ROLES)}
    shared = {ours: theirs for ours, theirs in roles.items()
              if ours is not None and theirs is not None}
    special = {*old.all_special_ids}
    cutter = _CUTTERS[kind](old, known)
    twins = _spelled_alike(new, known, cutter, special)
    origins = VocabOverlap(shared, {}, {})
    for token, number in sorted(new.get_vocab().items(), key=lambda item: item[1]):
        if number in shared:
            continue
        if token in known:
            shared[number] = known[token]
            continue
        spelled = cutter.folded(token, old.backend_tokenizer.normalizer)
        if spelled != token and spelled in known:
            origins.folded[number] = [known[spelled]]
        elif token in twins:
            origins.folded[number] = twins[token]
        else:
            origins.pieces[number] = cutter.pieces(spelled) or [_unknown(old)]
    return origins


def surface(token: str, kind: str) -> str:
    """Show a token as text, the space before it aside; bytes that are no text stay as they are."""
    if kind.startswith("byte-level"):
        return _BytePieces.text(token).strip() or token
    return token.replace(METASPACE, " ").strip() or token


def _common_kind(old: Any, new: Any) -> str:
    kinds = [model_name(tokenizer.backend_tokenizer) for tokenizer in (old, new)]
    if kinds[0] != kinds[1]:
        raise CheckpointError(f"the base has a {kinds[0]} vocabulary, the tokenizer a {kinds[1]} "
                              "one; expected two of a kind")
    if kinds[0] not in _CUTTERS:
        raise CheckpointError(f"the base has a {kinds[0]} vocabulary, expected "
                              f"{' or '.join(_CUTTERS)}")
    return kinds[0]


def _check_usable(new: Any) -> None:
    for role in _NEEDED:
        if getattr(new, f"{role}_token_id") is None:
            raise CheckpointError(f"the new tokenizer has no {role} token, expected that of a "
                                  "masked language model")
    highest = max(new.get_vocab().values())
    if highest >= len(new):
        raise CheckpointError(f"the new tokenizer has {len(new)} tokens, but ids up to {highest}; "
                              "expected ids without gaps")


def _unknown(old: Any) -> int:
    """What the old model reads where it cannot read; without a token for that, the padding."""
    return int(old.pad_token_id if old.unk_token_id is None else old.unk_token_id)


def _spelled_alike(new: Any, known: Mapping[str, int], cutter: _Cutter,
                   special: set[int]) -> dict[str, list[int]]:
    """Gather old tokens by what the new tokenizer makes of them, if that is something else."""
    normalizer = new.backend_tokenizer.normalizer
    if normalizer is None:
        return {}
    found: dict[str, list[int]] = defaultdict(list)
    for token, number in known.items():
        if number not in special:
            spelled = cutter.folded(token, normalizer)
            if spelled != token:
                found[spelled].append(number)
    return {spelled: sorted(numbers) for spelled, numbers in found.items()}


class _Cutter:
    """Breaks a token as the old vocabulary would; inside a word if it stands inside one.

    Args:
        old: the old tokenizer.
        known: its vocabulary.
    """

    def __init__(self, old: Any, known: Mapping[str, int]) -> None:
        self._model = old.backend_tokenizer.model
        self._known = known

    def folded(self, token: str, normalizer: Any) -> str:
        """Spell a token the way a normalizer would, its mark of a word's beginning kept."""
        mark, text = self._marked(token)
        return token if normalizer is None or not text else \
            mark + normalizer.normalize_str(text).strip()

    def pieces(self, token: str) -> list[int]:
        """Old ids; empty where there are none."""
        return [piece.id for piece in self._model.tokenize(token)]

    def _marked(self, token: str) -> tuple[str, str]:
        text = token.lstrip(METASPACE)
        return token[:len(token) - len(text)], text


class _WordPieces(_Cutter):
    """Takes the longest known piece again and again; `##` marks those inside a word."""

    def pieces(self, token: str) -> list[int]:
        """Old ids; empty where some part is not known."""
        mark, text = self._marked(token)
        found: list[int] = []
        for number, word in enumerate(text.split()):
            cut = list(self._cut(word, bool(mark) and not number))
            if None in cut:
                return []
            found += [piece for piece in cut if piece is not None]
        return found

    def _cut(self, word: str, inside: bool) -> Iterator[int | None]:
        start = 0
        while start < len(word):
            prefix = _INNER if inside or start else ""
            end = next((end for end in range(len(word), start, -1)
                        if prefix + word[start:end] in self._known), None)
            if end is None:
                yield None
                return
            yield self._known[prefix + word[start:end]]
            start = end

    def _marked(self, token: str) -> tuple[str, str]:
        inner = token.startswith(_INNER) and token != _INNER
        return (_INNER, token[len(_INNER):]) if inner else ("", token)


class _BytePieces(_Cutter):
    """Spells tokens in letters that stand for bytes; the space before a word is one of them."""

    _letters = staticmethod(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
                            .pre_tokenize_str)

    @staticmethod
    def text(token: str) -> str:
        """Read a token's bytes as text; parts of a character read as a replacement sign."""
        return str(decoders.ByteLevel().decode([token]))

    def folded(self, token: str, normalizer: Any) -> str:
        """Spell a token the way a normalizer would, unless it is part of a character."""
        text = self.text(token)
        if normalizer is None or _BROKEN in text or not text.strip():
            return token
        spaces = text[:len(text) - len(text.lstrip())]
        spelled = spaces + normalizer.normalize_str(text[len(spaces):])
        return "".join(part for part, _ in self._letters(spelled))


_CUTTERS: Mapping[str, Callable[[Any, Mapping[str, int]], _Cutter]] = {
    "WordPiece": _WordPieces, "byte-level BPE": _BytePieces, "BPE": _Cutter, "Unigram": _Cutter}
