"""What a model makes of tokens it lacks, in the sentences where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bmtools.errors import BmtoolsError
from bmtools.models.architectures import first_position
from bmtools.models.checkpoint import Checkpoint, max_tokens
from bmtools.models.settings import parse_layers

_SENTENCES_AT_ONCE = 2_000
_MARKS = ("", "\u0120", "\u2581")  # of a word's beginning, by family of tokenizers
Place = tuple[int, int, int]
"""A token's id, and where it starts and ends in code points."""


@dataclass(frozen=True)
class Sentence:
    """One sentence of the corpus.

    Args:
        text: of it.
        targets: words sampled beforehand that stand in it: word, start and end in code points.
    """

    text: str
    targets: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class Located:
    """Occurrences of new tokens in sentences as the base model cuts them.

    Sentences go by length, occurrences by sentence and place.

    Args:
        ids: old ids of each sentence, special tokens included.
        sentences: (occurrences,) number of the sentence of each.
        tokens: (occurrences,) new id.
        firsts: (occurrences,) place of its first piece, special tokens counted.
        ends: (occurrences,) place behind its last piece.
        exact: (occurrences,) bool, whether its pieces cover nothing else.
    """

    ids: list[np.ndarray]
    sentences: np.ndarray
    tokens: np.ndarray
    firsts: np.ndarray
    ends: np.ndarray
    exact: np.ndarray

    def batches(self, most: int) -> Iterator[tuple[int, int]]:
        """Group sentences so that each padded group holds at most so many tokens: from, to."""
        first = 0
        for number, row in enumerate(self.ids):
            if number > first and len(row) * (number + 1 - first) > most:
                yield first, number
                first = number
        if first < len(self.ids):
            yield first, len(self.ids)

    def within(self, first: int, end: int) -> slice:
        """Find the occurrences in a group of sentences."""
        start, stop = np.searchsorted(self.sentences, [first, end])
        return slice(int(start), int(stop))

    def select(self, chosen: np.ndarray) -> Located:
        """Keep some occurrences, and the sentences that they stand in."""
        needed = np.unique(self.sentences[chosen])
        return Located([self.ids[number] for number in needed],
                       np.searchsorted(needed, self.sentences[chosen]), self.tokens[chosen],
                       self.firsts[chosen], self.ends[chosen], self.exact[chosen])


@dataclass(frozen=True)
class Contexts:
    """Embeddings gathered from contexts.

    Args:
        tokens: (found,) int64, new ids.
        vectors: (found, width).
    """

    tokens: Tensor
    vectors: Tensor


class _Sample:
    """Places of tokens, drawn uniformly in one pass.

    Args:
        most: kept for a token.
        rng: the source of all randomness.
    """

    def __init__(self, most: int, rng: np.random.Generator) -> None:
        self._most = most
        self._rng = rng
        self._seen: dict[int, int] = {}
        self.drawn: dict[int, list[tuple[str, int, int]]] = {}

    def offer(self, text: str, place: Place) -> None:
        """Keep a place, in the stead of another one when there are enough, or pass it over."""
        token, start, end = place
        kept = self.drawn.setdefault(token, [])
        seen = self._seen[token] = self._seen.get(token, 0) + 1
        if seen <= self._most:
            kept.append((text, start, end))
            return
        stead = int(self._rng.integers(seen))
        if stead < self._most:
            kept[stead] = (text, start, end)


