"""Batches by number: the same on every process and after every restart."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from bmtools.data.nsp_pairs import special_tokens
from bmtools.data.sampler import BatchPlan, Sampler, mask_keys
from bmtools.data.shards import Corpus
from bmtools.errors import BmtoolsError
from bmtools.masking.corruption import IGNORED, MaskedTokens, corrupt
from bmtools.masking.coverage import count_coverage
from bmtools.masking.settings import Corruption
from bmtools.masking.strategies import MaskStrategy
from bmtools.masking.token_batch import TokenBatch
from bmtools.recipes.schedule import PhaseStep, Schedule
from bmtools.recipes.settings import ObjectiveConfig


@dataclass(frozen=True)
class RankBatch:
    """One process's part of a batch.

    Args:
        pieces: what the objective takes, by name, for each pass.
        counts: what went in and what is asked, in this part; every process has the same keys.
    """

    pieces: Sequence[Mapping[str, Tensor]]
    counts: dict[str, int]


class Batches(Protocol):
    """Anything that can make batch number n."""

    def batch(self, number: int, process: int, processes: int) -> RankBatch:
        """Make one process's part of a batch from its number alone."""


@dataclass(frozen=True)
class SpecialTokens:
    """What text becomes on its way to the model.

    Args:
        cls: id of the token that opens a row.
        sep: id of the token that closes a segment.
        pad: id of the token that fills a row.
        mask: id of the token that hides another.
        special: ids that are never hidden.
        ordinary: ids that a random token may come from.
    """

    cls: int
    sep: int
    pad: int
    mask: int
    special: np.ndarray
    ordinary: np.ndarray

    @classmethod
    def of(cls, tokenizer: Any) -> SpecialTokens:
        """Read the ids off a tokenizer."""
        special = np.array(sorted(tokenizer.all_special_ids))
        return cls(tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id,
                   tokenizer.mask_token_id, special,
                   np.setdiff1d(np.arange(len(tokenizer)), special))


@dataclass(frozen=True)
class _Concatenated:
    """Samples end to end with their special tokens, all (tokens,) but `sizes`, (samples,)."""

    ids: np.ndarray
    starts: np.ndarray
    token_types: np.ndarray
    sizes: np.ndarray

    @property
    def sample(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.sizes)), self.sizes)


class Collator:
    """Turns planned rows into tensors: text is read, masked and laid out.

    Args:
        corpora: what the plans' corpus numbers mean.
        words: ids of the vocabulary.
        packed: lay documents end to end instead of in padded rows.
        seed: seed of the masks.
        strategies: by name of the masking.
        widths: lengths that padded rows may have, ascending; the longest is the longest row's.
            None for as long as the longest row of a pass.
    """

    def __init__(self, corpora: Sequence[Corpus], words: SpecialTokens, packed: bool, seed: int,
                 strategies: Mapping[str, MaskStrategy],
                 widths: Sequence[int] | None = None) -> None:
        self._corpora = corpora
        self._words = words
        self._packed = packed
        self._seed = seed
        self._strategies = strategies
        self._widths = widths

    def make(self, plan: BatchPlan, task: ObjectiveConfig,
             rate: float) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Make the inputs of one pass, and count what they hold."""
        flat = self._read(plan.samples)
        counts = {"rows": len(plan), "tokens": len(flat.ids)}
        if task.objective == "causal":
            shown = _shifted(flat)
            counts["predicted"] = int((shown.labels != IGNORED).sum())
        else:
            shown = self._masked(flat, mask_keys(plan.samples, self._seed), task, rate, counts)
        inputs = self._laid_out(flat, shown)
        if task.objective == "masked+nsp":
            inputs["nsp_labels"] = torch.from_numpy(plan.samples["related"].copy())
            counts["pairs"] = len(plan.samples)
        else:
            inputs.pop("token_type_ids")
        return inputs, counts

    def _read(self, samples: np.ndarray) -> _Concatenated:
        """Lay samples end to end: opening token, first segment, closing token, second segment."""
        paired = samples["related"] >= 0
        sizes = samples["length"] + samples["other_length"] + special_tokens(samples)
        begins = np.cumsum(sizes) - sizes
        ids = np.full(int(sizes.sum()), self._words.sep, dtype=np.int64)
        starts = np.ones(len(ids), dtype=bool)
        token_types = np.zeros(len(ids), dtype=np.int64)
        ids[begins] = self._words.cls
        self._fill(ids, starts, samples, ("document", "first", "length"), begins + 1)
        if paired.any():
            pairs, seconds = samples[paired], (begins + 2 + samples["length"])[paired]
            self._fill(ids, starts, pairs, ("other", "other_first", "other_length"), seconds)
            token_types[_places(seconds, pairs["other_length"] + 1)] = 1
        return _Concatenated(ids, starts, token_types, sizes)

    def _fill(self, ids: np.ndarray, starts: np.ndarray, samples: np.ndarray,
              names: tuple[str, str, str], begins: np.ndarray) -> None:
        documents, firsts, lengths = (samples[name] for name in names)
        for number, corpus in enumerate(self._corpora):
            mine = np.nonzero(samples["corpus"] == number)[0]
            if len(mine):
                places = _places(begins[mine], lengths[mine])
                ids[places], starts[places] = corpus.gather(
                    documents[mine], firsts[mine], lengths[mine])

    def _masked(self, flat: _Concatenated, keys: np.ndarray, task: ObjectiveConfig, rate: float,
                counts: dict[str, int]) -> MaskedTokens:
        maskable = ~np.isin(flat.ids, self._words.special)
        text = TokenBatch(flat.ids, flat.starts, maskable, flat.sample, keys)
        picked = self._strategies[task.masking](text, rate)
        covered = count_coverage(text, picked)
        counts |= {"masked": covered.masked, "maskable": covered.maskable,
                   "words": covered.words, "touched": covered.touched}
        return corrupt(text, picked, self._words.mask, self._words.ordinary,
                       Corruption(task.mask_replace_prob, task.random_replace_prob))

    def _laid_out(self, flat: _Concatenated, shown: MaskedTokens) -> dict[str, Tensor]:
        values = {"input_ids": shown.inputs, "labels": shown.labels,
                  "token_type_ids": flat.token_types}
        if self._packed:
            return {**{name: torch.from_numpy(value) for name, value in values.items()},
                    "lengths": torch.from_numpy(flat.sizes)}
        width = int(flat.sizes.max())
        if self._widths:
            width = self._widths[bisect_left(self._widths, width)]
        attended = np.arange(width) < flat.sizes[:, None]
        fill = {"input_ids": self._words.pad, "labels": IGNORED, "token_type_ids": 0}
        inputs = {"attention_mask": torch.from_numpy(attended)}
        for name, value in values.items():
            rows = np.full(attended.shape, fill[name], dtype=np.int64)
            rows[attended] = value
            inputs[name] = torch.from_numpy(rows)
        return inputs


class MicroBatched:
    """Batches whose shares are cut into passes of some rows.

    Args:
        batches: of rows, all inputs (rows, ...).
        rows: of a pass.
    """

    def __init__(self, batches: Batches, rows: int) -> None:
        self._batches = batches
        self._rows = rows

    def batch(self, number: int, process: int = 0, processes: int = 1) -> RankBatch:
        """Make one process's part of a batch, in passes."""
        share = self._batches.batch(number, process, processes)
        parts = [{name: value.split(self._rows) for name, value in piece.items()}
                 for piece in share.pieces]
        return RankBatch([dict(zip(part, values, strict=True)) for part in parts
                          for values in zip(*part.values(), strict=True)], share.counts)


