"""Checkpoints as predictors of masked tokens, run in batches of one exact length."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from bmtools.distributed import world_size
from bmtools.io.system import usable_cores
from bmtools.models.architectures import max_tokens
from bmtools.models.checkpoint import Checkpoint, load_checkpoint
from bmtools.models.fast_encoder import Encoder, make_encoder
from bmtools.models.hardware import resolve_device
from bmtools.models.int8 import Int8Encoder
from bmtools.models.mlm import lm_head
from bmtools.scoring.predictor import MaskedCopies, MaskLogits, Reduced
from bmtools.scoring.settings import InferenceConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Item = TypeVar("Item")
Result = TypeVar("Result")
AUTOCAST_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Data type of autocast by precision; the other precisions read in float32."""
# Float32 logits of one pass, whatever the vocabulary: 8 MB on a CPU, for each thread.
_LOGITS_ON_CPU = 2**21
_LOGITS_ON_GPU = 2**27
_BATCHES_AHEAD = 2  # for each thread
_SEQUENCES_COMPARED = 32
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class _Batch:
    """Masked copies of one length that share a pass.

    Args:
        sequences: (copies,) int64, index of each copy's sequence.
        spans: (copies, 2) int64, see `MaskedCopies`.
        predict_all: see `MaskedCopies`.
    """

    sequences: np.ndarray
    spans: np.ndarray
    predict_all: bool


