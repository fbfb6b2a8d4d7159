"""Batches by number, which do not depend on the number of processes or on restarts."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from bmtools.data.masking.corruption import IGNORED, TokenBatch, corrupt, count_coverage
from bmtools.data.masking.strategies import MaskStrategy
from bmtools.data.sampler import BatchPlan, Sampler, StreamPosition
from bmtools.data.samples import mask_keys, token_counts
from bmtools.data.shards import Corpus
from bmtools.errors import CheckpointError
from bmtools.ragged import offsets, ranges
from bmtools.recipes.settings import ObjectiveConfig

ResultT = TypeVar("ResultT")
_PLANS_AHEAD = 8

MicroBatch = Mapping[str, Tensor]
"""Arguments of the objective for one forward pass, by name."""


@dataclass(frozen=True)
class RankBatch:
    """One process's part of a batch.

    Args:
        micro_batches: arguments of the objective, by name, for each forward pass.
        counts: counts of this part, such as tokens; every process has the same keys.
        following: position at which a resumed run continues after the batch; None if its number is
            enough.
        replayed: batch of earlier text for the same update, if any.
    """

    micro_batches: Sequence[MicroBatch]
    counts: Mapping[str, int]
    following: StreamPosition | None = None
    replayed: RankBatch | None = None

    @property
    def parts(self) -> list[RankBatch]:
        """The batch and the replayed batch, if any."""
        return [self, *([self.replayed] if self.replayed else [])]


class Batches(Protocol):
    """Batches by number."""

    def batch(self, number: int, rank: int, world_size: int) -> RankBatch:
        """Make one process's part of a batch from its number."""


@dataclass(frozen=True)
class SpecialTokens:
    """Token ids that frame, pad, mask or replace text.

    Args:
        cls: id of the first token of a sequence.
        sep: id of the last token of a segment.
        pad: id of the padding token.
        mask: id of the mask token.
        special: ids that are never masked.
        ordinary: ids that random replacements are sampled from.
    """

    cls: int
    sep: int
    pad: int
    mask: int
    special: np.ndarray
    ordinary: np.ndarray

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> SpecialTokens:
        """Read the ids from a tokenizer."""
        special = np.array(sorted(tokenizer.all_special_ids))
        return cls(tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id,
                   tokenizer.mask_token_id, special,
                   np.setdiff1d(np.arange(len(tokenizer)), special))

    @cached_property
    def last(self) -> int:
        """Last id of the vocabulary."""
        return int(max(self.special.max(initial=0), self.ordinary.max(initial=0)))


