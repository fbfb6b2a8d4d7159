"""Embeddings fitted so that a model reads a new token as it read its old pieces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from bmtools.models.architectures import token_embeddings
from bmtools.models.checkpoint import Checkpoint
from bmtools.models.context_embeddings import Located, padded, read_states, states_of
from bmtools.models.settings import TokenDistillationConfig

_LOOKS = 50
_TAUGHT_BYTES = 2**30  # states of the teacher that are held


@dataclass(frozen=True)
class Fitted:
    """Embeddings, and how far states were off, as a mean square, before and after.

    Args:
        tokens: (fitted,) int64, new ids.
        vectors: (fitted, width).
        before, after: mean squared differences, over the same sentences.
    """

    tokens: Tensor
    vectors: Tensor
    before: float
    after: float


@dataclass(frozen=True)
class _Lesson:
    """What a batch asks.

    Args:
        ids: (rows, tokens) old ids, pieces and all.
        attended: (rows, tokens) bool.
        places: (rows, shorter) where, in `ids`, each token of the student's row stands; that of a
            new token is its last piece.
        read: (rows, shorter) bool, False on padding.
        slots: (rows, shorter) number of the new token, -1 where an old one stands.
    """

    ids: Tensor
    attended: Tensor
    places: Tensor
    read: Tensor
    slots: Tensor


def fit_embeddings(base: Checkpoint, located: Located, starts: Tensor, layers: str,
                   batch_tokens: int, settings: TokenDistillationConfig,
                   rng: np.random.Generator) -> Fitted:
    """Fit embeddings so that states around a new token match those with its pieces.

    The teacher is the base with all pieces. The student is the base, frozen, with each new token
    in one place; all other places, and the token's own against its last piece, are compared by
    mean square. Positions keep the numbers that they have for the teacher, so that what follows
    is not moved: what is fitted is the token, not the gap. All new tokens that were sampled for a
    sentence stand in it together. An occurrence counts where its pieces cover it exactly.

    Departures from the paper, which fits decoders: what precedes a token is compared too, since
    an encoder looks both ways, and sentences stand for generated texts.

    Source: Dobler, Elliott and de Melo 2025 (arXiv 2505.20133), section 3.

    Args:
        base: teacher and student.
        located: occurrences of new tokens.
        starts: (vocabulary, width) embeddings to start from.
        layers: whose states are compared, as a mean over them.
        batch_tokens: of a pass.
        settings: of the fit.
        rng: the source of the order of batches.
    """
    located = located.select(np.flatnonzero(located.exact & _alone(located)))
    tokens, slots = np.unique(located.tokens, return_inverse=True)
    student = _Student(base, starts[torch.from_numpy(tokens)], layers)
    lessons = _Lessons(base, located, slots, batch_tokens)
    if not len(tokens):
        return Fitted(torch.from_numpy(tokens), student.vectors.detach(), 0.0, 0.0)
    looks = np.unique(np.linspace(0, len(lessons) - 1, _LOOKS).astype(int))
    with _frozen(base.model):
        before = student.mean_loss(lessons, looks)
        student.fit(lessons, settings, rng)
        after = student.mean_loss(lessons, looks)
    return Fitted(torch.from_numpy(tokens), student.vectors.detach().cpu(), before, after)


def _alone(located: Located) -> np.ndarray:
    """Tell which occurrences share no piece with the one before."""
    apart = np.ones(len(located.tokens), dtype=bool)
    apart[1:] = (located.sentences[1:] != located.sentences[:-1]) \
        | (located.firsts[1:] >= located.ends[:-1])
    return apart


class _Lessons:
    """Batches by number.

    Args:
        base: reads them.
        located: occurrences, none of which share a piece.
        slots: (occurrences,) number of each one's token.
        batch_tokens: of a pass.
    """

    def __init__(self, base: Checkpoint, located: Located, slots: np.ndarray,
                 batch_tokens: int) -> None:
        self._pad = base.tokenizer.pad_token_id
        self._located = located
        self._slots = slots
        self._groups = list(located.batches(batch_tokens))

    def __len__(self) -> int:
        return len(self._groups)

    def shuffled(self, epochs: int, rng: np.random.Generator) -> Iterator[int]:
        """Number all batches, anew shuffled each time."""
        for _ in range(epochs):
            yield from rng.permutation(len(self)).tolist()

    def __getitem__(self, number: int) -> _Lesson:
        first, end = self._groups[number]
        rows, inside = self._located.ids[first:end], self._located.within(first, end)
        ids, attended = padded(rows, self._pad)
        slot_of = np.full(ids.shape, -1, dtype=np.int64)
        kept = attended.numpy().copy()
        members = self._located.sentences[inside] - first
        firsts, ends = self._located.firsts[inside], self._located.ends[inside]
        slot_of[members, ends - 1] = self._slots[inside]
        for row, start, stop in zip(members, firsts, ends - 1, strict=True):
            kept[row, start:stop] = False
        shown = [np.flatnonzero(row) for row in kept]
        places, read = padded(shown, 0)
        return _Lesson(ids, attended, places, read,
                       torch.from_numpy(slot_of).gather(1, places).where(read, torch.tensor(-1)))


class _Student:
    """The base with some embeddings that can be learned.

    Args:
        base: frozen.
        starts: (new tokens, width) embeddings to start from.
        layers: whose states are compared.
    """

    def __init__(self, base: Checkpoint, starts: Tensor, layers: str) -> None:
        self._base = base
        self._layers = layers
        self._table = token_embeddings(base.model).weight.detach()
        self._kept: dict[int, Tensor] = {}
        self._bytes_left = _TAUGHT_BYTES
        self.vectors = nn.Parameter(starts.detach().clone().to(self._table.device))

    def loss(self, lessons: _Lessons, number: int) -> Tensor:
        """Mean squared difference of states, over all places and numbers of a state."""
        lesson, device = lessons[number], self._table.device
        places, read, slots = (each.to(device) for each in
                               (lesson.places, lesson.read, lesson.slots))
        wanted = self._taught(lesson, number, places)
        embeddings = functional.embedding(lesson.ids.to(device).gather(1, places), self._table)
        fresh = functional.embedding(slots.clamp(min=0), self.vectors, sparse=True)
        embeddings = torch.where((slots >= 0)[..., None], fresh, embeddings)
        found = states_of(self._base.model, read, self._layers, embeddings=embeddings,
                          positions=places * read)
        return (found - wanted)[read].square().mean()

    def _taught(self, lesson: _Lesson, number: int, places: Tensor) -> Tensor:
        """States of the teacher at the student's places; kept for the next pass while they fit."""
        if number in self._kept:
            return self._kept[number]
        states = read_states(self._base, lesson.ids, lesson.attended, self._layers)
        taught = states.gather(1, places[..., None].expand(-1, -1, states.shape[-1]))
        self._bytes_left -= taught.nbytes
        if self._bytes_left >= 0:
            self._kept[number] = taught
        return taught

    def fit(self, lessons: _Lessons, settings: TokenDistillationConfig,
            rng: np.random.Generator) -> None:
        """Go through all batches; only embeddings that stand in a batch move with it."""
        optimizer = torch.optim.SparseAdam([self.vectors], lr=settings.distil_rate)
        steps = settings.distil_epochs * len(lessons)
        for step, number in enumerate(lessons.shuffled(settings.distil_epochs, rng)):
            optimizer.param_groups[0]["lr"] = settings.distil_rate * (1 - step / steps)
            optimizer.zero_grad()
            self.loss(lessons, number).backward()
            optimizer.step()

    @torch.no_grad()
    def mean_loss(self, lessons: _Lessons, numbers: np.ndarray) -> float:
        """Mean loss over some batches."""
        return float(np.mean([self.loss(lessons, number).item() for number in numbers.tolist()]))


@contextmanager
def _frozen(model: Any) -> Iterator[None]:
    """Let no weight of a model ask for gradients."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)
