"""Words with several tokens, compared with an exhaustive search; masks of long texts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from bmtools.errors import RecordError
from bmtools.records import MASK, Record
from bmtools.scoring.checkpoint_predictor import CheckpointPredictor
from bmtools.scoring.mrr import mrr
from bmtools.scoring.mrr_ranking import MaskScore, score_masked_words
from bmtools.scoring.settings import MrrConfig


def score(model: Any, text: str, target: str, **settings: Any) -> MaskScore:
    record = Record(id="1", text=text, target=target)
    [one] = score_masked_words([record], [model], MrrConfig(multi_token="joint", **settings))
    return one


def exhaustive(model: CheckpointPredictor, text: str,
               target: str) -> list[tuple[float, tuple[int, int]]]:
    """Log probabilities of all pairs of tokens at two masks, best first."""
    tokenizer, network = model.tokenizer, model.checkpoint.model
    ids = tokenizer(text.replace(MASK, target), return_tensors="pt")["input_ids"]
    pieces = tokenizer(target, add_special_tokens=False)["input_ids"]
    position = next(start for start in range(ids.shape[1])
                 if ids[0, start:start + 2].tolist() == pieces)
    ids[0, position:position + 2] = tokenizer.mask_token_id
    with torch.no_grad():
        first = network(input_ids=ids).logits[0, position].log_softmax(0)
        copies = ids.repeat(len(first), 1)
        copies[:, position] = torch.arange(len(first))
        second = network(input_ids=copies).logits[:, position + 1].log_softmax(1)
    table = (first[:, None] + second).tolist()
    return sorted(((value, (one, other)) for one, row in enumerate(table)
                   for other, value in enumerate(row)), key=lambda found: (-found[0], found[1]))


def word_of_two(model: CheckpointPredictor) -> str:
    """A word that has two tokens in the vocabulary."""
    for word in ("malattia", "paziente", "cervello", "pressione", "dopamina", "cronica", "sonno"):
        if len(model.tokenizer(word, add_special_tokens=False)["input_ids"]) == 2:
            return word
    raise AssertionError("no word of two tokens")


def test_widest_beam_equals_an_exhaustive_search( wordpiece: CheckpointPredictor) -> None:
    word = word_of_two(wordpiece)
    text = f"Il {MASK} riduce la nausea."
    everything = exhaustive(wordpiece, text, word)
    pieces = tuple(wordpiece.tokenizer(word, add_special_tokens=False)["input_ids"])
    rank = [ids for _, ids in everything].index(pieces) + 1
    wide = len(everything) ** 2
    found = score(wordpiece, text, word, top_k=wide)
    assert found.rank == rank
    assert found.reciprocal_rank == pytest.approx(1 / rank)
    assert found.probability == pytest.approx(math.exp(
        {ids: value for value, ids in everything}[pieces]), rel=1e-4)
    best = score(wordpiece, text, word, top_k=200)
    assert [share for _, share in best.proposals[:5]] == pytest.approx(
        [math.exp(value) for value, _ in everything[:5]], rel=1e-4)


def test_word_outside_the_beam_has_no_rank(wordpiece: CheckpointPredictor) -> None:
    word = word_of_two(wordpiece)
    text = f"Il {MASK} riduce la nausea."
    rank = score(wordpiece, text, word, top_k=20_000).rank
    assert rank is not None
    for beam in (20, 60):
        found = score(wordpiece, text, word, top_k=beam)
        assert found.rank is None or found.rank <= min(rank, beam)
        assert found.probability > 0


SENTENCE = "La malattia di Parkinson riduce la dopamina nel cervello e il cuore batte. "


def test_long_text_is_rejected_once_and_unchanged( wordpiece: CheckpointPredictor,
                                                  save: Callable[[Any], Any],
                                                  tmp_path: Any) -> None:
    (tmp_path / "terms.txt").write_text("cuore\ndopamina\n")
    long = {"id": "long", "text": SENTENCE * 100, "meta": {"year": 2026}}
    short = {"id": "short", "text": SENTENCE}
    refused: list[RecordError] = []
    common = {"models": save(wordpiece), "terms": str(tmp_path / "terms.txt"), "device": "cpu"}
    [line] = mrr([long, short], reject=refused.append, **common)
    assert line["maskings"] == 2
    assert [error.content for error in refused] == [long]
