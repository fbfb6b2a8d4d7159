"""Pseudo-perplexity, compared with a hand-computed table, brute force and minicons."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertTokenizer

import bmtools.scoring
from bmtools.errors import BmtoolsWarning, RecordError
from bmtools.records import Record
from bmtools.scoring import pppl_sentences
from bmtools.scoring.checkpoint_predictor import CheckpointPredictor
from bmtools.scoring.evaluation import compare_models
from bmtools.scoring.pppl import PpplTotals, pppl
from bmtools.scoring.pppl_sentences import SentenceScore, encode_sentence, score_sentences
from bmtools.scoring.predictor import MaskedCopies
from bmtools.scoring.settings import InferenceConfig, PpplConfig, Precision
from bmtools.statistics.settings import StatisticsConfig
from bmtools.vocab.tokenizer import fingerprint

TEXTS = (
    "La malattia di Parkinson riduce la dopamina nel cervello.", "Il cuore batte.",
    "Il paziente riferisce dolore all'addome e nausea da tre giorni.",
    "Un farmaco riduce la pressione arteriosa del paziente anziano.", "La dopamina manca.")


def totals(records: Sequence[Record], predictor: Any, seed: int = 0, by: Sequence[str] = (),
           resamples: int = 100, **settings: Any) -> dict[str, Any]:
    chosen = PpplConfig(**settings)
    own_totals = PpplTotals(predictor, chosen, by, StatisticsConfig(resamples, seed=seed))
    for sentence in score_sentences(records, [predictor], chosen):
        own_totals.add(sentence)
    return own_totals.line()


def texts_of(*texts: str) -> list[Record]:
    return [Record(id=str(number), text=text) for number, text in enumerate(texts)]


def test_scores_equal_a_hand_computed_table(known: Callable[..., CheckpointPredictor]) -> None:
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
        "pppl:original|unit:token|special:no|unknown:utf-8|precision:fp32|case:kept|accents:kept|bmtools:")
    assert line["vocabulary"] == model.vocabulary[:12]


def knows_little(known: Callable[..., CheckpointPredictor]) -> CheckpointPredictor:
    """A model whose vocabulary contains only a full stop: p([UNK]) = p(.) = 1/2."""
    model = known({".": 1}, name="full stops")
    with torch.no_grad():
        bias = model.checkpoint.model.cls.predictions.bias
        bias[1] = bias[5]
    return model


@pytest.mark.parametrize(("word", "size"), [("caffè", 6), ("😀", 4)])
def test_characters_of_unknown_tokens_cost_bits( word: str, size: int, known: Callable[...,
                                                CheckpointPredictor]) -> None:
    """Bits are for three tokens, plus 8 for each byte and each end of unknown tokens."""
    text = f"il {word} ."
    line = totals(texts_of(text), knows_little(known))
    assert line["nats_per_token"] == pytest.approx(math.log(2), abs=1e-6)
    assert line["unknown"] == 2
    spelled = 8 * (len(b"il") + 1 + size + 1)
    assert line["bits_per_character"] == pytest.approx((3 + spelled) / len(text), abs=1e-6)
    assert line["unknown_bits_per_character"] == pytest.approx(spelled / len(text), abs=1e-6)
    assert line["bits_per_word"] == pytest.approx((3 + spelled) / 3, abs=1e-6)
    assert "unknown_bits_per_character" not in totals(texts_of("."), knows_little(known))


@pytest.mark.parametrize(("text", "dropped"), [
    ("il\ufffd il\u200b il", [3, 3]), ("il \ufffd\ufffd il il", [6]), ("il il il", [])])
def test_dropped_characters_cost_bits( text: str, dropped: list[int], known: Callable[...,
                                      CheckpointPredictor]) -> None:
    """As for unknown tokens, 8 bits per UTF-8 byte and 8 per end of a run."""
    line = totals(texts_of(text), known({"il": 1, "cuore": 1}))
    assert (line["unknown"], line["nats_per_token"]) == (0, pytest.approx(math.log(2), abs=1e-6))
    bits = 3 + 8 * (sum(dropped) + len(dropped))
    assert line["bits_per_character"] == pytest.approx(bits / len(text), abs=1e-6)


def test_bits_are_compared_only_for_the_same_text( known: Callable[..., CheckpointPredictor],
                                                  save: Callable[..., Path]) -> None:
    cased = known({"il": 1}, name="cased")
    folding = BertTokenizer(vocab=dict(cased.tokenizer.get_vocab()), do_lower_case=True)
    uncased = CheckpointPredictor(replace(
        cased.checkpoint, path=Path("uncased"), tokenizer=folding, vocabulary=fingerprint(folding)),
        InferenceConfig())
    assert "accents:stripped" in totals(texts_of("il"), uncased)["signature"]
    paths = [save(cased), save(uncased)]
    texts = [{"id": str(number), "text": " ".join(["il"] * number)} for number in range(1, 15)]
    with pytest.warns(BmtoolsWarning, match=(
            "bits per character are not compared, because the models do not read the same text "
            r"\(.*cased: case kept, accents kept; .*uncased: case folded, accents stripped\)")):
        lines = pppl(texts, paths, device="cpu")
    assert [line["metric"] for line in lines if "compared" in line] == []
    lines = pppl(texts, [paths[0], paths[0]], device="cpu")
    assert {line["metric"] for line in lines if "compared" in line} == {
        "bits_per_character", "nats_per_token"}


@pytest.mark.parametrize("token", ["[SEP]", "[MASK]", "[PAD]"])
def test_special_tokens_in_a_text_count_as_characters_and_as_nats(
        token: str, known: Callable[..., CheckpointPredictor]) -> None:
    name = token[1:-1]
    model = known({"il": 8, "[": 2, name: 2, "]": 4})
    line = totals(texts_of(f"il {token}"), model)
    assert (line["tokens"], line["characters"], line["unknown"]) == (4, 3 + len(token), 0)
    assert line["nats_per_token"] == pytest.approx((1 + 3 + 3 + 2) / 4 * math.log(2), abs=1e-6)


def brute_force(predictor: CheckpointPredictor, text: str) -> list[float]:
    """Run the complete model on one masked copy at a time."""
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


def test_scores_equal_one_copy_at_a_time(any_model: CheckpointPredictor,
                                         records: list[Record]) -> None:
    scores = list(score_sentences(records, [any_model]))
    assert [one.record["id"] for one in scores] == [record["id"] for record in records]
    for one in scores:
        assert one.logprobs.tolist() == pytest.approx(
            brute_force(any_model, one.record["text"]), rel=1e-4)


@pytest.mark.parametrize("batch_tokens", [1, 40, 1_000_000])
def test_scores_do_not_depend_on_batch_size_and_order( any_model: CheckpointPredictor,
                                                      records: list[Record],
                                                      batch_tokens: int) -> None:
    usual = {one.record["id"]: one.logprobs for one in score_sentences(records, [any_model])}
    again = CheckpointPredictor(any_model.checkpoint, InferenceConfig(batch_tokens=batch_tokens))
    for one in score_sentences(records[::-1], [again]):
        assert one.logprobs == pytest.approx(usual[one.record["id"]], abs=1e-5)


def test_sentence_too_long_for_one_model_is_not_scored(known: Callable[...,
                                                       CheckpointPredictor]) -> None:
    refused: list[RecordError] = []
    wide = known({"il": 1})
    narrow = known({"il": 1}, tokens=5, name="narrow")
    records = texts_of("il il il", "il il il il", "il")
    kept: list[SentenceScore] = list(score_sentences(records, [wide, narrow],
                                                     reject=refused.append))
    assert [s.record["id"] for s in kept] == ["0", "0", "2", "2"]
    assert [str(error) for error in refused] == [
        "<memory>: found 6 tokens, but narrow reads at most 5, including special tokens; split "
        "it into sentences first (bmtools import jsonl --sentences)"]
    with pytest.raises(RecordError):
        list(score_sentences(records, [wide, narrow]))


def test_bf16_difference_is_small_and_reported(wordpiece: CheckpointPredictor,
                                               records: list[Record]) -> None:
    half = CheckpointPredictor(wordpiece.checkpoint, InferenceConfig(precision="bf16"))
    exact, near = totals(records, wordpiece), totals(records, half)
    assert near["nats_per_token"] == pytest.approx(exact["nats_per_token"], rel=0.02)
    assert "precision:bf16" in near["signature"]
    error = near["difference_to_float32"]
    assert 0 < error["mean"] < error["max"] < 0.5 and error["cosine"] > 0.99
    assert 0.5 <= error["same_argmax"] <= 1 and "difference_to_float32" not in exact


def test_logits_of_bf16_are_not_rounded_to_ties(wordpiece: CheckpointPredictor) -> None:
    half = CheckpointPredictor(wordpiece.checkpoint, InferenceConfig(precision="bf16"))
    inputs = [MaskedCopies(np.array([2, *range(10, 40), 3]),
                           np.array([[at, at + 1] for at in range(1, 31)]))]
    [best] = half.predict(inputs, lambda batch: batch.logits.topk(50).values)
    assert (best.diff() != 0).float().mean() > 0.99


def minicons(model: Any, tokenizer: Any, texts: Sequence[str],
             variant: str = "original") -> list[float]:
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
            peer = MaskedLMScorer(model, "cpu", tokenizer=tokenizer, PLL_metric=variant)
            return [peer.sequence_score([text], reduction=lambda x: x.sum(0).item(),
                                        PLL_metric=variant)[0] for text in texts]
        finally:
            tokenizer.__class__ = usual


def of_shared_words(tokenizer: Any, texts: Iterable[str]) -> list[str]:
    """Keep texts whose words equal the tokenizer's words, which minicons uses."""
    kept = []
    for text in texts:
        own = [word for word in tokenizer(text).word_ids() if word is not None]
        sentence = encode_sentence(tokenizer, text)
        words = sentence.word_ids[sentence.positions].tolist()
        if all((one == two) == (first == second)
               for (one, two), (first, second) in zip(pairwise(own), pairwise(words), strict=True)):
            kept.append(text)
    return kept


