"""Held-out documents in training text."""

from __future__ import annotations

import numpy as np
import pytest
from toy_corpora import EncodedDocument, corpus_of

from bmtools.data.shards import Corpus
from bmtools.errors import BmtoolsWarning
from bmtools.training.leak import Leak, find_leak, warn_of_leak


def corpus(*documents: np.ndarray) -> Corpus:
    return corpus_of([EncodedDocument(ids, np.ones(len(ids), bool)) for ids in documents])


@pytest.fixture
def documents() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 500, size) for size in (60, 16, 15, 200, 100, 40)]


def test_documents_in_training_text_are_found(documents: list[np.ndarray]) -> None:
    held_out = corpus(*documents[:4])
    around = np.arange(30)
    leaked = np.concatenate([around, documents[0], around])
    assert find_leak(held_out, [corpus(*documents[4:])]) == Leak(0, 3, 1.0)
    assert find_leak(held_out, [corpus(*documents[4:]), corpus(leaked)]) == Leak(1, 3, 1.0)
    assert find_leak(held_out, [corpus(*documents)]) == Leak(3, 3, 1.0)  # one is too short
    assert find_leak(held_out, [corpus(documents[3][:90])]) == Leak(0, 3, 1.0)
    assert find_leak(held_out, [corpus(documents[3][:120])]) == Leak(1, 3, 1.0)
    assert find_leak(corpus(documents[2]), [held_out]) == Leak(0, 0, 1.0)


def test_large_text_is_read_in_windows(documents: list[np.ndarray],
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmtools.training.leak._WINDOW", 100)
    monkeypatch.setattr("bmtools.training.leak._MOST_TRAINING", 2000)
    rng = np.random.default_rng(1)
    held_out = [rng.integers(0, 500, 30) for _ in range(100)]
    others = [rng.integers(0, 500, 30) for _ in range(200)]
    leak = find_leak(corpus(*held_out), [corpus(*held_out, *others)])
    assert leak.share == pytest.approx(2000 / 9000)
    assert 10 < leak.found < 40  # of the third of the text that has them
    monkeypatch.setattr("bmtools.training.leak._MOST_HELD_OUT", 300)
    assert find_leak(corpus(*held_out), [corpus(*held_out)]).documents == 10


def test_a_leak_is_a_warning(documents: list[np.ndarray],
                             recwarn: pytest.WarningsRecorder) -> None:
    warn_of_leak(corpus(*documents[:4]), [corpus(*documents[4:])], "evaluate")
    assert not recwarn
    with pytest.warns(BmtoolsWarning, match="^evaluate: 3 of 3 documents stand in the training "
                                            "text, so their loss says little; bmtools decont"):
        warn_of_leak(corpus(*documents[:4]), [corpus(*documents)], "evaluate")
