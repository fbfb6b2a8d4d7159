"""States of a teacher with another vocabulary, for the tokens of its student."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from bmtools.data.batches import SpecialTokens
from bmtools.data.masking.corruption import IGNORED
from bmtools.models.documents import SHAPE_MULTIPLE, DocumentLengths
from bmtools.models.mlm import wide
from bmtools.ragged import offsets, ranges
from bmtools.training.objectives import EncoderInputs, Lengths
from bmtools.vocab.detokenizer import Detokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from bmtools.training.distillation.cached_teacher import CachedTeacher
    from bmtools.training.distillation.teacher import Teacher, TeacherOutputs

_LENGTH_MULTIPLE = 16  # see `padded_lengths` of a run


@dataclass(eq=False)
class AlignedTokens:
    """A teacher's inputs for a micro-batch, and the shares of its tokens in the student's.

    Args:
        input_ids, attention_mask, lengths: as in `EncoderInputs`.
        tokens: (aligned,) numbers of the student's tokens that share characters with tokens of
            the teacher, among all but padding.
        partners: (pairs,) numbers of these tokens of the teacher, likewise.
        weights: (pairs,) shared characters, as shares of each of the student's tokens.
        bags: (aligned,) where the pairs of each begin.
    """

    input_ids: Tensor
    attention_mask: Tensor | None
    lengths: DocumentLengths | None
    tokens: Tensor
    partners: Tensor
    weights: Tensor
    bags: Tensor

    def pin_memory(self) -> AlignedTokens:
        """Pin what a GPU reads, so that it is copied without a wait."""
        return replace(self, **{name: value.pin_memory() for name, value in vars(self).items()
                                if value is not None})

    def to(self, device: torch.device, non_blocking: bool = False) -> AlignedTokens:
        """Move all to a device."""
        return replace(self, **{name: value.to(device, non_blocking=non_blocking)
                                for name, value in vars(self).items() if value is not None})

    def average(self, states: Tensor) -> Tensor:
        """Average a teacher's states, (tokens, width), for each aligned token of the student."""
        states = wide(states)
        return functional.embedding_bag(self.partners, states, self.bags, mode="sum",
                                        per_sample_weights=self.weights.to(states.dtype))