@dataclass(frozen=True, eq=False)
class Collator:
    """Makes tensors from samples: reads their tokens, masks some, and pads or packs them.

    Args:
        corpora: corpora in the order of samples' corpus numbers.
        special_tokens: special tokens of the vocabulary.
        packed: concatenate documents instead of padding sequences.
        seed: seed of the masks.
        strategies: masking strategies by name.
        padded_lengths: allowed lengths of padded sequences, ascending, up to the maximum length.
            None: pad to the longest sequence of a micro-batch.
    """

    corpora: Sequence[Corpus]
    special_tokens: SpecialTokens
    packed: bool
    seed: int
    strategies: Mapping[str, MaskStrategy]
    padded_lengths: Sequence[int] | None = None

    def __call__(self, samples: np.ndarray, objective: ObjectiveConfig,
                 mask_rate: float) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Make the inputs of one micro-batch, and count its tokens, masks and pairs.

        Raises:
            CheckpointError: shards are damaged and contain ids beyond the vocabulary.
        """
        ids, word_starts, token_types, lengths = self._concatenate(samples)
        if (found := int(ids.max())) > self.special_tokens.last:
            raise CheckpointError(f"the shards are damaged: found the token {found}, expected "
                                  f"{self.special_tokens.last} or less; make them again with "
                                  "`bmtools tokenize`")
        counts = {"tokens": len(ids)}
        if objective.objective == "causal":
            flat = {"input_ids": ids, "labels": np.full_like(ids, IGNORED)}
            flat["labels"][:-1] = ids[1:]
            flat["labels"][lengths.cumsum() - 1] = IGNORED
            counts["predicted"] = int((flat["labels"] != IGNORED).sum())
        else:
            text = TokenBatch(ids, word_starts, ~np.isin(ids, self.special_tokens.special),
                              np.repeat(np.arange(len(lengths)), lengths),
                              mask_keys(samples, self.seed))
            chosen = self.strategies[objective.masking](text, mask_rate)
            coverage = count_coverage(text, chosen)
            counts |= {"masked": coverage.masked, "maskable": coverage.maskable,
                       "words": coverage.words, "words_masked": coverage.touched}
            masked = corrupt(text, chosen, self.special_tokens.mask, self.special_tokens.ordinary,
                             objective.mask_replace_prob, objective.random_replace_prob)
            flat = {"input_ids": masked.inputs, "labels": masked.labels}
        if objective.pair_term:
            flat["token_type_ids"] = token_types
            counts["pairs"] = len(samples)
        arrays = {**flat, "lengths": lengths} if self.packed else self._pad(flat, lengths)
        inputs = {name: torch.from_numpy(array) for name, array in arrays.items()}
        if objective.pair_term:
            inputs["nsp_labels"] = torch.from_numpy(samples["nsp_label"].copy())
        return inputs, counts

    def _concatenate(self, samples: np.ndarray
                     ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Concatenate samples: [CLS], first segment, [SEP], and for pairs second segment, [SEP].

        Returns:
            (tokens,) ids, word starts and token types, and (samples,) lengths.
        """
        paired = samples["nsp_label"] >= 0
        lengths = token_counts(samples)
        begins = offsets(lengths)[:-1]
        ids = np.full(int(lengths.sum()), self.special_tokens.sep, dtype=np.int64)
        word_starts = np.ones(len(ids), dtype=bool)
        token_types = np.zeros(len(ids), dtype=np.int64)
        ids[begins] = self.special_tokens.cls
        seconds = begins + 2 + samples["length"]
        for number, corpus in enumerate(self.corpora):
            own = samples["corpus"] == number
            for prefix, firsts, present in (("", begins + 1, own),
                                            ("second_", seconds, own & paired)):
                chosen = samples[present]
                if len(chosen):
                    sizes = chosen[prefix + "length"]
                    positions = ranges(firsts[present], sizes)
                    ids[positions], word_starts[positions] = corpus.gather(
                        chosen[prefix + "document"], chosen[prefix + "start"], sizes)
        token_types[ranges(seconds[paired], samples["second_length"][paired] + 1)] = 1
        return ids, word_starts, token_types, lengths

    def _pad(self, flat: Mapping[str, np.ndarray], lengths: np.ndarray) -> dict[str, np.ndarray]:
        length = int(lengths.max())
        if self.padded_lengths:
            length = self.padded_lengths[bisect_left(self.padded_lengths, length)]
        attention_mask = np.arange(length) < lengths[:, None]
        padding = {"input_ids": self.special_tokens.pad, "labels": IGNORED, "token_type_ids": 0}
        arrays = {"attention_mask": attention_mask}
        for name, values in flat.items():
            arrays[name] = np.full(attention_mask.shape, padding[name], dtype=np.int64)
            arrays[name][attention_mask] = values
        return arrays


@dataclass(frozen=True, eq=False)
class ScheduledBatches:
    """Batches of a run's schedule, in micro-batches; a thread plans some of them ahead.

    Args:
        sampler: plans each batch.
        collator: makes tensors from samples.
        micro_batch_sizes: sequences of a micro-batch by phase name; if missing or 0, the complete
            batch.
    """

    sampler: Sampler
    collator: Collator
    micro_batch_sizes: Mapping[str, int] = field(default_factory=dict)

    def batch(self, number: int, rank: int = 0, world_size: int = 1) -> RankBatch:
        """Make every `world_size`-th sequence of a batch."""
        plan = self._plans.get(number)
        phase, mask_rate = plan.phase_step.phase, plan.phase_step.mask_rate
        own = plan.sequences[rank::world_size]
        size = self.micro_batch_sizes.get(phase.name) or len(own)
        passes = -(-len(own) // size)
        micro_batches = []
        total = Counter(sequences=len(own))
        for first in range(passes):
            # Take every n-th sequence, so that one process makes the same micro-batches as several.
            inputs, counts = self.collator(own[first::passes].samples, phase.objective, mask_rate)
            micro_batches.append(inputs)
            total.update(counts)
        return RankBatch(micro_batches, total, plan.following)

    @cached_property
    def _plans(self) -> Prefetcher[BatchPlan]:
        return Prefetcher(self.sampler.batch, _PLANS_AHEAD)


class Prefetcher(Generic[ResultT]):
    """Results of a function of a number; a thread computes some of them ahead.

    Args:
        make: makes a result; called from one thread, with ascending numbers except for jumps.
        ahead: maximum number of waiting results.
        end: one more than the last number; None if there is no end.
    """

    def __init__(self, make: Callable[[int], ResultT], ahead: int, end: int | None = None) -> None:
        self._make = make
        self._ahead = ahead
        self._end = end
        self._executor = ThreadPoolExecutor(1)
        self._futures: dict[int, Future[ResultT]] = {}

    def get(self, number: int) -> ResultT:
        """Return a result, and delete results of lower numbers.

        Raises:
            Exception: raised by `make`.
        """
        self._futures = {other: future for other, future in self._futures.items()
                         if other >= number and number in self._futures}
        end = number + 1 + self._ahead
        for other in range(number, end if self._end is None else min(end, self._end)):
            if other not in self._futures:
                self._futures[other] = self._executor.submit(self._make, other)
        return self._futures[number].result()
