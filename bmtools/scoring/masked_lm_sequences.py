"""Texts cut into sequences and masked as in pretraining, and models' losses at masked positions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from bmtools.data.masking.corruption import MaskedTokens, TokenBatch, corrupt
from bmtools.data.masking.strategies import MaskStrategy, TermList, make_strategy, spellings
from bmtools.data.samples import SINGLE_SPECIALS, cut_evenly, whole_documents
from bmtools.data.shards import Corpus, DocumentBatch
from bmtools.keyed_random import derive
from bmtools.models.mlm import encode, lm_head
from bmtools.ragged import offsets
from bmtools.records import Record, full_text
from bmtools.scoring.checkpoint_predictor import CheckpointPredictor
from bmtools.scoring.predictor import MaskedCopies
from bmtools.scoring.settings import Combination, MaskedLmLossConfig
from bmtools.vocab.encoding import EncodedTexts, Encoder
from bmtools.vocab.segmenters import load_segmenter

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, eq=False)
class Sequences:
    """Texts cut into sequences, concatenated, without special tokens.

    Args:
        input_ids: (tokens,) int64.
        starts: (tokens,) bool, True where a word begins.
        maskable: (tokens,) bool, False on unknown tokens and on special tokens in the text.
        borders: (sequences + 1,) first token of each sequence, and the end of the last one.
        texts: (sequences,) index of each sequence's text.
        keys: (sequences,) uint64, keys of their random numbers.
    """

    input_ids: np.ndarray
    starts: np.ndarray
    maskable: np.ndarray
    borders: np.ndarray
    texts: np.ndarray
    keys: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """(sequences,) number of tokens."""
        return np.diff(self.borders)

    def masked_once(self, tokenizer: PreTrainedTokenizerBase) -> list[MaskedCopies]:
        """Mask the middle token of each sequence, to measure the error of half precision."""
        return [MaskedCopies(np.array([tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]),
                             np.array([[len(ids) // 2 + 1, len(ids) // 2 + 2]]))
                for ids in np.split(self.input_ids, self.borders[1:-1])]


class SequenceMasker:
    """Tokenizer and masking for one vocabulary.

    The masks of a text depend only on its id, its words, the seed and the draw. They do not depend
    on other texts or on the model. A higher rate masks all tokens of a lower rate and more, except
    at the end of a budget. Corruption does not change which tokens are masked.

    Args:
        tokenizer: tokenizer of the models.
        config: length of sequences, and masking.
        terms: words and phrases for masking by terms.
        seed: seed of masks.

    Raises:
        BmtoolsError: if the segmenter does not exist or its package is not installed.
        ValueError: if masking by terms has no terms.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, config: MaskedLmLossConfig,
                 terms: Sequence[str] = (), seed: int = 0) -> None:
        self._encoder = Encoder(tokenizer.backend_tokenizer, load_segmenter(config.segmenter))
        self._special_ids = np.array(sorted(tokenizer.all_special_ids))
        self._replacements = np.setdiff1d(np.arange(len(tokenizer)), self._special_ids)
        self._mask_id = tokenizer.mask_token_id
        self._max_length = config.max_length
        self._seed = seed
        term_list = TermList(spellings(tokenizer, terms)) if terms else None
        self._strategies: dict[str, MaskStrategy] = {
            name: make_strategy(name, terms=term_list) for name in config.maskings()}

    def encode(self, records: Sequence[Record]) -> EncodedTexts:
        """Encode titles and texts."""
        return self._encoder.encode([full_text(record) for record in records])

    def maskable_counts(self, records: Sequence[Record]) -> np.ndarray:
        """Count the maskable tokens of each text, (texts,)."""
        encoded = self.encode(records)
        texts = np.repeat(np.arange(len(encoded.lengths)), encoded.lengths)
        maskable = np.isin(encoded.ids, self._special_ids, invert=True)
        return np.bincount(texts[maskable], minlength=len(encoded.lengths))

    def cut(self, encoded: EncodedTexts, keys: np.ndarray) -> Sequences:
        """Cut texts into sequences.

        Args:
            encoded: texts with at least one token each.
            keys: (texts,) keys from `text_keys`.
        """
        begins, texts, firsts = cut_texts(encoded.lengths, encoded.word_starts, self._max_length)
        maskable = np.isin(encoded.ids, self._special_ids, invert=True)
        return Sequences(encoded.ids.astype(np.int64), encoded.word_starts, maskable,
                         np.append(begins, len(encoded.ids)), texts,
                         derive(self._seed, keys[texts], firsts))

    def mask(self, sequences: Sequences, combination: Combination, draw: int) -> MaskedTokens:
        """Mask and corrupt tokens by a combination."""
        sample = np.repeat(np.arange(len(sequences.texts)), sequences.lengths)
        batch = TokenBatch(sequences.input_ids, sequences.starts, sequences.maskable, sample,
                           derive(sequences.keys, draw))
        masked = self._strategies[combination.masking](batch, combination.mask_rate)
        return corrupt(batch, masked, self._mask_id, self._replacements, *combination.shares)


