"""Overlap of two vocabularies: old tokens that equal, spell or compose new ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import decoders, pre_tokenizers
from tokenizers.normalizers import Normalizer
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerFast

from bmtools.errors import CheckpointError
from bmtools.vocab.tokenizer import METASPACE, model_name

_CONTINUATION = "##"
_REPLACEMENT_CHARACTER = "\ufffd"
_ROLES = ("pad", "unk", "cls", "sep", "mask", "bos", "eos")
_REQUIRED_ROLES = ("pad", "cls", "sep", "mask")
_KINDS = ("WordPiece", "byte-level BPE", "BPE", "Unigram")
_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


@dataclass(frozen=True)
class VocabOverlap:
    """Sources of a new vocabulary's tokens in an old vocabulary.

    Args:
        shared: old id of each new token that is also in the old vocabulary.
        folded: old ids of each new token that the old vocabulary has in another case, or with or
            without accents, if one of the two tokenizers does not distinguish them.
        pieces: old ids that each other new token splits into.
    """

    shared: dict[int, int]
    folded: dict[int, list[int]]
    pieces: dict[int, list[int]]


def find_overlap(old: PreTrainedTokenizerFast, new: PreTrainedTokenizerFast) -> VocabOverlap:
    """Find each new token in the old vocabulary: unchanged, in another spelling, or in pieces.

    Special tokens are matched by role, all other tokens by their exact form. If this fails and the
    old tokenizer folds case or accents, the folded form is looked up. If instead the new tokenizer
    folds them, all old tokens with the same folded form represent the new token with equal weights,
    because a vocabulary does not contain frequencies. Tokens inside words never match tokens at the
    start of words.

    Raises:
        CheckpointError: the vocabularies have different types, ids have gaps, or a special token is
            missing.
    """
    model_type = _check_vocabularies(old, new)
    known = old.get_vocab()
    by_role = {getattr(new, f"{role}_token_id"): getattr(old, f"{role}_token_id")
               for role in reversed(_ROLES)}
    shared = {new_id: old_id for new_id, old_id in by_role.items()
              if new_id is not None and old_id is not None}
    special_ids = {*old.all_special_ids}
    splitter = _Splitter(old, model_type)
    alike = _spelled_alike(new, known, splitter, special_ids)
    overlap = VocabOverlap(shared, {}, {})
    for token, number in sorted(new.get_vocab().items(), key=lambda item: item[1]):
        if number in shared:
            continue
        if token in known:
            shared[number] = known[token]
            continue
        spelled = splitter.normalize(token, old.backend_tokenizer.normalizer)
        if spelled != token and spelled in known:
            overlap.folded[number] = [known[spelled]]
        elif token in alike:
            overlap.folded[number] = alike[token]
        else:
            # If there is no unknown token, use the padding token.
            unknown = old.pad_token_id if old.unk_token_id is None else old.unk_token_id
            overlap.pieces[number] = splitter.split(spelled) or [int(unknown)]
    return overlap


class WeightedRows(NamedTuple):
    """Weighted sums, in the input format of `embedding_bag`.

    Args:
        tokens: (rows,) int64, ids of the new rows.
        sources: (terms,) int64, ids of old rows, grouped by new row.
        offsets: (rows,) int64, the first term of each row.
        weights: (terms,) float32.
    """

    tokens: Tensor
    sources: Tensor
    offsets: Tensor
    weights: Tensor

    @classmethod
    def means(cls, members: Mapping[int, Sequence[int]]) -> WeightedRows:
        """Average old rows with equal weights; a row counts as often as it is listed."""
        sizes = np.array([len(sources) for sources in members.values()], dtype=np.int64)
        sources = np.fromiter((one for sources in members.values() for one in sources), np.int64,
                              int(sizes.sum()))
        return cls.of(np.array([*members], dtype=np.int64), sources, sizes,
                      np.repeat(1 / np.maximum(sizes, 1), sizes))

    @classmethod
    def of(cls, tokens: np.ndarray, sources: np.ndarray, sizes: np.ndarray,
           weights: np.ndarray) -> WeightedRows:
        """Make sums from the number of terms of each row, (rows,), instead of offsets."""
        return cls(torch.from_numpy(tokens), torch.from_numpy(sources),
                   torch.from_numpy(np.cumsum(sizes) - sizes),
                   torch.from_numpy(weights.astype(np.float32)))

    def sum_rows(self, table: Tensor) -> Tensor:
        """Sum rows of a matrix, (old rows, hidden size), or elements of a vector, (old rows,)."""
        if not len(self.tokens):
            return table[:0]
        flat = table if table.ndim == 2 else table[:, None]
        sums = functional.embedding_bag(self.sources, flat, self.offsets, mode="sum",
                                        per_sample_weights=self.weights.to(flat.dtype))
        return sums.reshape(-1, *table.shape[1:])


def _check_vocabularies(old: PreTrainedTokenizerFast, new: PreTrainedTokenizerFast) -> str:
    """Check that both have one type and the new one is complete; return the type."""
    old_type, new_type = (model_name(one.backend_tokenizer) for one in (old, new))
    if old_type != new_type:
        raise CheckpointError(f"the base has a {old_type} vocabulary and the tokenizer a "
                              f"{new_type} one; expected the same type")
    if old_type not in _KINDS:
        raise CheckpointError(f"the base has a {old_type} vocabulary, expected "
                              f"{' or '.join(_KINDS)}")
    for role in _REQUIRED_ROLES:
        if getattr(new, f"{role}_token_id") is None:
            raise CheckpointError(f"the new tokenizer has no {role} token; use the tokenizer of a "
                                  "masked language model")
    highest = max(new.get_vocab().values())
    if highest >= len(new):
        raise CheckpointError(f"the new tokenizer has {len(new)} tokens, but ids up to {highest}; "
                              "expected ids without gaps")
    return old_type


def _spelled_alike(new: PreTrainedTokenizerFast, known: Mapping[str, int], splitter: _Splitter,
                   special_ids: set[int]) -> dict[str, list[int]]:
    """Group old tokens by the new tokenizer's spelling, if it differs from their own."""
    normalizer = new.backend_tokenizer.normalizer
    if normalizer is None:
        return {}
    groups: dict[str, list[int]] = defaultdict(list)
    for token, number in known.items():
        if number not in special_ids:
            spelled = splitter.normalize(token, normalizer)
            if spelled != token:
                groups[spelled].append(number)
    return {spelled: sorted(numbers) for spelled, numbers in groups.items()}


