"""Contextual embeddings of tokens that are new to a model: means of its states at their pieces.

Sentences with the tokens are sampled, and the base model's pieces of each token are located in
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from tokenizers import Encoding
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from bmtools.errors import BmtoolsError, setting
from bmtools.models.architectures import max_tokens
from bmtools.models.settings import parse_layers
from bmtools.status import counted
from bmtools.vocab.tokenizer import special_tokens_as_text

if TYPE_CHECKING:
    from bmtools.models.checkpoint import Checkpoint

_SENTENCES_AT_ONCE = 2_000
_SPECIAL_TOKENS = 2  # at the start and end of a sentence
_WORD_START_MARKS = ("", "\u0120", "\u2581")  # by type of tokenizer
TokenSpan = tuple[int, int, int]
"""A token's id, and its start and end in code points."""


@dataclass(frozen=True)
class Sentence:
    """One sentence of the corpus; targets are words sampled before: word, start and end."""

    text: str
    targets: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class Occurrences:
    """Occurrences of new tokens in sentences that the base model's tokenizer splits.

    Sentences are sorted by length, occurrences by sentence and position.

    Args:
        input_ids: old ids of each sentence, special tokens included.
        sentences: (occurrences,) number of the sentence.
        tokens: (occurrences,) new id.
        starts: (occurrences,) position of its first piece, special tokens counted.
        ends: (occurrences,) position after its last piece.
    """

    input_ids: list[np.ndarray]
    sentences: np.ndarray
    tokens: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def select(self, chosen: np.ndarray) -> Occurrences:
        """Return some of the occurrences, with their sentences."""
        needed = np.unique(self.sentences[chosen])
        return Occurrences([self.input_ids[number] for number in needed],
                           np.searchsorted(needed, self.sentences[chosen]), self.tokens[chosen],
                           self.starts[chosen], self.ends[chosen])


@dataclass
class _Reservoirs:
    """Uniform samples of each token's spans, made in one pass.

    Args:
        size: maximum size of a token's sample.
        rng: the source of all randomness.
    """

    size: int
    rng: np.random.Generator
    samples: dict[int, list[tuple[str, int, int]]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)

    def offer(self, text: str, span: TokenSpan) -> None:
        """Add a span to the sample or drop it; in a full sample, it replaces another one."""
        token, start, end = span
        sample = self.samples.setdefault(token, [])
        count = self.counts[token] = self.counts.get(token, 0) + 1
        if count <= self.size:
            sample.append((text, start, end))
        elif (replaced := int(self.rng.integers(count))) < self.size:
            sample[replaced] = (text, start, end)


def sample_sentences(base: Checkpoint, tokenizer: PreTrainedTokenizerFast, is_new: np.ndarray,
                     sentences: Iterable[Sentence], max_sentences: int,
                     rng: np.random.Generator) -> dict[str, list[TokenSpan]]:
    """Sample sentences that contain each new token, uniformly and in one pass.

    Only occurrences that the base's pieces cover exactly are counted, because a larger piece's
    state also describes the neighbouring text. Only the sampled sentences are kept in memory. A
    token that occurs twice in a sentence counts once, at its first such occurrence. For a token
    that is a target in any record, only its targets are used. Sentences that are too long for the
    base are skipped.

    Args:
        base: the model that will read the sentences.
        tokenizer: the new tokenizer.
        is_new: (vocabulary,) bool.
        sentences: the corpus; repeated sentences are sampled with their frequency.
        max_sentences: maximum number of sentences for a token.
        rng: the source of all randomness.

    Returns:
        the sampled spans by sentence.
    """
    found, targeted = _Reservoirs(max_sentences, rng), _Reservoirs(max_sentences, rng)
    vocabulary, longest = tokenizer.get_vocab(), max_tokens(base.model) - _SPECIAL_TOKENS
    remaining = iter(sentences)
    while chunk := list(islice(remaining, _SENTENCES_AT_ONCE)):
        encodings, old_encodings = (_encoded(one, [sentence.text for sentence in chunk])
                                    for one in (tokenizer, base.tokenizer))
        for sentence, encoding, pieces in zip(chunk, encodings, old_encodings, strict=True):
            if len(pieces.ids) > longest:
                continue
            text, targets = sentence.text, [*_target_spans(sentence, encoding, is_new, vocabulary)]
            others = _new_spans(text, encoding, is_new)
            for span in _exact_spans(text, targets, pieces):
                targeted.offer(text, span)
                found.samples.pop(span[0], None)
            firsts: dict[int, TokenSpan] = {}
            for span in _exact_spans(text, others, pieces):
                firsts.setdefault(span[0], span)
            for token, span in firsts.items():
                if token not in targeted.samples:
                    found.offer(text, span)
    by_sentence: dict[str, list[TokenSpan]] = {}
    samples = {**found.samples, **targeted.samples}
    for token, sample in sorted(samples.items()):
        for text, start, end in sample:
            by_sentence.setdefault(text, []).append((token, start, end))
    return by_sentence