def cut_texts(lengths: np.ndarray, starts: np.ndarray,
              max_length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut long texts into few sequences of about equal length, at word boundaries.

    Args:
        lengths: (texts,) number of tokens, at least 1.
        starts: (tokens,) bool, True where a word begins.
        max_length: maximum length of a sequence, including special tokens.

    Returns:
        (sequences,) each: first token among all tokens, index of the text, and first token within
        the text.
    """
    begins = offsets(lengths)[:-1]
    numbers = np.arange(len(lengths))
    corpus = Corpus.of(DocumentBatch(np.zeros(len(starts), np.uint16), starts, lengths))
    sequences = cut_evenly(whole_documents(numbers, lengths, draws=numbers), [corpus], max_length)
    texts, firsts = sequences["document"], sequences["start"]
    return begins[texts] + firsts, texts, firsts


def text_keys(records: Sequence[Record]) -> np.ndarray:
    """Compute keys of records from their ids and texts, (records,) uint64."""
    digests = (hashlib.blake2b(f"{record['id']}\n{full_text(record)}".encode(), digest_size=8)
               for record in records)
    return np.array([int.from_bytes(one.digest(), "little") for one in digests], dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class MaskedSequences:
    """Sequences under several variants; a variant is a combination and a draw.

    Args:
        sequences: sequences before masking.
        variants: (variants, 2) indices of combination and draw.
        input_ids: (variants, tokens), after corruption.
        masked: (variants, tokens) bool, positions to predict.
    """

    sequences: Sequences
    variants: np.ndarray
    input_ids: np.ndarray
    masked: np.ndarray

    def batches(self, batch_tokens: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield sequences of one length and their variants, (batch,) each, longest first."""
        lengths = self.sequences.lengths
        order = np.argsort(-lengths, kind="stable")
        for of_one_length in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
            sequences = np.repeat(of_one_length, len(self.variants))
            variants = np.tile(np.arange(len(self.variants)), len(of_one_length))
            step = max(1, batch_tokens // (int(lengths[of_one_length[0]]) + SINGLE_SPECIALS))
            for start in range(0, len(sequences), step):
                yield sequences[start:start + step], variants[start:start + step]


@torch.inference_mode()
def predict_batch(model: CheckpointPredictor, masked: MaskedSequences,
                  batch: tuple[np.ndarray, np.ndarray],
                  ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Add special tokens to sequences of one length, and predict their masked positions.

    Returns:
        (predictions,) each: indices of the combination, the draw and the text in its window; and
        (predictions, 3) float64: the loss in nats, 1, and 1 if no token has a higher logit or 0.
    """
    numbers, variants = batch
    tokenizer, sequences = model.tokenizer, masked.sequences
    tokens = sequences.borders[numbers][:, None] + np.arange(sequences.lengths[numbers[0]])
    rows, positions = np.nonzero(masked.masked[variants[:, None], tokens])
    labels = sequences.input_ids[tokens[rows, positions]]
    input_ids = np.pad(masked.input_ids[variants[:, None], tokens].astype(np.int64),
                       ((0, 0), (1, 1)))
    input_ids[:, 0], input_ids[:, -1] = tokenizer.cls_token_id, tokenizer.sep_token_id
    positions += 1
    network, size = model.checkpoint.model, model.max_predictions
    inputs, row, position, targets = (torch.from_numpy(one).to(model.device)
                                      for one in (input_ids, rows, positions, labels))
    nats, correct = [], []
    with torch.autocast(model.device.type, dtype=model.dtype, enabled=model.dtype is not None):
        states = encode(network, inputs, torch.ones_like(inputs, dtype=torch.bool))[row, position]
    for part, part_targets in zip(states.split(size), targets.split(size), strict=True):
        logits = lm_head(network)(part.float())
        chosen = logits.gather(1, part_targets[:, None])[:, 0]
        nats.append(logits.logsumexp(1) - chosen)
        correct.append(logits.argmax(1) == part_targets)  # for equal logits the lowest id
    combinations, draws = masked.variants[variants[rows]].T
    losses = torch.cat(nats).double()
    sums = torch.stack([losses, torch.ones_like(losses), torch.cat(correct)], 1)
    return combinations, draws, sequences.texts[numbers[rows]], sums.cpu().numpy()
