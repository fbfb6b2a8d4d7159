"""The frequency baseline, compared with counts computed by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from bmtools.errors import BmtoolsError
from bmtools.records import Record
from bmtools.scoring.checkpoint_predictor import CheckpointPredictor
from bmtools.scoring.mrr_ranking import score_masked_words
from bmtools.scoring.pppl import PpplTotals
from bmtools.scoring.pppl_sentences import score_sentences
from bmtools.scoring.predictor import (
    MaskedCopies,
    Predictor,
    UnigramPredictor,
    count_frequencies,
)
from bmtools.scoring.settings import MrrConfig


def corpus(*texts: str) -> list[Record]:
    return [Record(id=str(number), text=text) for number, text in enumerate(texts)]


@pytest.fixture
def count(write_lines: Callable[..., Path]) -> Callable[..., list[UnigramPredictor]]:
    """Write texts to corpus.jsonl and count their tokens for models."""

    def counted(texts: list[Record], *models: Predictor) -> list[UnigramPredictor]:
        return count_frequencies(write_lines("corpus.jsonl", *texts), models)

    return counted


@pytest.fixture
def counted(known: Callable[..., CheckpointPredictor],
            count: Callable[..., list[UnigramPredictor]]) -> UnigramPredictor:
    model = known({"il": 1, "cuore": 1, "batte": 1, "rene": 1, "vede": 1, "mano": 1})
    [found] = count(corpus("il cuore batte", "il cuore", "il rene"), model)
    return found


def test_probabilities_use_counts_plus_one(counted: UnigramPredictor) -> None:
    totals = PpplTotals(counted)
    for one in score_sentences(corpus("il cuore", "mano"), [counted]):
        totals.add(one)
    line = totals.line()
    # 7 occurrences of 7 tokens, with [UNK] and without special tokens: 4/14, 3/14 and 1/14.
    losses = [-math.log(4 / 14), -math.log(3 / 14), -math.log(1 / 14)]
    assert line["nats_per_token"] == pytest.approx(sum(losses) / 3, abs=1e-6)
    assert line["model"].startswith("frequency of ")
    assert line["model"].endswith("corpus.jsonl")
    assert "baseline:unigram+1" in line["signature"]


@pytest.mark.parametrize(("target", "rank"), [
    ("il", 1), ("cuore", 2), ("batte", 3), ("rene", 4), ("vede", 6), ("mano", 7)])
def test_the_most_frequent_tokens_are_proposed(
        counted: UnigramPredictor, target: str, rank: int) -> None:
    record = Record(id="1", text="il [MASK] vede", target=target)
    [one] = score_masked_words([record], [counted], MrrConfig())
    # Of the tokens that were not counted, [UNK] has the lowest id.
    assert [word for word, _ in one.proposals] == ["il", "cuore", "batte", "rene", "[UNK]"]
    assert one.rank == rank


def test_each_vocabulary_has_one_baseline( known: Callable[..., CheckpointPredictor],
                                          count: Callable[..., list[UnigramPredictor]]) -> None:
    one, same = known({"il": 1, "cuore": 1}), known({"il": 1, "cuore": 1}, name="same")
    other = known({"cuore": 1, "il": 1}, name="other")
    found = count(corpus("il cuore"), one, same, other)
    assert [baseline.vocabulary for baseline in found] == [one.vocabulary, other.vocabulary]


def test_nan_logits_are_an_error( known: Callable[..., CheckpointPredictor]) -> None:
    """Comparisons with NaN are false, so NaN would rank first."""
    predictor = known({"il": 1, "cuore": 2})
    with torch.no_grad():
        predictor.checkpoint.model.cls.predictions.bias[6] = math.nan
    copies = MaskedCopies(np.array([2, 5, 3]), np.array([[1, 2]]))
    with pytest.raises(BmtoolsError, match="known: the model computed NaN logits"):
        list(predictor.predict([copies], lambda logits: logits))
