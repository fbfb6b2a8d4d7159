"""Target words of masks, as the tokens that a model must propose."""

from __future__ import annotations

import string
import unicodedata
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer, decoders

from bmtools.records import MASK
from bmtools.scoring.predictor import MaskedCopies
from bmtools.vocab.tokenizer import METASPACE

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_NOT_TEXT = "\N{REPLACEMENT CHARACTER}"
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_INVISIBLE = ("Cc", "Cf")  # control characters, and formats such as the zero-width space


@dataclass(frozen=True, slots=True)
class MaskedTarget:
    """A masked word in one vocabulary.

    Args:
        masked: the sentence with one masked position in place of the word.
        correct_ids: ids that are correct there; empty if the word is not a known token.
        token_ids: ids of the word's tokens there; empty if the word is part of a larger token.
    """

    masked: MaskedCopies
    correct_ids: tuple[int, ...]
    token_ids: tuple[int, ...]

    @property
    def splits(self) -> bool:
        """Whether the word consists of several tokens and is not a single one."""
        return not self.correct_ids and len(self.token_ids) > 1

    @property
    def multi_token(self) -> bool:
        """Whether the word consists of several tokens, or is part of a larger token."""
        # Without any ids, the word is part of a larger token.
        return not self.correct_ids and len(self.token_ids) != 1


class TargetLookup:
    """Lookup of target words in one vocabulary.

    The word replaces the mask and the complete text is encoded, because the token depends on its
    position: in byte-level BPE it includes the space before it, and in WordPiece it has `##` if
    the mask follows a word without a space.

    Args:
        tokenizer: tokenizer of the model.
        ignore_case: accept every token that equals the word except for case.
        published: accept every token that equals the word except for case, the space before it
            and the word's punctuation, as Buonocore et al. compare them.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, ignore_case: bool,
                 published: bool = False) -> None:
        self._backend: Tokenizer = tokenizer.backend_tokenizer
        self._unknown_id = tokenizer.unk_token_id
        self._ignore_case = ignore_case
        self._published = published
        self._ids_by_folded: defaultdict[str, list[int]] = defaultdict(list)
        if ignore_case or published:
            for token_id in sorted(tokenizer.get_vocab().values()):
                self._ids_by_folded[self._fold(token_id)].append(token_id)

    def find(self, text: str, target: str) -> MaskedTarget:
        """Find the position and the tokens of a word.

        If the word is not a single token, all its tokens together become one masked position.

        Args:
            text: contains `[MASK]` once.
            target: the masked word.

        Raises:
            ValueError: if the tokenizer has no tokens for the word.
        """
        word = _visible_part(target)
        if not word:
            raise ValueError(f"the tokenizer has no tokens for {target!r}")
        found = self._encode(text, word)
        if self._published:
            bare = unicodedata.normalize("NFC", word.translate(_NO_PUNCTUATION)).strip().lower()
            return replace(found, correct_ids=tuple(self._ids_by_folded[bare]) if bare else ())
        if not found.correct_ids and self._ignore_case:
            for variant in (word.lower(), word.upper(), word.capitalize()):
                other = self._encode(text, variant)
                if other.correct_ids:
                    return replace(other, token_ids=found.token_ids)
        return found

    def _encode(self, text: str, word: str) -> MaskedTarget:
        begin = text.index(MASK)
        end = begin + len(word)
        whole = text[:begin] + word + text[begin + len(MASK):]
        encoding = self._backend.encode(whole)
        offsets = encoding.offsets
        over = [position for position, (first, last) in enumerate(offsets)
                if first < last and first < end and last > begin]
        if not over:
            raise ValueError(f"the tokenizer has no tokens for {word!r}")
        start, stop = over[0], over[-1] + 1
        ids = np.array([*encoding.ids[:start + 1], *encoding.ids[stop:]], dtype=np.int64)
        masked = MaskedCopies(ids, np.array([[start, start + 1]]))
        first, last = offsets[start][0], offsets[stop - 1][1]
        # In some tokenizers, offsets include the space before a word, and exclude accents that they
        # drop or join to their letters.
        missing = whole[begin:first] + whole[last:end]
        if last > end or text[first:begin].strip() or not all(map(unicodedata.combining, missing)):
            return MaskedTarget(masked, (), ())  # the word is part of a larger token
        token_ids = tuple(encoding.ids[start:stop])
        if len(token_ids) > 1 or token_ids[0] == self._unknown_id:
            return MaskedTarget(masked, (), token_ids)
        equal = self._ids_by_folded[self._fold(token_ids[0])] if self._ignore_case else token_ids
        return MaskedTarget(masked, tuple(equal), token_ids)

    def _fold(self, token_id: int) -> str:
        token = token_text(self._backend, token_id)
        return unicodedata.normalize("NFC", token).strip().lower() if self._published \
            else token.casefold()


def _visible_part(word: str) -> str:
    """Strip white space and invisible characters from both ends."""
    shown = [number for number, character in enumerate(word) if not (
        character.isspace() or unicodedata.category(character) in _INVISIBLE)]
    return word[shown[0]:shown[-1] + 1] if shown else ""


def token_text(backend: Tokenizer, token_id: int) -> str:
    """Return a token as people read it, with the space before a word and with `##`.

    Bytes that are not text are shown in the alphabet of byte-level BPE. Models may have more
    embeddings than their tokenizer has tokens; these are shown by number.
    """
    token = backend.id_to_token(token_id)
    if token is None:
        return f"<{token_id}>"
    if isinstance(backend.decoder, decoders.ByteLevel):
        text = backend.decoder.decode([token])
        return token if _NOT_TEXT in text else str(text)
    return str(token).replace(METASPACE, " ")
