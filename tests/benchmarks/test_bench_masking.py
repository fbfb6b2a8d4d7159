"""Whole-word masking against transformers: `pytest --benchmark-enable -s tests/benchmarks`.

Both sides turn the same 32 encoded sequences of English abstracts into inputs and labels. bmtools
reads arrays, as a corpus stores them; the collator reads lists, as a dataset returns them. Without
that option each side runs once, and only the shares of masked tokens are compared.
"""

from __future__ import annotations

import gzip
import itertools
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from timing import in_turns, note
from transformers import BertTokenizer, DataCollatorForLanguageModeling

from bmtools.data.masking.corruption import IGNORED, MaskedTokens, TokenBatch, corrupt
from bmtools.data.masking.strategies import mask_words
from bmtools.keyed_random import derive

_SEQUENCES = 32
_ROUNDS = 25
_RATE = 0.15

pytestmark = [pytest.mark.data, pytest.mark.usefixtures("one_thread")]


@dataclass(frozen=True)
class Sequences:
    """Sequences of one length, each between its special tokens, for either side."""

    ids: np.ndarray
    starts: np.ndarray
    features: list[dict[str, Any]]


@pytest.fixture(scope="module")
def tokenizer(data: Path) -> Any:
    lines = (data / "vocab/bert-base-uncased.txt").read_text(encoding="utf-8").splitlines()
    return BertTokenizer(vocab={token: number for number, token in enumerate(lines)},
                         do_lower_case=True)


@pytest.fixture(scope="module")
def encodings(data: Path, tokenizer: Any) -> list[Any]:
    source = gzip.decompress((data / "en/corpus/pubmed-drug-reviews.jsonl.gz").read_bytes())
    texts = [json.loads(line)["text"] for line in itertools.islice(source.splitlines(), 150)]
    return tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)


def cut(encodings: list[Any], length: int, tokenizer: Any) -> Sequences:
    """Concatenate all texts and cut them into sequences."""
    first, last = tokenizer.cls_token_id, tokenizer.sep_token_id
    tokens = [(number, word != before, offset) for one in encodings for number, word, before, offset
              in zip(one.ids, one.word_ids, [None, *one.word_ids[:-1]], one.offsets, strict=True)]
    sequences = [tokens[n * (length - 2):(n + 1) * (length - 2)] for n in range(_SEQUENCES)]
    assert len(sequences[-1]) == length - 2
    features = [{"input_ids": [first, *(number for number, _, _ in sequence), last],
                 "attention_mask": [1] * length,
                 "special_tokens_mask": [1, *([0] * (length - 2)), 1],
                 "offset_mapping": [(0, 0), *(offset for _, _, offset in sequence), (0, 0)]}
                for sequence in sequences]
    starts = [[True, *(start for _, start, _ in sequence), True] for sequence in sequences]
    return Sequences(np.array([sequence["input_ids"] for sequence in features]),
                     np.array(starts), features)


@pytest.mark.parametrize("length", [128, 512])
def test_words_against_transformers(benchmark: Any, tokenizer: Any, encodings: list[Any],
                                    length: int) -> None:
    sequences = cut(encodings, length, tokenizer)
    collate = DataCollatorForLanguageModeling(
        tokenizer, whole_word_mask=True, mlm_probability=_RATE, mask_replace_prob=1.0,
        random_replace_prob=0.0, seed=0)
    ours = our_masking(sequences, tokenizer)

    shown, theirs = ours(), collate(sequences.features)
    inner = sequences.ids[:, 1:-1].size
    assert (shown.labels != IGNORED).sum() / inner == pytest.approx(_RATE, abs=0.005)
    assert int((theirs["labels"] != IGNORED).sum()) / inner == pytest.approx(_RATE, abs=0.03)
    turns = in_turns({"bmtools": lambda: [ours() for _ in range(10)],
                      "collator": lambda: collate(sequences.features)},
                     1 if benchmark.disabled else _ROUNDS, time.perf_counter)
    own, whole = map(statistics.median, turns.values())
    note(benchmark, microseconds=round(own * 1e5), times_faster=round(10 * whole / own, 1))


def our_masking(sequences: Sequences, tokenizer: Any) -> Callable[[], MaskedTokens]:
    """Mask flat arrays; they and all values derived from them are new for each batch."""
    special = np.array(sorted(tokenizer.all_special_ids))
    ordinary = np.setdiff1d(np.arange(len(tokenizer)), special)
    ids, starts = sequences.ids.ravel(), sequences.starts.ravel()
    maskable = ~np.isin(ids, special)
    sample = np.repeat(np.arange(_SEQUENCES), sequences.ids.shape[1])

    def run() -> MaskedTokens:
        text = TokenBatch(ids, starts, maskable, sample, derive(0, 0, np.arange(_SEQUENCES)))
        return corrupt(text, mask_words(text, _RATE), tokenizer.mask_token_id, ordinary)

    return run