class AlignedTeacher:
    """A teacher with another vocabulary, whose states are given for the tokens of its student.

    It reads the same text, rebuilt from the student's tokens, and masked where the student's is:
    any of its tokens that shares a character with a masked token is masked. So, with one
    vocabulary, it reads what the student reads, and no target contains what is hidden from the
    student. A token of the student gets the mean of the states of the tokens that share
    characters with it, weighted by these; that of no token gets none, as does what is beyond the
    teacher's positions.

    Source: Kolesnikova et al. 2022 (arXiv 2205.02340) align tokens of BERT models with different
    vocabularies by the words that they make; the mean over characters is ours.

    Args:
        teacher: computes states.
        tokenizer: of the teacher.
        student: tokenizer of the student.
        max_tokens: positions of the teacher.
    """

    def __init__(self, teacher: Teacher | CachedTeacher, tokenizer: PreTrainedTokenizerBase,
                 student: PreTrainedTokenizerBase, max_tokens: int) -> None:
        self.config = teacher.config
        self._teacher = teacher
        self._special_tokens = SpecialTokens.of(tokenizer)
        self._student_mask = student.mask_token_id
        self._longest = max_tokens - 2
        mask = str(tokenizer.mask_token)
        self._detokenizer = Detokenizer(student.backend_tokenizer, str(tokenizer.unk_token or mask),
                                        {student.mask_token_id: mask})
        # Post-processors take spaces off the offsets of tokens.
        pipeline = json.loads(tokenizer.backend_tokenizer.to_str())
        self._tokenizer = Tokenizer.from_str(json.dumps({**pipeline, "post_processor": None}))

    def __call__(self, inputs: EncoderInputs, _compared: Tensor,
                 aligned: AlignedTokens | None = None) -> TeacherOutputs:
        """Compute outputs for the aligned tokens of inputs that `align` was called with."""
        if aligned is None:  # as where memory is measured
            aligned = self.align(inputs.input_ids, torch.full_like(inputs.input_ids, IGNORED),
                                 inputs.attention_mask, inputs.lengths
                                 ).to(inputs.input_ids.device)
        taught = self._teacher(EncoderInputs(aligned.input_ids, aligned.attention_mask,
                                             aligned.lengths), aligned.tokens[:0])
        last = taught.last_states
        return replace(
            taught, tokens=aligned.tokens, last_states=last if last is None
            else aligned.average(last),
            states={layer: aligned.average(states) for layer, states in taught.states.items()})

    def align(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
              lengths: Lengths = None) -> AlignedTokens:
        """Make the teacher's inputs and find partners; shapes as in `EncoderInputs`."""
        if attention_mask is not None:
            input_ids, labels = input_ids[attention_mask], labels[attention_mask]
        found = EncoderInputs(input_ids, attention_mask, lengths).document_lengths()
        teacher_ids, teacher_lengths, *pairs = self._match(
            input_ids.cpu().numpy(), labels.cpu().numpy(), np.array(found))
        if attention_mask is None:
            documents = DocumentLengths.of(torch.from_numpy(teacher_lengths),
                                           multiple=SHAPE_MULTIPLE)
            return AlignedTokens(torch.from_numpy(teacher_ids), None, documents, *_in_bags(*pairs))
        return AlignedTokens(*self._pad(teacher_ids, teacher_lengths), None, *_in_bags(*pairs))

    def _match(self, ids: np.ndarray, labels: np.ndarray,
               lengths: np.ndarray) -> tuple[np.ndarray, ...]:
        """Encode the text of (tokens,) ids; find pairs of tokens, and the characters they share.

        Returns:
            the teacher's ids and the lengths of its documents; then, of each pair, the number of
            the student's token, that of the teacher's, and the number of characters.
        """
        is_masked = (ids == self._student_mask) & (labels != IGNORED)
        ends = lengths.cumsum()
        is_frame = np.zeros(len(ids), dtype=bool)
        is_frame[ends - lengths] = is_frame[ends - 1] = True
        text, spans = self._detokenizer(np.where(is_masked, labels, ids), is_frame)
        begins, stops = spans[ends - lengths, 1], spans[ends - 1, 0]
        encodings = self._tokenizer.encode_batch(
            [text[begin:stop] for begin, stop in zip(begins, stops, strict=True)],
            add_special_tokens=False)
        teacher_ids, teacher_spans = [], []
        for begin, stop, found in zip(begins, stops, encodings, strict=True):
            teacher_ids.append([self._special_tokens.cls, *found.ids[:self._longest],
                                self._special_tokens.sep])
            inner = np.array(found.offsets[:self._longest], dtype=np.int64).reshape(-1, 2)
            teacher_spans.append(np.concatenate([[[-1, 0]], inner, [[stop - begin, stop - begin + 1]
                                                                    ]]) + begin)
        own, partners, shared = _overlaps(spans, np.concatenate(teacher_spans))
        flat = np.concatenate(teacher_ids)
        flat[partners[is_masked[own]]] = self._special_tokens.mask
        return flat, np.array([*map(len, teacher_ids)]), own, partners, shared

    def _pad(self, ids: np.ndarray, lengths: np.ndarray) -> tuple[Tensor, Tensor]:
        longest = int(lengths.max())
        length = min(longest + -longest % _LENGTH_MULTIPLE, self._longest + 2)
        mask = np.arange(length) < lengths[:, None]
        padded = np.full(mask.shape, self._special_tokens.pad, dtype=np.int64)
        padded[mask] = ids
        return torch.from_numpy(padded), torch.from_numpy(mask)


def _overlaps(spans: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pair spans that share characters.

    Args:
        spans, others: (spans, 2) begins and ends; neither falls from one span to the next.

    Returns:
        (pairs,) numbers of both, in the order of `spans`, and the characters that they share.
    """
    first = np.searchsorted(np.maximum.accumulate(others[:, 1]), spans[:, 0], side="right")
    counts = np.maximum(np.searchsorted(others[:, 0], spans[:, 1]) - first, 0)
    own, partners = np.arange(len(spans)).repeat(counts), ranges(first, counts)
    shared = np.minimum(spans[own, 1], others[partners, 1]) \
        - np.maximum(spans[own, 0], others[partners, 0])
    does = shared > 0
    return own[does], partners[does], shared[does]


def _in_bags(own: np.ndarray, partners: np.ndarray,
             shared: np.ndarray) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Arrange pairs by the student's tokens, as `AlignedTokens` has them."""
    tokens, counts = np.unique(own, return_counts=True)
    bags = offsets(counts)[:-1]
    totals = np.add.reduceat(shared, bags)
    weights = shared / totals.repeat(counts)
    return (torch.from_numpy(tokens), torch.from_numpy(partners), torch.from_numpy(weights),
            torch.from_numpy(bags))