class CheckpointPredictor:
    """A masked language model as predictor; see `Predictor`.

    Args:
        checkpoint: loaded on its device.
        config: batch size, threads and precision.
        device: of the checkpoint.
    """

    def __init__(self, checkpoint: Checkpoint, config: InferenceConfig, device: str) -> None:
        self.name = str(checkpoint.path)
        self.signature_fields: dict[str, str] = {
            "precision": "fp32" if config.precision == "float32" else config.precision}
        self.line_fields: dict[str, Any] = {}
        self.tokenizer: PreTrainedTokenizerBase = checkpoint.tokenizer
        self.vocabulary = checkpoint.vocabulary
        self.checkpoint = checkpoint
        self.max_tokens = max_tokens(checkpoint.model)
        self._device = torch.device(device)
        self._dtype = AUTOCAST_DTYPES.get(config.precision)
        self._threads = count_threads(config.threads, self._device)
        self._tokens_per_pass = config.tokens_per_pass(self._device.type)
        self._max_predictions = max_predictions(checkpoint.model, self._device)
        # In this order: the first encoder puts the weights of each layer side by side in memory.
        self._exact_encoder = make_encoder(checkpoint.model, self._dtype)
        self._encoder = Int8Encoder(checkpoint.model, self._threads) \
            if config.precision == "int8" else self._exact_encoder

    def predict(self, inputs: Sequence[MaskedCopies],
                reduce: Callable[[MaskLogits], Reduced]) -> Iterator[Reduced]:
        """Predict masked positions, longest sequences first; see `Predictor.predict`.

        Copies of one exact length share a pass, so nothing is padded; only hidden states at
        masks are turned into logits. On a CPU several batches run at a time, each on one core:
        that wastes less than splitting each matrix product.
        """
        if self._encoder is not self._exact_encoder and not self.line_fields:
            sample = _sample_copies(inputs)
            self.line_fields = {"int8_error": self._measure_int8_error(sample)} if sample else {}
        yield from map_in_threads(
            lambda batch: reduce(self._predict_batch(inputs, batch, self._encoder)),
            self._batches(inputs), self._threads)

    def _batches(self, inputs: Sequence[MaskedCopies]) -> Iterator[_Batch]:
        by_length = defaultdict(list)
        for index, copies in enumerate(inputs):
            by_length[len(copies.input_ids), copies.predict_all].append(index)
        for (length, predict_all), indices in sorted(by_length.items(), reverse=True):
            sequences = np.repeat(indices, [len(inputs[index].spans) for index in indices])
            spans = np.concatenate([inputs[index].spans for index in indices])
            predictions = int((spans[:, 1] - spans[:, 0]).max(initial=1)) if predict_all else 1
            batch_size = max(1, min(self._tokens_per_pass // length,
                                    self._max_predictions // predictions))
            for start in range(0, len(sequences), batch_size):
                part = slice(start, start + batch_size)
                yield _Batch(sequences[part], spans[part], predict_all)

    @torch.inference_mode()
    def _predict_batch(self, inputs: Sequence[MaskedCopies], batch: _Batch,
                       encoder: Encoder) -> MaskLogits:
        """Mask the copies of a batch and read the logits at their masked positions."""
        input_ids = np.stack([inputs[index].input_ids for index in batch.sequences])
        starts, ends = batch.spans[:, :1], batch.spans[:, 1:]
        masked = (starts <= np.arange(input_ids.shape[1])) & (np.arange(input_ids.shape[1]) < ends)
        input_ids[masked] = self.tokenizer.mask_token_id
        copies, positions = np.nonzero(masked) if batch.predict_all \
            else (np.arange(len(input_ids)), starts[:, 0])
        # Copies and positions stay on the CPU: the encoder looks at their values there.
        with torch.autocast(self._device.type, dtype=self._dtype, enabled=self._dtype is not None):
            states = encoder.states_at(torch.from_numpy(input_ids).to(self._device),
                                 torch.from_numpy(copies), torch.from_numpy(positions))
            logits = lm_head(self.checkpoint.model)(states).float()
        return MaskLogits(batch.sequences[copies], positions, logits)

    def _measure_int8_error(self, sample: Sequence[MaskedCopies]) -> dict[str, float]:
        """Measure how far log probabilities in eight bits are from exact ones, on a sample.

        Returns:
            `positions` compared, and the `mean` and the `max` difference in nats; a mean above 0
            says that eight bits find the text more surprising.
        """
        differences = []
        for batch in self._batches(sample):
            exact, rounded = (self._predict_batch(sample, batch, encoder)
                              for encoder in (self._exact_encoder, self._encoder))
            targets = torch.tensor([[sample[sequence].input_ids[position]] for sequence, position
                                    in zip(exact.sequences, exact.positions, strict=True)])
            differences.append(exact.logits.log_softmax(1).gather(1, targets)
                               - rounded.logits.log_softmax(1).gather(1, targets))
        found = torch.cat(differences)
        return {"positions": len(found), "mean": round(found.mean().item(), _DIGITS),
                "max": round(found.abs().max().item(), _DIGITS)}


def load_predictor(directory: Path, config: InferenceConfig) -> CheckpointPredictor:
    """Load a masked language model to be scored.

    Raises:
        CheckpointError: see `load_checkpoint`.
        BmtoolsError: the device is unknown or absent.
    """
    device = resolve_device(config.device)
    return CheckpointPredictor(load_checkpoint(directory, device), config, device)


def max_predictions(model: PreTrainedModel, device: torch.device) -> int:
    """Return how many positions a pass can predict before its logits take too much memory."""
    logits = _LOGITS_ON_CPU if device.type == "cpu" else _LOGITS_ON_GPU
    embeddings = cast(torch.nn.Embedding, model.get_input_embeddings())
    return max(1, logits // embeddings.num_embeddings)


def count_threads(requested: int, device: torch.device) -> int:
    """Count the threads that run batches: 0 on a GPU; on a CPU one a core unless requested."""
    if device.type != "cpu":
        return 0
    return requested or max(1, usable_cores() // world_size())


def map_in_threads(function: Callable[[Item], Result], items: Iterable[Item],
                   threads: int) -> Iterator[Result]:
    """Apply a function to items in threads, each on one core; results keep the items' order.

    Args:
        function: applied to each item.
        items: taken as threads become free.
        threads: how many; 0 works in the calling thread.
    """
    if not threads:
        yield from map(function, items)
        return
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) >= threads * _BATCHES_AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _sample_copies(inputs: Sequence[MaskedCopies]) -> list[MaskedCopies]:
    """Take one copy each of some sequences, spread over all of them."""
    masked = [copies for copies in inputs if len(copies.spans)]
    step = max(1, len(masked) // _SEQUENCES_COMPARED)
    return [MaskedCopies(copies.input_ids, copies.spans[len(copies.spans) // 2:][:1],
                         copies.predict_all)
            for copies in masked[::step][:_SEQUENCES_COMPARED]]