VARIANTS = [("original", "original"), ("within-word", "within_word_l2r")]


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(("ours", "theirs"), VARIANTS)
@pytest.mark.parametrize("family", ["clinical", "clinical_bytes"])
def test_equals_minicons_on_two_hundred_real_sentences(
        family: str, ours: str, theirs: str, sentences: list[str],
        request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(family)
    if ours != "original":
        sentences = of_shared_words(model.tokenizer, sentences)
    scores = list(score_sentences(texts_of(*sentences), [model], PpplConfig(variant=ours)))
    expected = minicons(model.checkpoint.model, model.tokenizer, sentences, theirs)
    assert len(expected) == 200 or (ours != "original" and len(expected) > 50)
    assert [one.logprobs.sum() for one in scores] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("ours", "theirs"), VARIANTS)
def test_scores_equal_minicons_in_every_family( any_model: CheckpointPredictor,
                                               records: list[Record], ours: str,
                                               theirs: str) -> None:
    texts = [record["text"] for record in records]
    if ours != "original":
        # Metaspace does not split the full stop from its word.
        texts = of_shared_words(any_model.tokenizer, [text.replace(".", " .") for text in texts])
    scores = list(score_sentences(texts_of(*texts), [any_model], PpplConfig(variant=ours)))
    expected = minicons(any_model.checkpoint.model, any_model.tokenizer, texts, theirs)
    assert [one.logprobs.sum() for one in scores] == pytest.approx(expected, rel=1e-4)
    assert texts


