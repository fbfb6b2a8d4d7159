"""A teacher whose outputs are read from disk, or computed once and kept there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from bmtools.errors import CheckpointError, setting
from bmtools.io.failures import naming
from bmtools.io.shared_database import SharedDatabase
from bmtools.models.chunks import rows_in_chunks
from bmtools.models.mlm import wide
from bmtools.training.distillation.teacher import Needs, Teacher, TeacherOutputs

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from bmtools.recipes.distillation import DistillationConfig
    from bmtools.records import JsonObject
    from bmtools.training.objectives import EncoderInputs

DATABASE = "teacher.sqlite"
_KIND = 0x424D5444  # marks a database of this kind
_TABLES = """
CREATE TABLE IF NOT EXISTS documents (key BLOB PRIMARY KEY, predictions BLOB, states BLOB);
CREATE TABLE IF NOT EXISTS identity (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_KEY_BYTES = 16

_GOLDEN = 0.6180339887498949  # its multiples, less their whole part, are spread most evenly
# Logits in memory at a time, in numbers.
_LOGITS = 2**25


class CachedTeacher:
    """A teacher whose predictions are those of few tokens, which stand for all.

    A run that computes outputs uses them as the next one reads them, so both give the same losses.

    Args:
        config: of the teacher.
        compute: returns the live teacher; called where an output is missing.
        cache: of its outputs.
        needs: outputs that losses use.
        settings: of the losses.
        vocabulary: number of tokens, without rows that tables are padded with.
    """

    def __init__(self, config: PretrainedConfig, compute: Callable[[], Teacher],
                 cache: TeacherCache, needs: Needs, settings: DistillationConfig,
                 vocabulary: int) -> None:
        self.config = config
        self._compute, self._cache, self._needs = compute, cache, needs
        self._temperature, self._vocabulary = settings.temperature, vocabulary
        top_k = min(settings.teacher_top_k or vocabulary, vocabulary)
        self._row = np.dtype([("ids", "<u2" if vocabulary <= 2**16 else "<i4", (top_k,)),
                              ("logits", "<f2", (top_k + 1,))])

    @torch.no_grad()
    def __call__(self, inputs: EncoderInputs, compared: Tensor) -> TeacherOutputs:
        """Read outputs, or compute and keep them; arguments as for `Teacher`. Waits for a GPU."""
        device, tokens = inputs.input_ids.device, inputs.token_positions()
        flags = torch.zeros(inputs.input_ids.numel(), dtype=torch.bool, device=device)
        flags[compared] = True
        ends = np.cumsum(inputs.document_lengths())[:-1]
        ids, chosen = (np.split(values.flatten()[tokens].cpu().numpy(), ends)
                       for values in (inputs.input_ids, flags))
        keys = document_keys(ids, chosen)
        found = self._cache.read(keys)
        if found is None:
            rows, states = self._reduce(self._compute()(inputs, compared), len(compared))
            parts = np.split(rows, np.cumsum([part.sum() for part in chosen])[:-1])
            self._cache.add(keys, map(np.ndarray.tobytes, parts),
                            map(np.ndarray.tobytes, np.split(states, ends)))
        else:
            rows = np.frombuffer(found[0], self._row)
            states = np.frombuffer(found[1], "<f2").reshape(-1, self.config.hidden_size)
        last = torch.tensor(states, device=device).float() if self._needs.last_states else None
        if not self._needs.logits:
            return TeacherOutputs(last_states=last)
        top_ids = torch.tensor(rows["ids"].astype(np.int64), device=device)
        top = torch.tensor(rows["logits"], device=device).float()

        def logits(part: slice) -> Tensor:
            probs = torch.zeros(len(top[part]), self.config.vocab_size, device=device)
            probs.scatter_add_(1, top_ids[part], top[part, :-1].exp())
            return probs.log_().mul_(self._temperature)

        return TeacherOutputs(logits, last, excess_entropy=top[:, -1].sum())

    def _reduce(self, outputs: TeacherOutputs, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Reduce outputs to what is kept: a sample of predictions, and states."""
        rows = np.empty(count if outputs.logits else 0, self._row)
        for part in rows_in_chunks(len(rows), max(1, _LOGITS // self._vocabulary)):
            assert outputs.logits is not None
            rows["ids"][part], rows["logits"][part] = (values.cpu().numpy() for values in (
                sample_predictions(wide(outputs.logits(part))[:, :self._vocabulary],
                                self._row["ids"].shape[0], self._temperature)))
        last = outputs.last_states
        return rows, np.empty((0, 1)) if last is None else last.half().cpu().numpy()


def sample_predictions(logits: Tensor, count: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Stand for predictions by few tokens: the likeliest half, and as many drawn from the others.

    The drawn ones have equal shares of the probability of all others, so that gradients of the
    divergence are right on average. Those of the likeliest tokens alone, with the others as one or
    left out, are not (Anshumann et al. 2025, who draw all). Ours are drawn systematically, with
    little noise, and the same in every run.

    Args:
        logits: (rows, vocabulary), at least float32.
        count: of tokens; all where it is the size of the vocabulary.
        temperature: of the softmax.

    Returns:
        (rows, count) ids, of which drawn ones may repeat, and (rows, count + 1) float16: logits at
        a temperature of 1, relative to the likeliest token's, where float16 is exact, and the
        entropy of this distribution less that of the predictions, in nats.
    """
    probs = torch.softmax(logits / temperature, dim=-1)
    top, ids = probs.topk(count if count == probs.shape[1] else (count + 1) // 2)
    rest = probs.scatter(1, ids, 0.0).double().cumsum(-1)
    drawn = count - ids.shape[1]
    places = torch.arange(len(probs), device=probs.device)[:, None] * _GOLDEN + 0.5
    places = (torch.arange(drawn, device=probs.device) + places % 1) / drawn * rest[:, -1:]
    ids = torch.cat([ids, torch.searchsorted(rest, places).clamp_(max=probs.shape[1] - 1)], 1)
    shares = torch.cat([top, (rest[:, -1:] / drawn).expand_as(places).to(top)], 1)
    entropy = torch.special.entr(torch.zeros_like(probs).scatter_add_(1, ids, shares)).sum(-1)
    excess = entropy - torch.special.entr(probs).sum(-1)
    return ids, torch.cat([shares.log() - top[:, :1].log(), excess[:, None]], 1).half()


class TeacherCache:
    """A directory of a teacher's outputs, which several processes read and add to.

    Documents are found by their masked tokens, so that neither batches nor processes matter. What
    a process adds is there as a whole or not at all.

    Args:
        directory: made where it is missing.
        identity: what must be the same in every run, by name; True: the run needs outputs that
            the first one kept, or keeps now.

    Raises:
        BmtoolsError: the directory is that of another teacher, text or masking, lacks outputs, or
            cannot be used.
    """

    def __init__(self, directory: Path, identity: Mapping[str, object]) -> None:
        with naming(directory):
            directory.mkdir(parents=True, exist_ok=True)
        self._shared = SharedDatabase(directory / DATABASE, _KIND, _TABLES, "a teacher's outputs")
        self._database = self._shared.connection
        with self._shared.failures(), self._shared.transaction():
            if not self._database.execute("SELECT 1 FROM identity").fetchone():
                self._database.executemany("INSERT INTO identity VALUES (?, ?)", (
                    (name, json.dumps(value)) for name, value in identity.items()))
            self.identity: JsonObject = {
                name: json.loads(value)
                for name, value in self._database.execute("SELECT name, value FROM identity")}
        for name in sorted({*identity, *self.identity}):
            old, new = self.identity.get(name), json.loads(json.dumps(identity.get(name)))
            if old != new and (old, new) != (True, False):
                raise CheckpointError(
                    f"{directory}: the teacher's outputs have {name} {old}, found {new}; give the "
                    f"same, or another {setting('teacher_cache')}")

    def read(self, keys: Sequence[bytes]) -> tuple[bytes, bytes] | None:
        """Read predictions and states of documents, end to end; None where a document is missing.
        """
        with self._shared.failures():
            rows = [self._database.execute(
                "SELECT predictions, states FROM documents WHERE key = ?", (key,)).fetchone()
                for key in keys]
        if None in rows:
            return None
        predictions, states = (b"".join(parts) for parts in zip(*rows, strict=True))
        return predictions, states

    def add(self, keys: Iterable[bytes], predictions: Iterable[bytes],
            states: Iterable[bytes]) -> None:
        """Keep predictions and states of each document."""
        with self._shared.failures(), self._shared.transaction():
            self._database.executemany("INSERT OR IGNORE INTO documents VALUES (?, ?, ?)",
                                       zip(keys, predictions, states, strict=True))


def document_keys(input_ids: Iterable[np.ndarray], compared: Iterable[np.ndarray]) -> list[bytes]:
    """Hash each document's masked tokens, and where predictions are compared.

    Args:
        input_ids: (tokens,) of each document.
        compared: (tokens,) bool of each document.
    """
    return [blake2b(ids.tobytes() + flags.tobytes(), digest_size=_KEY_BYTES).digest()
            for ids, flags in zip(input_ids, compared, strict=True)]
