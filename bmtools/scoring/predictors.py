"""Whatever fills masks: checkpoints, met in batches of one exact length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from bmtools.errors import BmtoolsError, RecordError, Reject
from bmtools.models.checkpoint import Checkpoint, load_masked_lm, max_tokens
from bmtools.models.masked import encode, predict
from bmtools.records import Record
from bmtools.scoring.settings import PassSettings

Asked = TypeVar("Asked")
_WINDOW = 256
# 32 million float32 logits: 128 MB, whatever the vocabulary.
_LOGITS_AT_ONCE = 1 << 25
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, slots=True)
class Masking:
    """A sentence and the places to hide in it, one at a time.

    Args:
        ids: (tokens,) int64, special tokens included.
        positions: (hidden,) int64, indices into `ids`, ascending.
    """

    ids: np.ndarray
    positions: np.ndarray


class Answers(NamedTuple):
    """What stands at hidden places, according to a predictor.

    Args:
        sentences: (batch,) int64, indices of maskings.
        positions: (batch,) int64, hidden token of each.
        logits: (batch, vocabulary) float32.
    """

    sentences: np.ndarray
    positions: np.ndarray
    logits: Tensor


class Predictor(Protocol):
    """Something that can be asked what stands behind a mask.

    Attributes:
        name: how results call it.
        kind: what it is, for signatures: the precision of a model, or a kind of baseline.
        tokenizer: makes the ids that it reads and proposes.
        vocabulary: fingerprint of the tokenizer.
        max_tokens: longest sentence that it takes, special tokens included.
    """

    name: str
    kind: dict[str, str]
    tokenizer: Any
    vocabulary: str
    max_tokens: int

    def answers(self, maskings: Sequence[Masking]) -> Iterator[Answers]:
        """Yield logits for each hidden place of each sentence once, in batches of any order."""
        ...


class MaskedModel:
    """A checkpoint as a predictor."""

    def __init__(self, checkpoint: Checkpoint, settings: PassSettings, device: str) -> None:
        self.checkpoint = checkpoint
        self.name = str(checkpoint.path)
        self.kind = {"precision": "fp32" if settings.precision == "no" else settings.precision}
        self.tokenizer = checkpoint.tokenizer
        self.vocabulary = checkpoint.vocabulary
        self.max_tokens = max_tokens(checkpoint.model)
        self._settings = settings
        self._device = torch.device(device)
        self._rows = checkpoint.model.get_input_embeddings().num_embeddings

    def answers(self, maskings: Sequence[Masking]) -> Iterator[Answers]:
        """Mask copies of sentences and yield the logits at the masks, longest copies first.

        Copies of one exact length share a pass, so nothing is padded; only the states at masks
        are turned into logits.
        """
        mask = self.tokenizer.mask_token_id
        for sentences, positions in self._batches(maskings):
            ids = np.stack([maskings[number].ids for number in sentences])
            ids[np.arange(len(ids)), positions] = mask
            yield Answers(sentences, positions, self._logits(ids, positions))

    def _batches(self, maskings: Sequence[Masking]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        by_length = defaultdict(list)
        for number, masking in enumerate(maskings):
            by_length[len(masking.ids)].append(number)
        for length, numbers in sorted(by_length.items(), reverse=True):
            sentences = np.repeat(numbers, [len(maskings[n].positions) for n in numbers])
            positions = np.concatenate([maskings[n].positions for n in numbers])
            rows = max(1, min(self._settings.batch_tokens // length,
                              _LOGITS_AT_ONCE // self._rows))
            for start in range(0, len(sentences), rows):
                yield sentences[start:start + rows], positions[start:start + rows]

    @torch.inference_mode()
    def _logits(self, ids: np.ndarray, positions: np.ndarray) -> Tensor:
        """Predict one place of each row: (batch, tokens) and (batch,) to (batch, vocabulary)."""
        model = self.checkpoint.model
        inputs = torch.from_numpy(ids).to(self._device)
        dtype = _DTYPES.get(self._settings.precision)
        with torch.autocast(self._device.type, dtype=dtype, enabled=dtype is not None):
            states = encode(model, inputs, torch.ones_like(inputs, dtype=torch.bool))
            rows = torch.arange(len(ids), device=self._device)
            hidden = states[rows, torch.from_numpy(positions).to(self._device)]
            return predict(model, hidden).float()


def load_predictor(directory: Path, settings: PassSettings) -> MaskedModel:
    """Load a masked language model to be scored.

    Raises:
        CheckpointError: see `load_masked_lm`.
        BmtoolsError: the device is unknown or absent.
    """
    device = _existing_device(settings.device)
    return MaskedModel(load_masked_lm(directory, device), settings, device)


def _existing_device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise BmtoolsError(f"--device: found {name!r}, expected auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise BmtoolsError(f"--device: found {name!r}, but this machine has "
                           f"{torch.cuda.device_count()} CUDA devices; expected auto or cpu")
    return name


def windows(records: Iterable[Record], predictors: Sequence[Predictor],
            ask: Callable[[Predictor, Record], Asked],
            reject: Reject) -> Iterator[list[tuple[Record, list[Asked]]]]:
    """Read records once for all predictors, so many at a time that batches fill.

    A record that one predictor cannot take is kept from all of them: their scores then speak of
    the same sentences.

    Args:
        records: read in windows of bounded size.
        predictors: all of them are asked about every record.
        ask: makes a predictor's question of a record; raises RecordError where it cannot.
        reject: receives the records that cannot be asked.

    Yields:
        records, each with its questions in the order of predictors.
    """
    pending = iter(records)
    while chunk := list(islice(pending, _WINDOW)):
        window = []
        for record in chunk:
            try:
                window.append((record, [ask(predictor, record) for predictor in predictors]))
            except RecordError as error:
                reject(error)
        if window:
            yield window


def check_length(predictor: Predictor, record: Record, tokens: int, way_out: str) -> None:
    """Refuse a sentence that a predictor cannot read whole.

    Raises:
        RecordError: names both lengths and the way out.
    """
    if tokens > predictor.max_tokens:
        raise RecordError(
            record.place, f"found {tokens} tokens, but {predictor.name} takes at most "
            f"{predictor.max_tokens}, special ones included; {way_out}", record)


def special_ids(tokenizer: Any) -> set[int]:
    """Ids that are marks rather than text; the unknown token stands for text and is none."""
    roles = ("pad", "cls", "sep", "bos", "eos", "mask")
    return {getattr(tokenizer, f"{role}_token_id") for role in roles} - {None}
