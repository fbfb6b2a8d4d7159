"""Batches by number: the same for every number of processes and after every restart."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from bmtools.data.sampler import Sampler
from bmtools.data.samples import mask_keys, token_counts
from bmtools.data.shards import Corpus
from bmtools.errors import BmtoolsError, setting
from bmtools.masking.corruption import IGNORED, MaskedTokens, corrupt
from bmtools.masking.coverage import count_coverage
from bmtools.masking.ragged import offsets, ranges
from bmtools.masking.settings import Corruption
from bmtools.masking.strategies import MaskStrategy
from bmtools.masking.token_batch import TokenBatch
from bmtools.recipes.settings import ObjectiveConfig

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MicroBatch = Mapping[str, Tensor]
"""Arguments of the objective for one forward pass, by name."""


@dataclass(frozen=True)
class RankBatch:
    """One process's part of a batch.

    Args:
        micro_batches: arguments of the objective, by name, for each forward pass.
        counts: tokens and so on in this part; every process has the same keys.
    """

    micro_batches: Sequence[MicroBatch]
    counts: Mapping[str, int]


class Batches(Protocol):
    """Batches by number."""

    def batch(self, number: int, rank: int, world_size: int) -> RankBatch:
        """Make one process's part of a batch from its number alone."""


@dataclass(frozen=True)
class SpecialTokens:
    """Token ids that frame, pad, mask or replace text.

    Args:
        cls: id of the token that opens a sequence.
        sep: id of the token that closes a segment.
        pad: id of the padding token.
        mask: id of the mask token.
        special: ids that are never masked.
        ordinary: ids that a random replacement is drawn from.
    """

    cls: int
    sep: int
    pad: int
    mask: int
    special: np.ndarray
    ordinary: np.ndarray

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> SpecialTokens:
        """Read the ids off a tokenizer."""
        special = np.array(sorted(tokenizer.all_special_ids))
        return cls(tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id,
                   tokenizer.mask_token_id, special,
                   np.setdiff1d(np.arange(len(tokenizer)), special))


@dataclass(frozen=True)
class _Concatenated:
    """Samples with their special tokens in flat arrays, (tokens,); `lengths` is (samples,)."""

    ids: np.ndarray
    starts: np.ndarray
    token_types: np.ndarray
    lengths: np.ndarray

    @property
    def sample(self) -> np.ndarray:
        """(tokens,) number of each token's sample."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


class Collator:
    """Makes tensors of samples: reads their tokens, masks some, pads or packs them.

    Args:
        corpora: by the corpus numbers of samples.
        special_tokens: of the vocabulary.
        packed: concatenate documents instead of padding sequences.
        seed: seed of the masks.
        strategies: by name of the masking.
        padded_lengths: lengths that padded sequences may have, ascending; the last one is the
            longest sequence's. None: as long as the longest sequence of a micro-batch.
    """

    def __init__(self, corpora: Sequence[Corpus], special_tokens: SpecialTokens, packed: bool,
                 seed: int, strategies: Mapping[str, MaskStrategy],
                 padded_lengths: Sequence[int] | None = None) -> None:
        self._corpora = corpora
        self._tokens = special_tokens
        self._packed = packed
        self._seed = seed
        self._strategies = strategies
        self._padded_lengths = padded_lengths

    def __call__(self, samples: np.ndarray, objective: ObjectiveConfig,
                 mask_rate: float) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Make the inputs of one micro-batch, and count its tokens, masks and pairs."""
        flat = self._concatenate(samples)
        counts = {"tokens": len(flat.ids)}
        if objective.objective == "causal":
            masked = _next_tokens(flat)
            counts["predicted"] = int((masked.labels != IGNORED).sum())
        else:
            text = TokenBatch(flat.ids, flat.starts, ~np.isin(flat.ids, self._tokens.special),
                              flat.sample, mask_keys(samples, self._seed))
            masked = self._mask(text, objective, mask_rate, counts)
        inputs = self._pack(flat, masked) if self._packed else self._pad(flat, masked)
        if objective.objective == "masked+nsp":
            inputs["nsp_labels"] = torch.from_numpy(samples["nsp_label"].copy())
            counts["pairs"] = len(samples)
        else:
            inputs.pop("token_type_ids")
        return inputs, counts

    def _concatenate(self, samples: np.ndarray) -> _Concatenated:
        """Concatenate samples: [CLS], first segment, [SEP] and, in pairs, second segment, [SEP]."""
        paired = samples["nsp_label"] >= 0
        lengths = token_counts(samples)
        begins = offsets(lengths)[:-1]
        ids = np.full(int(lengths.sum()), self._tokens.sep, dtype=np.int64)
        starts = np.ones(len(ids), dtype=bool)
        token_types = np.zeros(len(ids), dtype=np.int64)
        ids[begins] = self._tokens.cls
        self._fill(ids, starts, samples, ("document", "start", "length"), begins + 1)
        if paired.any():
            pairs, seconds = samples[paired], (begins + 2 + samples["length"])[paired]
            self._fill(ids, starts, pairs,
                       ("second_document", "second_start", "second_length"), seconds)
            token_types[ranges(seconds, pairs["second_length"] + 1)] = 1
        return _Concatenated(ids, starts, token_types, lengths)

    def _fill(self, ids: np.ndarray, starts: np.ndarray, samples: np.ndarray,
              names: tuple[str, str, str], begins: np.ndarray) -> None:
        documents, firsts, lengths = (samples[name] for name in names)
        for number, corpus in enumerate(self._corpora):
            chosen = np.nonzero(samples["corpus"] == number)[0]
            if len(chosen):
                positions = ranges(begins[chosen], lengths[chosen])
                ids[positions], starts[positions] = corpus.gather(
                    documents[chosen], firsts[chosen], lengths[chosen])

    def _mask(self, text: TokenBatch, objective: ObjectiveConfig, mask_rate: float,
              counts: dict[str, int]) -> MaskedTokens:
        masked = self._strategies[objective.masking](text, mask_rate)
        coverage = count_coverage(text, masked)
        counts |= {"masked": coverage.masked, "maskable": coverage.maskable,
                   "words": coverage.words, "words_masked": coverage.touched}
        return corrupt(text, masked, self._tokens.mask, self._tokens.ordinary,
                       Corruption(objective.mask_replace_prob, objective.random_replace_prob))

    def _pack(self, flat: _Concatenated, masked: MaskedTokens) -> dict[str, Tensor]:
        return {"input_ids": torch.from_numpy(masked.inputs),
                "labels": torch.from_numpy(masked.labels),
                "token_type_ids": torch.from_numpy(flat.token_types),
                "lengths": torch.from_numpy(flat.lengths)}

    def _pad(self, flat: _Concatenated, masked: MaskedTokens) -> dict[str, Tensor]:
        length = int(flat.lengths.max())
        if self._padded_lengths:
            length = self._padded_lengths[bisect_left(self._padded_lengths, length)]
        attention_mask = np.arange(length) < flat.lengths[:, None]
        inputs = {"attention_mask": torch.from_numpy(attention_mask)}
        for name, values, padding in (("input_ids", masked.inputs, self._tokens.pad),
                                      ("labels", masked.labels, IGNORED),
                                      ("token_type_ids", flat.token_types, 0)):
            padded = np.full(attention_mask.shape, padding, dtype=np.int64)
            padded[attention_mask] = values
            inputs[name] = torch.from_numpy(padded)
        return inputs


