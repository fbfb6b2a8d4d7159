"""Checkpoints as predictors of masked tokens, run in batches of one exact length."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import Identity

from bmtools.errors import BmtoolsError, require, setting
from bmtools.io.system import usable_cores
from bmtools.models.architectures import max_tokens
from bmtools.models.checkpoint import (
    Checkpoint,
    autocast_dtype,
    load_checkpoint,
    load_for_inference,
)
from bmtools.models.exported.model import ExportedModel
from bmtools.models.fast_encoder import Encoder, InferenceModel, make_encoder
from bmtools.models.hardware import resolve_device
from bmtools.models.mlm import lm_head
from bmtools.models.precision import logits_difference
from bmtools.scoring.predictor import MaskedCopies, MaskLogits, Reduced
from bmtools.scoring.settings import InferenceConfig, Models
from bmtools.status import set_status

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Item = TypeVar("Item")
Result = TypeVar("Result")
# Number of float32 logits in one pass, for any vocabulary: 8 MB for each thread on a CPU.
_LOGITS_ON_CPU = 2**21
_LOGITS_ON_GPU = 2**27
_TOKENS_ON_CPU = 4_096
_TOKENS_ON_GPU = 65_536
_BATCHES_AHEAD = 2  # for each thread
_MEASURED_SEQUENCES = 64
_Batch = tuple[np.ndarray, np.ndarray]
"""Masked copies of one length that share a pass: (copies,) int64 index of each copy's sequence, and
the spans, see `MaskedCopies`."""


class CheckpointPredictor:
    """A masked language model as predictor; see `Predictor`.

    Args:
        checkpoint: checkpoint on its device.
        config: batch size, threads and precision.

    Attributes:
        dtype: data type of autocast; None for float32.
        threads: threads that run batches; 0 on a GPU.
        tokens_per_pass: tokens per batch.
        max_predictions: number of positions in a pass, limited by the memory for logits.
        measured: difference of half-precision logits from float32 logits; see `measure`.
    """

    def __init__(self, checkpoint: Checkpoint, config: InferenceConfig) -> None:
        model = checkpoint.model
        self.name = str(checkpoint.path)
        self.signature_fields: dict[str, str] = {
            "precision": "fp32" if config.precision == "float32" else config.precision}
        self.measured: dict[str, dict[str, float]] = {}
        self.tokenizer: PreTrainedTokenizerBase = checkpoint.tokenizer
        self.vocabulary = checkpoint.vocabulary
        self.checkpoint = checkpoint
        self.max_tokens = max_tokens(model)
        self.device = torch.device(model.device)
        self.dtype = autocast_dtype(checkpoint, config.precision)
        on_cpu = self.device.type == "cpu"
        self.threads = (config.workers or usable_cores()) if on_cpu else 0
        self.tokens_per_pass = config.batch_tokens or (_TOKENS_ON_CPU if on_cpu else _TOKENS_ON_GPU)
        logits = _LOGITS_ON_CPU if on_cpu else _LOGITS_ON_GPU
        self.max_predictions = max(1, logits // model.config.vocab_size)
        self._predicted_copies = 0
        self._head: Callable[[Tensor], Tensor]
        self._encoder: Encoder
        if isinstance(model, ExportedModel):
            if model.exported.precision != "float32":
                self.signature_fields["precision"] = model.exported.precision
            self.signature_fields["format"] = model.exported.format
            self._head = Identity()
            model.load(self.threads, self.threads)
            self._encoder = model
            return
        self._head = model.head if isinstance(model, InferenceModel) else lm_head(model)
        self._encoder = make_encoder(model, self.dtype)
        self._model = model

    def predict(self, inputs: Sequence[MaskedCopies],
                reduce: Callable[[MaskLogits], Reduced]) -> Iterator[Reduced]:
        """Predict masked positions, longest sequences first; see `Predictor.predict`.

        Copies with exactly the same length share a pass, so there is no padding. Logits are
        computed only at masks. On a CPU several batches run at the same time, each on one core,
        which is more efficient than splitting each matrix product.
        """
        def predict_batch(batch: _Batch) -> tuple[Reduced, int]:
            return reduce(self._predict_batch(inputs, batch)), len(batch[0])

        self.measure(inputs)

        for reduced, copies in self.map(predict_batch, self._batches(inputs)):
            self._predicted_copies += copies
            set_status(f"scoring {self.name}", self._predicted_copies, unit="masked copies")
            yield reduced

    def map(self, function: Callable[[Item], Result], batches: Iterable[Item]) -> Iterator[Result]:
        """Apply a function to batches, in threads on a CPU; results keep the batches' order."""
        if not self.threads:
            yield from map(function, batches)
            return
        pending: deque[Future[Result]] = deque()
        with ThreadPoolExecutor(self.threads, initializer=torch.set_num_threads,
                                initargs=(1,)) as pool:
            try:
                for batch in batches:
                    pending.append(pool.submit(function, batch))
                    if len(pending) >= self.threads * _BATCHES_AHEAD:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            finally:
                for future in pending:
                    future.cancel()

    def _batches(self, inputs: Sequence[MaskedCopies]) -> Iterator[_Batch]:
        by_length = defaultdict(list)
        for index, copies in enumerate(inputs):
            by_length[len(copies.input_ids)].append(index)
        for length, indices in sorted(by_length.items(), reverse=True):
            sequences = np.repeat(indices, [len(inputs[index].spans) for index in indices])
            spans = np.concatenate([inputs[index].spans for index in indices])
            size = max(1, min(self.tokens_per_pass // length, self.max_predictions))
            for start in range(0, len(sequences), size):
                yield sequences[start:start + size], spans[start:start + size]

    def measure(self, inputs: Sequence[MaskedCopies]) -> None:
        """Compare half precision with float32 once, on one mask in each of the first sequences."""
        if self.dtype is None or self.measured:
            return
        sample = [MaskedCopies(copies.input_ids, copies.spans[len(copies.spans) // 2:][:1])
                  for copies in inputs[:_MEASURED_SEQUENCES]]
        if batches := [*self._batches(sample)]:
            half, dtype = self._encoder, self.dtype
            near = [self._predict_batch(sample, batch).logits for batch in batches]
            self._encoder, self.dtype = make_encoder(self._model), None
            exact = [self._predict_batch(sample, batch).logits for batch in batches]
            self._encoder, self.dtype = half, dtype
            self.measured["difference_to_float32"] = logits_difference(
                zip(exact, near, strict=True))

    @torch.inference_mode()
    def _predict_batch(self, inputs: Sequence[MaskedCopies], batch: _Batch) -> MaskLogits:
        """Mask the copies of a batch and read the logits at their masked positions."""
        sequences, spans = batch
        input_ids = np.stack([inputs[index].input_ids for index in sequences])
        starts, ends = spans[:, :1], spans[:, 1:]
        masked = (starts <= np.arange(input_ids.shape[1])) & (np.arange(input_ids.shape[1]) < ends)
        input_ids[masked] = self.tokenizer.mask_token_id
        copies, positions = np.arange(len(input_ids)), starts[:, 0]
        # Copies and positions stay on the CPU, where the encoder reads their values.
        with torch.autocast(self.device.type, dtype=self.dtype, enabled=self.dtype is not None):
            states = self._encoder.states_at(
                torch.from_numpy(input_ids).to(self.device), torch.from_numpy(copies),
                torch.from_numpy(positions))
        logits = self._head(states.float())  # with rounding, equal logits would favour lower ids
        if logits.isnan().any():  # NaN would rank first, because comparisons are false
            raise BmtoolsError(f"{self.name}: the model computed NaN logits; score it with "
                               f"{setting('precision')} float32, or train it again")
        return MaskLogits(sequences, positions, logits)


def load_predictors(models: Models, config: InferenceConfig,
                    whole: bool = False) -> list[CheckpointPredictor]:
    """Load masked language models to score, from one or several directories.

    Args:
        models: directories of the models.
        config: device, batch size, threads and precision.
        whole: whether the complete transformers model is needed.

    Raises:
        ValueError: if no directory is given.
        CheckpointError: see `load_checkpoint`.
        BmtoolsError: if the device is unknown or missing.
    """
    device = resolve_device(config.device)
    load = load_checkpoint if whole else load_for_inference
    paths = [models] if isinstance(models, str | PathLike) else [*models]
    require(bool(paths), "models", "none", "one directory of a checkpoint or several")
    return [CheckpointPredictor(load(Path(path), device), config) for path in paths]