def test_like_biobit_equals_the_mean_over_sentences_of_transformers_loss(
         wordpiece: CheckpointPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pppl_sentences, "_BIOBIT_TOKENS", 18)
    records = texts_of(*TEXTS)
    tokenizer, network = wordpiece.tokenizer, wordpiece.checkpoint.model
    expected, left_out = [], 0
    for text in TEXTS:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        if ids.shape[1] > 18:
            left_out += 1
            continue
        inner = torch.arange(1, ids.shape[1] - 1)
        copies, labels = ids.repeat(len(inner), 1), torch.full((len(inner), ids.shape[1]), -100)
        copies[range(len(inner)), inner] = tokenizer.mask_token_id
        labels[range(len(inner)), inner] = ids[0, inner]
        with torch.no_grad():
            expected.append(network(input_ids=copies, labels=labels).loss.exp().item())
    line = totals(records, wordpiece, like="biobit")
    assert 0 < left_out < len(TEXTS)
    assert line["pppl"] == pytest.approx(sum(expected) / len(expected), rel=1e-4)
    assert (line["left_out"], line["sentences"]) == (left_out, len(TEXTS) - left_out)
    assert "|like:biobit|" in line["signature"]


def test_groups_intervals_and_words(known: Callable[..., CheckpointPredictor]) -> None:
    model = known({"il": 8, "cuore": 4, "batte": 2, "##no": 1, ".": 1})
    records = [record.replace(domain=domain) for record, domain in zip(
        texts_of("il cuore batte", "il", "cuoreno ."), ("Cardio", "Neuro", "Cardio"),
        strict=True)]
    line = totals(records, model, by=["domain"])
    # Bits: 6 + 10 for three tokens each in Cardio; 1 for one token in Neuro.
    cardio, neuro = line["by"]["domain"]["Cardio"], line["by"]["domain"]["Neuro"]
    assert cardio["pppl"] == pytest.approx(2 ** (16 / 6), abs=1e-5)
    assert (neuro["pppl"], neuro["sentences"]) == (2, 1)
    assert cardio["sentences"] + neuro["sentences"] == line["sentences"]
    assert line["bits_per_word"] == pytest.approx(17 / 6, abs=1e-6)
    assert "interval" not in line
    several = [record.replace(id=f"{record['id']}-{number}") for number in range(5)
               for record in records]
    line = totals(several, model, by=["domain"])
    low, high = line["interval"]
    assert 2 <= low <= line["pppl"] <= high <= 2 ** (10 / 3) + 1e-6
    assert ["interval" in one for one in line["by"]["domain"].values()] == [True, False]
    assert "interval" not in totals(several, model, resamples=0)


