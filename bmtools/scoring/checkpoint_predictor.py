"""Checkpoints that fill masks, met in batches of one exact length."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from bmtools.distributed import world_size
from bmtools.io.system import usable_cores
from bmtools.models.checkpoint import Checkpoint, load_masked_lm, max_tokens
from bmtools.models.fast_encoder import Encoder, make_encoder
from bmtools.models.hardware import resolve_device
from bmtools.models.int8 import Int8Encoder
from bmtools.models.mlm import vocabulary_logits
from bmtools.scoring.predictor import Digested, MaskedCopies, MaskLogits
from bmtools.scoring.settings import InferenceConfig

Item = TypeVar("Item")
Result = TypeVar("Result")
HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""What autocast is told, by precision; others are read in float32."""
# Float32 logits that one pass makes, whatever the vocabulary: 8 MB on a CPU, for each thread.
_LOGITS_ON_CPU = 2**21
_LOGITS_ON_GPU = 2**27
_AHEAD = 2  # items for each thread
_SENTENCES_COMPARED = 32
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class _Batch:
    """Copies of one length that share a pass: which, and what each hides."""

    sentences: np.ndarray
    copies: np.ndarray
    spans: np.ndarray
    every: bool


class CheckpointPredictor:
    """A checkpoint that fills masks.

    Args:
        checkpoint: ready on its device.
        settings: how copies are batched and multiplied.
        device: of the checkpoint.
    """

    def __init__(self, checkpoint: Checkpoint, settings: InferenceConfig, device: str) -> None:
        self.name = str(checkpoint.path)
        self.kind = {"precision": "fp32" if settings.precision == "no" else settings.precision}
        self.tokenizer = checkpoint.tokenizer
        self.vocabulary = checkpoint.vocabulary
        self.checkpoint = checkpoint
        self.max_tokens = max_tokens(checkpoint.model)
        self.notes: dict[str, Any] = {}
        self._settings = settings
        self._device = torch.device(device)
        self._threads = count_threads(settings.threads, self._device)
        # In this order: it has the weights of a layer lie side by side.
        self._exact = make_encoder(checkpoint.model, HALVES.get(settings.precision))
        self._encoder = Int8Encoder(checkpoint.model, self._threads) \
            if settings.precision == "int8" else self._exact
        self._asked_at_once = places_at_once(checkpoint.model, self._device)

    def answers(self, maskings: Sequence[MaskedCopies],
                digest: Callable[[MaskLogits], Digested]) -> Iterator[Digested]:
        """Ask masked copies, the longest first, and yield what `digest` makes of their logits.

        Copies of one exact length share a pass, so nothing is padded; only the states at masks
        are turned into logits. On a CPU several batches are at work at a time, each on one core:
        that wastes less than to share out each product of matrices.
        """
        if self._encoder is not self._exact and not self.notes:
            few = _some_places(maskings)
            self.notes = {"int8_error": self._compare(few)} if few else {}

        def work(batch: _Batch) -> Digested:
            return digest(self._answer(maskings, batch))

        yield from in_threads(work, self._batches(maskings), self._threads)

    def _batches(self, maskings: Sequence[MaskedCopies]) -> Iterator[_Batch]:
        alike = defaultdict(list)
        for number, masking in enumerate(maskings):
            alike[len(masking.ids), masking.every].append(number)
        for (length, every), numbers in sorted(alike.items(), reverse=True):
            counts = [len(maskings[number].spans) for number in numbers]
            sentences = np.repeat(numbers, counts)
            copies = np.concatenate([np.arange(count) for count in counts])
            spans = np.concatenate([maskings[number].spans for number in numbers])
            most_asked = int((spans[:, 1] - spans[:, 0]).max(initial=1)) if every else 1
            rows = max(1, min(self._settings.tokens_at_once(self._device.type) // length,
                              self._asked_at_once // most_asked))
            for start in range(0, len(sentences), rows):
                part = slice(start, start + rows)
                yield _Batch(sentences[part], copies[part], spans[part], every)

    def _compare(self, few: Sequence[MaskedCopies]) -> dict[str, float]:
        """Say how far log probabilities in eight bits are from exact ones, at a few places.

        Returns:
            `places` looked at, and the `mean` and the `largest` difference in nats; a mean above
            0 says that eight bits find the text more surprising.
        """
        found = []
        for batch in self._batches(few):
            exact, near = (self._answer(few, batch, encoder) for encoder in
                           (self._exact, self._encoder))
            wanted = torch.tensor([few[sentence].ids[place] for sentence, place in
                                   zip(exact.sentences, exact.positions, strict=True)])
            own, other = (one.logits.log_softmax(1).gather(1, wanted[:, None])[:, 0]
                          for one in (exact, near))
            found.append(own - other)
        differences = torch.cat(found)
        return {"places": len(differences), "mean": round(differences.mean().item(), _DIGITS),
                "largest": round(differences.abs().max().item(), _DIGITS)}

    def _answer(self, maskings: Sequence[MaskedCopies], batch: _Batch,
                encoder: Encoder | None = None) -> MaskLogits:
        ids = np.stack([maskings[number].ids for number in batch.sentences])
        places = np.arange(ids.shape[1])
        firsts, ends = batch.spans[:, :1], batch.spans[:, 1:]
        hidden = (firsts <= places) & (places < ends)
        ids[hidden] = self.tokenizer.mask_token_id
        rows, positions = np.nonzero(hidden) if batch.every \
            else (np.arange(len(ids)), firsts[:, 0])
        return MaskLogits(batch.sentences[rows], batch.copies[rows], positions,
                          self._logits(encoder or self._encoder, ids, rows, positions))

    @torch.inference_mode()
    def _logits(self, encoder: Encoder, ids: np.ndarray, rows: np.ndarray,
                positions: np.ndarray) -> Tensor:
        """Predict places of rows: (batch, tokens) and twice (asked,) to (asked, vocabulary)."""
        # Rows and places stay on the CPU: their numbers are looked at there.
        inputs = torch.from_numpy(ids).to(self._device)
        dtype = HALVES.get(self._settings.precision)
        with torch.autocast(self._device.type, dtype=dtype, enabled=dtype is not None):
            states = encoder.states_at(inputs, torch.from_numpy(rows), torch.from_numpy(positions))
            return vocabulary_logits(self.checkpoint.model, states).float()


def _some_places(maskings: Sequence[MaskedCopies]) -> list[MaskedCopies]:
    """Take one copy each of some sentences, spread over all of them."""
    asked = [masking for masking in maskings if len(masking.spans)]
    steps = max(1, len(asked) // _SENTENCES_COMPARED)
    return [MaskedCopies(one.ids, one.spans[len(one.spans) // 2:][:1], one.every)
            for one in asked[::steps][:_SENTENCES_COMPARED]]


def load_predictor(directory: Path, settings: InferenceConfig) -> CheckpointPredictor:
    """Load a masked language model to be scored.

    Raises:
        CheckpointError: see `load_masked_lm`.
        BmtoolsError: the device is unknown or absent.
    """
    device = resolve_device(settings.device)
    return CheckpointPredictor(load_masked_lm(directory, device), settings, device)


def places_at_once(model: Any, device: torch.device) -> int:
    """Say at how many places a model may be asked before its logits take too much memory."""
    logits = _LOGITS_ON_CPU if device.type == "cpu" else _LOGITS_ON_GPU
    return max(1, logits // model.get_input_embeddings().num_embeddings)


def count_threads(wanted: int, device: torch.device) -> int:
    """Count the threads that batches are shared out to; 0 where a GPU does the work."""
    if device.type != "cpu":
        return 0
    return wanted or max(1, usable_cores() // world_size())


def in_threads(work: Callable[[Item], Result], items: Iterable[Item],
               threads: int) -> Iterator[Result]:
    """Work on items in threads, each on one core, and yield results in their order.

    Args:
        work: done on each.
        items: taken as threads come free.
        threads: 0 works in this one.
    """
    if not threads:
        yield from map(work, items)
        return
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) >= threads * _AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
