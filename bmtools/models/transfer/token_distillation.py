"""Token distillation: embeddings fitted so that a new token has the effect of its old pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from bmtools.models.architectures import token_embeddings
from bmtools.models.settings import TokenDistillationConfig
from bmtools.models.transfer.context_embeddings import (
    Occurrences,
    TokenEmbeddings,
    mean_states,
    pad_sequences,
)
from bmtools.status import counted

if TYPE_CHECKING:
    from bmtools.models.checkpoint import Checkpoint

_EVALUATED_BATCHES = 50
_CACHED_STATE_BYTES = 2**30


def distil_embeddings(base: Checkpoint, occurrences: Occurrences, initial: Tensor, layers: str,
                      batch_tokens: int, config: TokenDistillationConfig,
                      rng: np.random.Generator
                      ) -> tuple[TokenEmbeddings, float, float]:
    """Fit embeddings so that states around a new token match those around its pieces.

    The teacher is the base with all pieces. The student is the base, frozen, with each new token
    at one position; all other positions, and the token's own with its last piece's, are compared
    by mean squared error. Positions keep the teacher's numbers, so that what follows does not
    move: the token is fitted, not the gap. All new tokens sampled for a sentence are in it
    together. Only occurrences that their pieces cover exactly are used.

    Departures from the paper, which fits decoders: what precedes a token is compared too, since
    an encoder sees both sides, and sentences of the corpus replace generated texts.

    Source: Dobler, Elliott and de Melo 2025 (arXiv 2505.20133), section 3.

    Args:
        base: teacher and student.
        occurrences: of new tokens.
        initial: (vocabulary, hidden size) embeddings to start from.
        layers: whose states are compared, as a mean over them.
        batch_tokens: of a batch.
        config: of the fit.
        rng: the source of the order of batches.

    Returns:
        the fitted embeddings, and the mean squared error of states before and after.
    """
    occurrences = occurrences.select(_disjoint(occurrences))
    tokens, rows = np.unique(occurrences.tokens, return_inverse=True)
    student = _Student(base, initial[torch.from_numpy(tokens)], layers)
    loss_before = loss_after = 0.0
    if len(tokens):
        batches = _Batches(base, occurrences, rows, batch_tokens)
        spread = np.linspace(0, len(batches.groups) - 1, _EVALUATED_BATCHES)
        evaluated = np.unique(spread.astype(int))
        trainable = [weight for weight in base.model.parameters() if weight.requires_grad]
        base.model.requires_grad_(False)
        try:
            loss_before = student.mean_loss(batches, evaluated)
            student.fit(batches, config, rng)
            loss_after = student.mean_loss(batches, evaluated)
        finally:
            for weight in trainable:
                weight.requires_grad_(True)
    embeddings = TokenEmbeddings(torch.from_numpy(tokens), student.embeddings.detach().cpu())
    return embeddings, loss_before, loss_after


def _disjoint(occurrences: Occurrences) -> np.ndarray:
    """Choose exact occurrences that share no piece with a chosen one before them."""
    chosen, last = [], (-1, 0)  # sentence and end of the last one chosen
    for number in np.flatnonzero(occurrences.is_exact).tolist():
        sentence, start = int(occurrences.sentences[number]), occurrences.starts[number]
        if sentence != last[0] or start >= last[1]:
            chosen.append(number)
            last = sentence, int(occurrences.ends[number])
    return np.array(chosen, dtype=np.int64)


class _Batches:
    """Inputs of teacher and student, batch by batch.

    Args:
        base: reads them.
        occurrences: none of which share a piece.
        rows: (occurrences,) row of each one's embedding.
        batch_tokens: of a batch.
    """

    def __init__(self, base: Checkpoint, occurrences: Occurrences, rows: np.ndarray,
                 batch_tokens: int) -> None:
        self.padding = base.tokenizer.pad_token_id
        self.occurrences = occurrences
        self.rows = rows
        self.groups = list(occurrences.batches(batch_tokens))

    def __getitem__(self, number: int) -> tuple[Tensor, ...]:
        """Make a batch.

        Returns:
            (sequences, tokens) old ids, pieces and all, and their attention mask, bool; then, each
            of (sequences, fewer tokens), the position among these ids of each token of the student
            (that of a new token is its last piece's), its attention mask, and the row of the new
            token's embedding, -1 for old tokens.
        """
        (first, end), occurrences = self.groups[number], self.occurrences
        inside = occurrences.within(first, end)
        input_ids, mask = pad_sequences(occurrences.input_ids[first:end], self.padding)
        new_tokens = torch.full(input_ids.shape, -1)
        is_kept = mask.numpy().copy()
        for sentence, start, stop, row in zip(
                occurrences.sentences[inside] - first, occurrences.starts[inside],
                occurrences.ends[inside], self.rows[inside], strict=True):
            new_tokens[sentence, stop - 1] = int(row)
            is_kept[sentence, start:stop - 1] = False
        positions, student_mask = pad_sequences([np.flatnonzero(kept) for kept in is_kept], 0)
        student_tokens = new_tokens.gather(1, positions).masked_fill(~student_mask, -1)
        return input_ids, mask, positions, student_mask, student_tokens


class _Student:
    """The base model with some embeddings that can be trained.

    Args:
        base: frozen.
        initial: (new tokens, hidden size) embeddings to start from.
        layers: whose states are compared.
    """

    def __init__(self, base: Checkpoint, initial: Tensor, layers: str) -> None:
        self._base = base
        self._layers = layers
        self._table = token_embeddings(base.model).weight.detach()
        self._teacher_cache: dict[int, Tensor] = {}
        self._cache_bytes_left = _CACHED_STATE_BYTES
        self.embeddings = nn.Parameter(initial.detach().clone().to(self._table.device))

    def loss(self, batches: _Batches, number: int) -> Tensor:
        """Compute the mean squared error of states, over all positions and dimensions."""
        input_ids, attention_mask, positions, mask, new_tokens = (
            each.to(self._table.device) for each in batches[number])
        target = self._teacher_cache.get(number)
        if target is None:
            with torch.inference_mode():
                states = mean_states(self._base.model, self._layers, attention_mask,
                                     input_ids=input_ids)
                target = states.gather(1, positions[..., None].expand(-1, -1, states.shape[-1]))
            self._cache_bytes_left -= target.nbytes
            if self._cache_bytes_left >= 0:
                self._teacher_cache[number] = target
        old = functional.embedding(input_ids.gather(1, positions), self._table)
        new = functional.embedding(new_tokens.clamp(min=0), self.embeddings, sparse=True)
        states = mean_states(
            self._base.model, self._layers, mask, positions=positions * mask,
            inputs_embeds=torch.where((new_tokens >= 0)[..., None], new, old))
        return (states - target)[mask].square().mean()

    def fit(self, batches: _Batches, config: TokenDistillationConfig,
            rng: np.random.Generator) -> None:
        """Train; a step changes only embeddings of tokens in its batch."""
        optimizer = torch.optim.SparseAdam([self.embeddings], lr=config.distil_learning_rate)
        order = [number for _ in range(config.distil_epochs)
                 for number in rng.permutation(len(batches.groups)).tolist()]
        for step, number in enumerate(counted(order, "fitting new tokens", len(order), "steps")):
            optimizer.param_groups[0]["lr"] = config.distil_learning_rate * (1 - step / len(order))
            optimizer.zero_grad()
            self.loss(batches, number).backward()
            optimizer.step()

    @torch.no_grad()
    def mean_loss(self, batches: _Batches, numbers: np.ndarray) -> float:
        """Average the loss over some batches."""
        return float(np.mean([self.loss(batches, number).item() for number in numbers.tolist()]))