def _next_tokens(flat: _Concatenated) -> MaskedTokens:
    """Label each token with the next one of its sample."""
    labels = np.full_like(flat.ids, IGNORED)
    labels[:-1] = flat.ids[1:]
    labels[offsets(flat.lengths)[1:] - 1] = IGNORED
    return MaskedTokens(flat.ids, labels)


class ScheduledBatches:
    """Batches of a run's schedule, in micro-batches.

    Args:
        sampler: plans each batch.
        collator: makes tensors of samples.
        micro_batch_sizes: sequences of a micro-batch by the name of the phase; the whole batch
            where a phase has none, or 0.
    """

    def __init__(self, sampler: Sampler, collator: Collator,
                 micro_batch_sizes: Mapping[str, int] | None = None) -> None:
        self._sampler = sampler
        self._collator = collator
        self._micro_batch_sizes = micro_batch_sizes or {}

    def batch(self, number: int, rank: int = 0, world_size: int = 1) -> RankBatch:
        """Make every `world_size`-th sequence of a batch."""
        plan = self._sampler.batch(number)
        if len(plan) % world_size:
            raise BmtoolsError(f"{setting('batch_size')}: found {len(plan)}, expected a multiple "
                               f"of the {world_size} processes that share it")
        phase, mask_rate = plan.phase_step.phase, plan.phase_step.mask_rate
        own = np.arange(rank, len(plan), world_size)
        size = self._micro_batch_sizes.get(phase.name) or len(own)
        micro_batches = []
        total = Counter(sequences=len(own))
        for start in range(0, len(own), size):
            samples = plan.select(own[start:start + size]).samples
            inputs, counts = self._collator(samples, phase.objective, mask_rate)
            micro_batches.append(inputs)
            total.update(counts)
        return RankBatch(micro_batches, total)


def split_in_half(micro_batches: Sequence[MicroBatch]) -> list[MicroBatch]:
    """Split each micro-batch in two; single sequences or documents stay as they are."""
    return [half for inputs in micro_batches for half in _halves(inputs)]


def _halves(inputs: MicroBatch) -> list[MicroBatch]:
    lengths = inputs.get("lengths")
    if lengths is None:
        middle = len(next(iter(inputs.values()))) // 2
        return _split(inputs, dict.fromkeys(inputs, middle)) if middle else [inputs]
    # Of packed documents, those up to half of the tokens, or the first one, make a half.
    ends = lengths.cumsum(0)
    documents = max(int((ends * 2 <= ends[-1]).sum()), 1)
    if documents == len(lengths):
        return [inputs]
    tokens = int(ends[-1])
    middles = {name: int(ends[documents - 1]) if len(value) == tokens else documents
               for name, value in inputs.items()}
    middles["lengths"] = documents
    return _split(inputs, middles)


def _split(inputs: MicroBatch, middles: Mapping[str, int]) -> list[MicroBatch]:
    return [{name: value[:middles[name]] for name, value in inputs.items()},
            {name: value[middles[name]:] for name, value in inputs.items()}]