def sample_sentences(tokenizer: Any, wanted: np.ndarray, sentences: Iterable[Sentence], most: int,
                     rng: np.random.Generator) -> dict[str, list[Place]]:
    """Draw, uniformly and in one pass, up to `most` sentences that hold each wanted token.

    Holds only the sentences drawn. A token that occurs twice in a sentence counts once, at its
    first place. A token that is a target anywhere takes its targets and nothing else.

    Args:
        tokenizer: the one that the wanted tokens belong to.
        wanted: (vocabulary,) bool.
        sentences: the corpus; duplicates are as likely as they are frequent.
        most: sentences kept for a token.
        rng: the source of all randomness.

    Returns:
        the occurrences in each sentence.
    """
    met, aimed = _Sample(most, rng), _Sample(most, rng)
    vocabulary = tokenizer.get_vocab()
    pending = iter(sentences)
    while chunk := list(islice(pending, _SENTENCES_AT_ONCE)):
        encodings = tokenizer.backend_tokenizer.encode_batch(
            [one.text for one in chunk], add_special_tokens=False)
        for sentence, encoding in zip(chunk, encodings, strict=True):
            found = _wanted_places(sentence.text, encoding, wanted)
            for place in _aimed_places(sentence, encoding, wanted, vocabulary):
                aimed.offer(sentence.text, place)
                met.drawn.pop(place[0], None)
            for place in found:
                if place[0] not in aimed.drawn:
                    met.offer(sentence.text, place)
    by_sentence: dict[str, list[Place]] = {}
    for token, drawn in sorted({**met.drawn, **aimed.drawn}.items()):
        for text, start, end in drawn:
            by_sentence.setdefault(text, []).append((token, start, end))
    return by_sentence


def _wanted_places(text: str, encoding: Any, wanted: np.ndarray) -> list[Place]:
    """Find the first place of each wanted token."""
    ids = np.array(encoding.ids, dtype=np.int64)
    places = np.flatnonzero(wanted[ids])
    if not len(places):
        return []
    offsets = encoding.offsets
    found: dict[int, Place] = {}
    for place in places.tolist():
        token = int(ids[place])
        if token not in found:
            found[token] = (token, *_trimmed(text, *offsets[place]))
    return list(found.values())