def test_models_are_compared_by_token_only_if_they_share_a_vocabulary(
         known: Callable[..., CheckpointPredictor], wordpiece: CheckpointPredictor) -> None:
    one, two = known({"il": 3, "cuore": 1}), known({"il": 1, "cuore": 1}, name="two")
    records = texts_of("il il il", "il cuore", "il il")
    all_totals = [PpplTotals(model) for model in (one, two, wordpiece)]
    for found in score_sentences(records, [one, two, wordpiece]):
        all_totals[found.predictor].add(found)
    lines = compare_models([(own.predictor.name, own.metrics()) for own in all_totals],
                           StatisticsConfig())
    assert [(line["metric"], line["compared"]) for line in lines] == [
        ("bits_per_character", ["known", "two"]), ("nats_per_token", ["known", "two"]),
        ("bits_per_character", ["known", "wordpiece"]),
        ("bits_per_character", ["two", "wordpiece"])]
    expected = (6 * math.log(0.75) + math.log(0.25) - 7 * math.log(0.5)) / -7
    assert lines[1]["difference"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize(
    ("precision", "error"), [("float32", 1e-3), ("bf16", 0.05), ("fp16", 0.02)])
def test_gpu_has_the_same_scores( any_model: CheckpointPredictor, records: list[Record],
                                 precision: Precision, error: float) -> None:
    usual = [one.logprobs.sum() for one in score_sentences(records, [any_model])]
    moved = copy.deepcopy(any_model.checkpoint.model).to("cuda")
    there = CheckpointPredictor(replace(any_model.checkpoint, model=moved),
                                InferenceConfig(precision=precision))
    found = [one.logprobs.sum() for one in score_sentences(records, [there])]
    assert found == pytest.approx(usual, rel=error)


def test_python_function_equals_the_command( known: Callable[..., CheckpointPredictor],
                                            save: Callable[..., Path], write_lines: Callable[...,
                                            Path], run: Callable[..., Any]) -> None:
    models = [save(known({"il": 3, "cuore": 1}, name=name)) for name in ("one", "two")]
    records = [{"id": "a", "text": "il cuore", "part": "x"}, {"id": "b", "text": "il"}]
    path = write_lines("s.jsonl", *records)
    lines = bmtools.scoring.pppl(path, models, baseline=path, by=["part"], resamples=50,
                                 variant="within-word")
    arguments = [part for model in models for part in ("--model", model)]
    assert lines == run("score-pppl", path, *arguments, "--baseline", path, "--by", "part",
                        "--resamples", 50, "--variant", "within-word").records
    [line] = bmtools.scoring.pppl(records, str(models[0]), resamples=0)
    assert line["pppl"] == pytest.approx((4 / 3 * 4 * 4 / 3) ** (1 / 3), abs=1e-5)
    assert bmtools.scoring.pppl([path, path], models[0])[0]["sentences"] == 4


def test_table_and_missing_models_are_errors(known: Callable[..., CheckpointPredictor],
                                             save: Callable[..., Path]) -> None:
    class DataFrame(dict[str, list[str]]):
        """A table like a pandas table, which iterates over its columns."""

        columns = ("id", "text")

    model = save(known({"il": 3}))
    with pytest.raises(ValueError, match="models: found none, expected one directory"):
        bmtools.scoring.pppl([{"id": "a", "text": "il"}], [])
    for records, found in ((DataFrame(id=["a"], text=["il"]), "a DataFrame"), ([3], 3)):
        with pytest.raises(ValueError, match=f"records: found {found}, expected files or dict"):
            bmtools.scoring.pppl(records, model)