def _encoded(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> list[Encoding]:
    backend = tokenizer.backend_tokenizer
    shown = special_tokens_as_text(backend, texts)  # keeps the length of the texts
    return backend.encode_batch(list(shown), add_special_tokens=False)


def _new_spans(text: str, encoding: Encoding, is_new: np.ndarray) -> list[TokenSpan]:
    """List all occurrences of new tokens in a sentence."""
    ids = np.array(encoding.ids, dtype=np.int64)
    positions = np.flatnonzero(is_new[ids]).tolist()
    offsets = encoding.offsets if positions else []
    return [(int(ids[position]), *_strip(text, *offsets[position])) for position in positions]


def _exact_spans(text: str, spans: Sequence[TokenSpan], pieces: Encoding) -> list[TokenSpan]:
    """Keep the spans whose start and end are also a start and an end of the base's pieces."""
    offsets = pieces.offsets if spans else []
    if not offsets:
        return []
    starts, ends = map(frozenset, zip(*offsets, strict=True))

    def begins(start: int) -> bool:
        # Some tokenizers include the preceding space in a word.
        while start not in starts and start and text[start - 1].isspace():
            start -= 1
        return start in starts

    return [span for span in spans if span[2] in ends and begins(span[1])]


def _target_spans(sentence: Sentence, encoding: Encoding, is_new: np.ndarray,
                  vocabulary: dict[str, int]) -> Iterator[TokenSpan]:
    """Find the new tokens of targets by their offsets or, failing that, by their spelling."""
    if not sentence.targets:
        return
    by_offsets = {_strip(sentence.text, *offsets): token for token, offsets in
                  zip(encoding.ids, encoding.offsets, strict=True) if is_new[token]}
    for word, start, end in sentence.targets:
        candidates = (by_offsets.get((start, end)),
                      *(vocabulary.get(mark + word) for mark in _WORD_START_MARKS))
        token = next((one for one in candidates if one is not None and is_new[one]), None)
        if token is not None:
            yield token, start, end


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    """Exclude the space before a word, which some tokenizers include."""
    while start < end and text[start].isspace():
        start += 1
    return start, end


def locate_pieces(base: Checkpoint, spans: dict[str, list[TokenSpan]]) -> Occurrences:
    """Tokenize sentences with the base's tokenizer and find the pieces of new tokens.

    Sentences that are too long for the base model are skipped, and occurrences that its tokenizer
    removes completely.
    """
    tokenizer = base.tokenizer
    remaining, longest = iter(spans), max_tokens(base.model) - _SPECIAL_TOKENS
    found: list[tuple[np.ndarray, np.ndarray]] = []
    while texts := list(islice(remaining, _SENTENCES_AT_ONCE)):
        encodings = _encoded(tokenizer, texts)
        for text, encoding in zip(texts, encodings, strict=True):
            if len(encoding.ids) <= longest:
                pieces = _pieces(text, encoding.offsets, spans[text])
                if len(pieces):
                    found.append((np.array([tokenizer.cls_token_id, *encoding.ids,
                                            tokenizer.sep_token_id], dtype=np.int64), pieces))
    found.sort(key=lambda sentence: len(sentence[0]))
    counts = [len(pieces) for _, pieces in found]
    pieces = np.concatenate([np.zeros((0, 3), np.int64), *(pieces for _, pieces in found)])
    return Occurrences([ids for ids, _ in found], np.repeat(np.arange(len(found)), counts),
                       *pieces.T)


def pieces_alone(base: Checkpoint, pieces: Mapping[int, Sequence[int]]) -> Occurrences:
    """Make a sequence that contains only a token's pieces and special tokens, for each token.

    Args:
        base: the model; tokens with more pieces than it has positions are skipped.
        pieces: old ids by new token.
    """
    cls, sep = base.tokenizer.cls_token_id, base.tokenizer.sep_token_id
    longest = max_tokens(base.model) - _SPECIAL_TOKENS
    found = sorted(((token, ids) for token, ids in pieces.items() if len(ids) <= longest),
                   key=lambda item: len(item[1]))
    tokens = np.array([token for token, _ in found], dtype=np.int64)
    sizes = np.array([len(ids) for _, ids in found], dtype=np.int64)
    return Occurrences([np.array([cls, *ids, sep]) for _, ids in found], np.arange(len(found)),
                       tokens, np.ones_like(sizes), sizes + 1)


def _pieces(text: str, offsets: Sequence[tuple[int, int]],
            spans: Sequence[TokenSpan]) -> np.ndarray:
    """Find the pieces that share a character with each span.

    Returns:
        (occurrences, 3), sorted by position: new id, position of the first piece, position after
        the last one.
    """
    if not offsets:
        return np.zeros((0, 3), dtype=np.int64)
    piece_starts, piece_ends = np.array(
        [_strip(text, *offset) for offset in offsets], dtype=np.int64).T
    tokens, starts, ends = np.array(spans, dtype=np.int64).T
    firsts = np.searchsorted(piece_ends, starts, side="right")
    stops = np.searchsorted(piece_starts, ends, side="left")
    found = np.stack([tokens, firsts + 1, stops + 1], axis=1)[stops > firsts]
    return found[np.argsort(found[:, 1], kind="stable")]


class TokenEmbeddings(NamedTuple):
    """Embeddings of some tokens: (tokens,) int64 ids and (tokens, hidden size) vectors."""

    tokens: Tensor
    vectors: Tensor


@torch.inference_mode()
def contextual_embeddings(base: Checkpoint, occurrences: Occurrences, layers: str,
                          batch_tokens: int) -> TokenEmbeddings:
    """Average the base model's states at a token's pieces, then over its sentences.

    Each sentence is read once for all its tokens. Sentences of similar length share a batch.

    Source: Pavlova and Makhlouf 2023 (BIOptimus), section 3, equations 1 and 2.

    Args:
        base: a masked language model.
        occurrences: occurrences of the tokens.
        layers: layers whose states to average; the paper uses the last layer.
        batch_tokens: maximum tokens in a batch.
    """
    tokens, rows = np.unique(occurrences.tokens, return_inverse=True)
    device = base.model.device
    sums = torch.zeros(len(tokens), base.model.config.hidden_size)
    batches = list(_batches(occurrences.input_ids, batch_tokens))
    for first, end in counted(batches, "reading contexts", len(batches), "batches"):
        sequences = occurrences.input_ids[first:end]
        input_ids, mask = (pad_sequence(list(map(torch.from_numpy, each)), True, padding)
                           for each, padding in ((sequences, base.tokenizer.pad_token_id),
                                                 ([np.ones_like(one) for one in sequences], 0)))
        states = mean_states(base.model, layers, input_ids.to(device), mask.to(device)).cpu()
        inside = slice(*np.searchsorted(occurrences.sentences, [first, end]).tolist())
        starts = (occurrences.sentences[inside] - first) * states.shape[1] \
            + occurrences.starts[inside]
        sizes = occurrences.ends[inside] - occurrences.starts[inside]
        offsets = np.cumsum(sizes) - sizes
        pieces = np.repeat(starts - offsets, sizes) + np.arange(sizes.sum())
        vectors = torch.nn.functional.embedding_bag(
            torch.from_numpy(pieces), states.flatten(0, 1), torch.from_numpy(offsets), mode="mean")
        sums.index_add_(0, torch.from_numpy(rows[inside]), vectors)
    counts = torch.from_numpy(np.bincount(rows, minlength=len(tokens)))
    return TokenEmbeddings(torch.from_numpy(tokens), sums / counts[:, None])


def _batches(sequences: Sequence[np.ndarray], most_tokens: int) -> Iterator[tuple[int, int]]:
    """Group sorted sequences into padded batches with limited tokens; yield first and end."""
    first = 0
    for number, ids in enumerate(sequences):
        if number > first and len(ids) * (number + 1 - first) > most_tokens:
            yield first, number
            first = number
    if len(sequences):
        yield first, len(sequences)


def mean_states(model: PreTrainedModel, layers: str, input_ids: Tensor, mask: Tensor) -> Tensor:
    """Average the states of some layers, (sequences, tokens, hidden size) float32.

    The last layer's states are the input of the head, after the final layer norm, if any.

    Args:
        model: a masked language model that has these layers (`check_layers`).
        layers: as in `TransferConfig`.
        input_ids: (sequences, tokens).
        mask: (sequences, tokens) int64, 0 on padding.
    """
    numbers = parse_layers(layers)
    output = model.base_model(input_ids=input_ids, attention_mask=mask,
                              output_hidden_states=numbers != (-1,))
    last: Tensor = output.last_hidden_state
    if numbers == (-1,):
        return last.float()
    states = (*output.hidden_states[:-1], last)
    return torch.stack(states if numbers is None else [states[number] for number in numbers]) \
        .float().mean(dim=0)


def check_layers(config: PretrainedConfig, layers: str, name: object = "the base") -> None:
    """Reject layers that a model does not have.

    Args:
        config: the model's configuration.
        layers: as in `TransferConfig`.
        name: name of the model in messages.

    Raises:
        BmtoolsError: the model does not have one of the layers.
    """
    last = config.num_hidden_layers
    for number in parse_layers(layers) or ():
        if not -last - 1 <= number <= last:
            raise BmtoolsError(f"{setting('layers')}: found {number}, but {name} has layers 1 to "
                               f"{last}, and 0 for its embeddings")
