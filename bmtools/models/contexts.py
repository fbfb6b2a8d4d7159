"""What a model makes of tokens it lacks, in the sentences where they stand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bmtools.models.checkpoint import Checkpoint, max_tokens
from bmtools.models.masked import encode

_SENTENCES_AT_ONCE = 2_000


@dataclass(frozen=True)
class Contexts:
    """Embeddings gathered from contexts.

    Args:
        vectors: embedding of each token that was found, (width,).
        sentences: sentences that the base model read.
    """

    vectors: dict[int, Tensor]
    sentences: int


def sample_sentences(tokenizer: Any, wanted: np.ndarray, sentences: Iterable[str], most: int,
                     rng: np.random.Generator) -> dict[str, list[tuple[int, int, int]]]:
    """Draw, uniformly and in one pass, up to `most` sentences that hold each wanted token.

    Holds only the sentences drawn. A token that occurs twice in a sentence counts once, at its
    first place.

    Args:
        tokenizer: the one that the wanted tokens belong to.
        wanted: (vocabulary,) bool.
        sentences: the corpus; duplicates are as likely as they are frequent.
        most: sentences kept for a token.
        rng: the source of all randomness.

    Returns:
        the occurrences in each sentence: token id, start and end in code points.
    """
    seen = np.zeros(len(wanted), dtype=np.int64)
    drawn: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for sentence, found in _occurrences(tokenizer, wanted, sentences):
        for token, (start, end) in found.items():
            seen[token] += 1
            place = len(drawn[token]) if seen[token] <= most else int(rng.integers(seen[token]))
            if place < most:
                drawn[token][place:place + 1] = [(sentence, start, end)]
    by_sentence: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for token in sorted(drawn):
        for sentence, start, end in drawn[token]:
            by_sentence[sentence].append((token, start, end))
    return by_sentence


def _occurrences(tokenizer: Any, wanted: np.ndarray, sentences: Iterable[str],
                 ) -> Iterator[tuple[str, dict[int, tuple[int, int]]]]:
    pending = iter(sentences)
    while chunk := list(islice(pending, _SENTENCES_AT_ONCE)):
        encodings = tokenizer.backend_tokenizer.encode_batch(chunk, add_special_tokens=False)
        for sentence, encoding in zip(chunk, encodings, strict=True):
            ids = np.array(encoding.ids, dtype=np.int64)
            found: dict[int, tuple[int, int]] = {}
            for position in np.flatnonzero(wanted[ids]):
                found.setdefault(int(ids[position]), encoding.offsets[position])
            if found:
                yield sentence, found


def gather(base: Checkpoint, occurrences: dict[str, list[tuple[int, int, int]]],
           batch_tokens: int) -> Contexts:
    """Average the base model's last-layer states at a token's pieces, then over its sentences.

    Each sentence is read once for all its tokens; sentences of like length share a pass.
    Sentences longer than the base model are left out.

    Source: Pavlova and Makhlouf 2023 (BIOptimus), section 3, equations 1 and 2.
    """
    texts = list(occurrences)
    encodings = base.tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    longest = max_tokens(base.model) - 2
    fitting = [n for n, encoding in enumerate(encodings) if len(encoding.ids) <= longest]
    fitting.sort(key=lambda n: len(encodings[n].ids))
    sums: dict[int, Tensor] = {}
    counts: dict[int, int] = defaultdict(int)
    for members in _batches(fitting, [len(encoding.ids) + 2 for encoding in encodings],
                            batch_tokens):
        states = _read(base, [encodings[n].ids for n in members])
        for row, n in enumerate(members):
            for token, start, end in occurrences[texts[n]]:
                pieces = [place + 1 for place, (first, last) in enumerate(encodings[n].offsets)
                          if first < end and start < last]
                if pieces:
                    vector = states[row, pieces].mean(dim=0)
                    sums[token] = sums[token] + vector if token in sums else vector
                    counts[token] += 1
    vectors = {token: total / counts[token] for token, total in sums.items()}
    return Contexts(vectors, len(fitting))


def _batches(members: list[int], sizes: list[int], most: int) -> Iterator[list[int]]:
    """Group members, sorted by size, so that each padded group holds at most so many tokens."""
    group: list[int] = []
    for member in members:
        if group and sizes[member] * (len(group) + 1) > most:
            yield group
            group = []
        group.append(member)
    if group:
        yield group


@torch.inference_mode()
def _read(base: Checkpoint, sentences: list[list[int]]) -> Tensor:
    """States of a batch, (sentences, tokens, width), the special tokens included. Moves them
    to the CPU, which waits for the device."""
    width = max(map(len, sentences)) + 2
    ids = torch.full((len(sentences), width), base.tokenizer.pad_token_id)
    attended = torch.zeros((len(sentences), width), dtype=torch.bool)
    for row, sentence in enumerate(sentences):
        framed = [base.tokenizer.cls_token_id, *sentence, base.tokenizer.sep_token_id]
        ids[row, :len(framed)] = torch.tensor(framed)
        attended[row, :len(framed)] = True
    device = base.model.device
    return encode(base.model, ids.to(device), attended.to(device)).float().cpu()
