"""Pseudo-perplexity, held to a table worked by hand, a brute-force twin and minicons."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from bmtools.errors import BmtoolsError, DataError, RecordError
from bmtools.records import Record
from bmtools.scoring.pppl import SentenceScore, Tally, score
from bmtools.scoring.predictors import MaskedModel, load_predictor
from bmtools.scoring.settings import PassSettings


def totals(records: Sequence[Record], predictor: Any) -> dict[str, Any]:
    tally = Tally(predictor)
    for sentence in score(records, [predictor]):
        tally.add(sentence)
    return tally.line()


def texts_of(*texts: str) -> list[Record]:
    return [Record(id=str(number), text=text) for number, text in enumerate(texts)]


def test_a_table_worked_by_hand(known: Callable[..., MaskedModel]) -> None:
    # Weights add up to 16: p(il) = 1/2, p(cuore) = 1/4, p(batte) = 1/8, p([UNK]) = 0.
    model = known({"il": 8, "cuore": 4, "batte": 2, "##no": 1, ".": 1})
    line = totals(texts_of("il cuore batte", "il", "cuoreno ."), model)
    # bits: 1 + 2 + 3 = 6; 1; 2 + 4 + 4 = 10. Tokens 3, 1, 3; characters 14, 2, 9.
    assert line["pppl"] == pytest.approx(2 ** (17 / 7), abs=1e-5)
    assert line["nats_per_token"] == pytest.approx(17 / 7 * math.log(2), abs=1e-6)
    assert line["mean_sentence_pppl"] == pytest.approx((4 + 2 + 2 ** (10 / 3)) / 3, abs=1e-5)
    assert line["bits_per_character"] == pytest.approx(17 / 25, abs=1e-6)
    assert (line["sentences"], line["tokens"], line["characters"], line["unknown"]) == (3, 7, 25, 0)
    assert line["model"] == "known"
    assert line["signature"].startswith(
        "pppl:original|unit:token|special:no|precision:fp32|case:kept|bmtools:")
    assert line["vocabulary"] == model.vocabulary[:12]


def test_unknown_tokens_count_and_are_told(known: Callable[..., MaskedModel]) -> None:
    line = totals(texts_of("il rene"), known({"il": 1, "cuore": 1}))
    assert (line["tokens"], line["unknown"]) == (2, 1)
    assert line["pppl"] == math.inf  # no weight at all on [UNK] here


def test_a_mark_in_the_text_is_context_and_not_scored(known: Callable[..., MaskedModel]) -> None:
    line = totals(texts_of("il [MASK] batte"), known({"il": 8, "batte": 8}))
    assert (line["tokens"], line["pppl"]) == (2, 2)


def brute_force(predictor: MaskedModel, text: str) -> list[float]:
    """One masked copy at a time, through the whole model."""
    tokenizer, model = predictor.tokenizer, predictor.checkpoint.model
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    found = []
    for position in range(1, ids.shape[1] - 1):
        copy = ids.clone()
        copy[0, position] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = model(input_ids=copy).logits[0, position]
        found.append(logits.log_softmax(0)[ids[0, position]].item())
    return found


def test_equals_one_copy_at_a_time(any_model: MaskedModel, records: list[Record]) -> None:
    scores = list(score(records, [any_model]))
    assert [one.record["id"] for one in scores] == [record["id"] for record in records]
    for one in scores:
        assert one.logprobs.tolist() == pytest.approx(
            brute_force(any_model, one.record["text"]), rel=1e-4)


@pytest.mark.parametrize("batch_tokens", [1, 40, 1_000_000])
def test_neither_batch_size_nor_order_matter(
        any_model: MaskedModel, records: list[Record], batch_tokens: int) -> None:
    usual = {one.record["id"]: one.logprobs for one in score(records, [any_model])}
    again = MaskedModel(any_model.checkpoint, PassSettings(batch_tokens=batch_tokens), "cpu")
    for one in score(records[::-1], [again]):
        assert one.logprobs == pytest.approx(usual[one.record["id"]], abs=1e-5)


def test_windows_are_bounded_and_read_once(known: Callable[..., MaskedModel]) -> None:
    read = 0

    def endless() -> Iterator[Record]:
        nonlocal read
        while True:
            read += 1
            yield Record(id=str(read), text="il cuore")

    one, two = known({"il": 1, "cuore": 1}), known({"cuore": 3, "il": 1}, name="two")
    scores = score(endless(), [one, two])
    first = [next(scores) for _ in range(4)]
    assert [(s.record["id"], s.predictor) for s in first] == [
        ("1", 0), ("1", 1), ("2", 0), ("2", 1)]
    assert read <= 1_000


def test_a_long_sentence_is_kept_from_all_models(known: Callable[..., MaskedModel]) -> None:
    refused: list[RecordError] = []
    wide = known({"il": 1})
    narrow = known({"il": 1}, tokens=5, name="narrow")
    records = texts_of("il il il", "il il il il", "il")
    kept: list[SentenceScore] = list(score(records, [wide, narrow], refused.append))
    assert [s.record["id"] for s in kept] == ["0", "0", "2", "2"]
    assert [str(error) for error in refused] == [
        "<memory>: found 6 tokens, but narrow takes at most 5, special ones included; split it "
        "into sentences first (bmtools import jsonl --sentences)"]
    with pytest.raises(RecordError):
        list(score(records, [wide, narrow]))


def test_the_longest_sentence_fits(any_model: MaskedModel) -> None:
    texts = [" ".join(["la"] * words) for words in range(1, 80)]
    lengths = [len(any_model.tokenizer(text)["input_ids"]) for text in texts]
    longest = max(length for length in lengths if length <= any_model.max_tokens)
    assert longest >= any_model.max_tokens - 1
    [one] = score(texts_of(texts[lengths.index(longest)]), [any_model])
    assert len(one.logprobs) == longest - 2
    with pytest.raises(RecordError, match="takes at most"):
        list(score(texts_of(texts[lengths.index(longest) + 1]), [any_model]))


@pytest.mark.parametrize("text", ["", " \t", "[MASK]"])
def test_a_text_without_tokens_is_refused(known: Callable[..., MaskedModel], text: str) -> None:
    with pytest.raises(RecordError, match="found no tokens to score, expected a sentence"):
        list(score(texts_of(text), [known({"il": 1})]))


def test_nothing_to_score_is_an_error(known: Callable[..., MaskedModel]) -> None:
    with pytest.raises(DataError, match="no sentences in the input"):
        totals([], known({"il": 1}))


def test_bf16_is_near_and_says_so(wordpiece: MaskedModel, records: list[Record]) -> None:
    half = MaskedModel(wordpiece.checkpoint, PassSettings(precision="bf16"), "cpu")
    exact, near = totals(records, wordpiece), totals(records, half)
    assert near["nats_per_token"] == pytest.approx(exact["nats_per_token"], rel=0.02)
    assert "precision:bf16" in near["signature"]


def minicons(model: Any, tokenizer: Any, texts: Sequence[str]) -> list[float]:
    """Sum of log probabilities by minicons; `batch_encode_plus` is gone from transformers 5."""
    pytest.importorskip("minicons")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from minicons.scorer import MaskedLMScorer

        class Readable(type(tokenizer)):  # type: ignore[misc]
            def batch_encode_plus(self, *args: Any, **settings: Any) -> Any:
                return self(*args, **settings)

        usual = tokenizer.__class__
        tokenizer.__class__ = Readable
        try:
            peer = MaskedLMScorer(model, "cpu", tokenizer=tokenizer, PLL_metric="original")
            return [peer.sequence_score([text], reduction=lambda x: x.sum(0).item(),
                                        PLL_metric="original")[0] for text in texts]
        finally:
            tokenizer.__class__ = usual


@pytest.mark.data
def test_equals_minicons_on_fifty_real_sentences(
        clinical: MaskedModel, sentences: list[str]) -> None:
    scores = list(score(texts_of(*sentences), [clinical]))
    theirs = minicons(clinical.checkpoint.model, clinical.tokenizer, sentences)
    assert len(theirs) == 50
    assert [one.logprobs.sum() for one in scores] == pytest.approx(theirs, rel=1e-4)


def test_equals_minicons_in_every_family(
        any_model: MaskedModel, records: list[Record]) -> None:
    scores = list(score(records, [any_model]))
    theirs = minicons(any_model.checkpoint.model, any_model.tokenizer,
                      [record["text"] for record in records])
    assert [one.logprobs.sum() for one in scores] == pytest.approx(theirs, rel=1e-4)


def test_an_unknown_and_an_absent_device() -> None:
    with pytest.raises(BmtoolsError, match="--device: found 'tpu'"):
        load_predictor(Path("nowhere"), PassSettings(device="tpu"))
    with pytest.raises(BmtoolsError, match="expected auto or cpu"):
        load_predictor(Path("nowhere"), PassSettings(device="cuda:99"))