def _aimed_places(sentence: Sentence, encoding: Any, wanted: np.ndarray,
                  vocabulary: dict[str, int]) -> Iterator[Place]:
    """Find the wanted tokens that targets name: the one at that place, else the one so called."""
    if not sentence.targets:
        return
    at = {_trimmed(sentence.text, *offsets): token
          for token, offsets in zip(encoding.ids, encoding.offsets, strict=True) if wanted[token]}
    for word, start, end in sentence.targets:
        found = (at.get((start, end)), *(vocabulary.get(mark + word) for mark in _MARKS))
        for token in found:
            if token is not None and wanted[token]:
                yield token, start, end
                break


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out the space before a word, which some tokenizers count as part of it."""
    while start < end and text[start].isspace():
        start += 1
    return start, end


def locate(base: Checkpoint, occurrences: dict[str, list[Place]]) -> Located:
    """Cut sentences as the base model does and find the pieces of what occurs in them.

    Sentences longer than the base model reads, and occurrences that it sees nothing of, are left
    out.
    """
    rows: list[tuple[np.ndarray, np.ndarray]] = []
    pending = iter(occurrences)
    longest = max_tokens(base.model)
    while texts := list(islice(pending, _SENTENCES_AT_ONCE)):
        encodings = base.tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            if len(encoding.ids) + 2 <= longest:
                places = _pieces_of(text, encoding.offsets, occurrences[text])
                if len(places):
                    rows.append((_framed(base.tokenizer, encoding.ids), places))
    rows.sort(key=lambda row: len(row[0]))
    sizes = [len(places) for _, places in rows]
    found = np.concatenate([places for _, places in rows]) if rows else np.zeros((0, 4), np.int64)
    return Located([ids for ids, _ in rows], np.repeat(np.arange(len(rows)), sizes), found[:, 0],
                   found[:, 1], found[:, 2], found[:, 3].astype(bool))


def _framed(tokenizer: Any, ids: list[int]) -> np.ndarray:
    return np.array([tokenizer.cls_token_id, *ids, tokenizer.sep_token_id], dtype=np.int64)


def _pieces_of(text: str, offsets: Sequence[tuple[int, int]],
               occurrences: Sequence[Place]) -> np.ndarray:
    """Find the pieces that share a character with each occurrence.

    Returns:
        (occurrences,) rows of new id, place of the first piece, place behind the last one, and
        whether these cover the occurrence and nothing else; in the order of places.
    """
    if not offsets:
        return np.zeros((0, 4), dtype=np.int64)
    starts, ends = np.array([_trimmed(text, *offset) for offset in offsets], dtype=np.int64).T
    tokens, froms, tos = np.array(occurrences, dtype=np.int64).T
    firsts = np.searchsorted(ends, froms, side="right")
    stops = np.searchsorted(starts, tos, side="left")
    seen = stops > firsts
    tokens, froms, tos, firsts, stops = (
        each[seen] for each in (tokens, froms, tos, firsts, stops))
    exact = (starts[firsts] == froms) & (ends[stops - 1] == tos) if seen.any() else firsts
    found = np.stack([tokens, firsts + 1, stops + 1, exact], axis=1)
    return found[np.argsort(firsts, kind="stable")]


def gather(base: Checkpoint, located: Located, layers: str, batch_tokens: int) -> Contexts:
    """Average the base model's states at a token's pieces, then over its sentences.

    Each sentence is read once for all its tokens; sentences of like length share a pass.

    Source: Pavlova and Makhlouf 2023 (BIOptimus), section 3, equations 1 and 2.

    Args:
        base: reads.
        located: what it reads.
        layers: whose states, as a mean over them; the paper's is the last one.
        batch_tokens: of a pass.
    """
    tokens, slots = np.unique(located.tokens, return_inverse=True)
    sums = torch.zeros(len(tokens), base.model.config.hidden_size)
    for first, end in located.batches(batch_tokens):
        states = read_states(base, *padded(located.ids[first:end], base.tokenizer.pad_token_id),
                             layers).cpu()
        inside = located.within(first, end)
        begins = (located.sentences[inside] - first) * states.shape[1] + located.firsts[inside]
        sizes = located.ends[inside] - located.firsts[inside]
        pieces = np.repeat(begins - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        vectors = torch.nn.functional.embedding_bag(
            torch.from_numpy(pieces), states.flatten(0, 1),
            torch.from_numpy(np.cumsum(sizes) - sizes), mode="mean")
        sums.index_add_(0, torch.from_numpy(slots[inside]), vectors)
    counts = torch.from_numpy(np.bincount(slots, minlength=len(tokens)))
    return Contexts(torch.from_numpy(tokens), sums / counts[:, None])


def padded(rows: Sequence[np.ndarray], pad: int) -> tuple[Tensor, Tensor]:
    """Lay rows of ids out as (rows, tokens), and say where they are, bool."""
    sizes = np.array([len(row) for row in rows])
    attended = np.arange(sizes.max()) < sizes[:, None]
    ids = np.full(attended.shape, pad, dtype=np.int64)
    ids[attended] = np.concatenate(rows)
    return torch.from_numpy(ids), torch.from_numpy(attended)


@torch.inference_mode()
def read_states(base: Checkpoint, ids: Tensor, attended: Tensor, layers: str) -> Tensor:
    """States of a batch, (sentences, tokens, width) float32; arguments as for `states_of`."""
    device = base.model.device
    return states_of(base.model, attended.to(device), layers, ids=ids.to(device))


def states_of(model: Any, attended: Tensor, layers: str, ids: Tensor | None = None,
              embeddings: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
    """Mean of some layers' states, (sentences, tokens, width) float32.

    The last layer's are those that the head reads, after a final normalisation where there is one.

    Args:
        model: a masked language model.
        attended: (sentences, tokens) bool, False on padding.
        layers: as in `TransferConfig`.
        ids: (sentences, tokens), or None.
        embeddings: (sentences, tokens, width) in place of the ids.
        positions: (sentences, tokens), counted from 0; None for one after the other.

    Raises:
        BmtoolsError: a layer that the model does not have.
    """
    wanted = parse_layers(layers)
    given: dict[str, Any] = {"attention_mask": attended.long()}
    given |= {"input_ids": ids} if embeddings is None else {"inputs_embeds": embeddings}
    if positions is not None:
        given["position_ids"] = positions + first_position(model.config)
    found = model.base_model(**given, output_hidden_states=wanted != (-1,))
    if wanted == (-1,):
        return found.last_hidden_state.float()
    every = (*found.hidden_states[:-1], found.last_hidden_state)
    chosen = [_layer(every, number) for number in wanted] if wanted else list(every)
    return torch.stack(chosen).float().mean(dim=0)


def _layer(every: Sequence[Tensor], number: int) -> Tensor:
    if not -len(every) <= number < len(every):
        raise BmtoolsError(f"--layers: found {number}, but the base has layers 1 to "
                           f"{len(every) - 1}, and 0 for its embeddings")
    return every[number]