class _Splitter:
    """Splitter of tokens into pieces of the old vocabulary, with their position in the word.

    WordPiece marks tokens inside words. SentencePiece marks tokens at the start of words. Tokens of
    byte-level BPE consist of letters that represent bytes, including the space before a word.

    Args:
        old: the old tokenizer.
        kind: type of both tokenizers.
    """

    def __init__(self, old: PreTrainedTokenizerFast, kind: str) -> None:
        self._model, self._known = old.backend_tokenizer.model, old.get_vocab()
        self._in_words, self._in_bytes = kind == "WordPiece", kind == "byte-level BPE"

    def normalize(self, token: str, normalizer: Normalizer | None) -> str:
        """Normalize a token; marks and incomplete characters stay unchanged."""
        mark, text = self._parts(token)
        if normalizer is None or not text or (self._in_bytes and _REPLACEMENT_CHARACTER in text):
            return token
        spelled = normalizer.normalize_str(text)
        return "".join(part for part, _ in _BYTES.pre_tokenize_str(mark + spelled)) \
            if self._in_bytes else mark + spelled.strip()

    def _parts(self, token: str) -> tuple[str, str]:
        """Separate a token's mark, or its leading space, from its text."""
        if self._in_words:
            is_inside = token.startswith(_CONTINUATION) and token != _CONTINUATION
            return (_CONTINUATION, token[len(_CONTINUATION):]) if is_inside else ("", token)
        whole = str(decoders.ByteLevel().decode([token])) if self._in_bytes else token
        text = whole.lstrip(None if self._in_bytes else METASPACE)
        return whole[:len(whole) - len(text)], text

    def split(self, token: str) -> list[int]:
        """Return old ids; empty if a part is unknown."""
        if not self._in_words:
            return [piece.id for piece in self._model.tokenize(token)]
        mark, text = self._parts(token)
        ids: list[int] = []
        for number, word in enumerate(text.split()):
            start = 0
            while start < len(word):  # find the longest known piece first
                prefix = _CONTINUATION if start or (mark and not number) else ""
                end = next((end for end in range(len(word), start, -1)
                            if prefix + word[start:end] in self._known), None)
                if end is None:
                    return []
                ids.append(self._known[prefix + word[start:end]])
                start = end
        return ids