class RowBatches:
    """Batches of a run, phase by phase.

    Args:
        stream: plans the rows.
        timeline: says what each step asks.
        maker: makes tensors of rows.
        micro_batch_sizes: sequences of a micro-batch by name of the phase; all where 0 or absent.
    """

    def __init__(self, stream: Sampler, timeline: Schedule, maker: Collator,
                 micro_batch_sizes: Mapping[str, int] | None = None) -> None:
        self._stream = stream
        self._timeline = timeline
        self._maker = maker
        self._micro_batch_sizes = micro_batch_sizes or {}

    def batch(self, number: int, process: int = 0, processes: int = 1) -> RankBatch:
        """Make every n-th row of a batch, in passes."""
        stage = self._timeline.phase_step(number)
        plan = self._stream.batch(number)
        if len(plan) % processes:
            raise BmtoolsError(f"--batch-size: found {len(plan)}, expected a multiple of the "
                               f"{processes} processes that share it")
        return self.make(plan, stage, np.arange(process, len(plan), processes))

    def example(self, number: int, rows: int = 2) -> Mapping[str, Tensor]:
        """Make the first rows of a batch in one pass, to try something on."""
        plan = self._stream.batch(number)
        return self._maker.make(plan.select(np.arange(min(rows, len(plan)))),
                                self._timeline.phase_step(number).phase.objective, 0.15)[0]

    def make(self, plan: BatchPlan, stage: PhaseStep, numbers: np.ndarray) -> RankBatch:
        """Make some rows of a plan, in passes of the micro-batch."""
        size = self._micro_batch_sizes.get(stage.phase.name) or len(numbers)
        pieces: list[Mapping[str, Tensor]] = []
        total: dict[str, int] = {}
        for start in range(0, len(numbers), size):
            inputs, counts = self._maker.make(plan.select(numbers[start:start + size]),
                                              stage.phase.objective, stage.mask_rate)
            pieces.append(inputs)
            total = {name: total.get(name, 0) + count for name, count in counts.items()}
        return RankBatch(pieces, total)


def _places(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Number the places of several stretches, one after the other."""
    offsets = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(begins - offsets, lengths)


def _shifted(flat: _Concatenated) -> MaskedTokens:
    """Ask, at each place, for the token that comes next in its sample."""
    labels = np.full_like(flat.ids, IGNORED)
    labels[:-1] = flat.ids[1:]
    labels[np.cumsum(flat.sizes) - 1] = IGNORED
    return MaskedTokens(flat.ids, labels)
