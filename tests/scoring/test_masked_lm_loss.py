"""Perplexity under masking, compared with transformers' loss, known models and simple versions."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bmtools.data.samples import cut_evenly, whole_documents
from bmtools.errors import RecordError
from bmtools.records import Record
from bmtools.scoring.checkpoint_predictor import CheckpointPredictor
from bmtools.scoring.masked_lm_loss import MaskedLmEvaluation, masked_lm_loss
from bmtools.scoring.masked_lm_sequences import SequenceMasker, Sequences, cut_texts, text_keys
from bmtools.scoring.settings import Combination, InferenceConfig, MaskedLmLossConfig
from bmtools.statistics.settings import StatisticsConfig

pytestmark = pytest.mark.usefixtures("one_thread")
WEIGHTS = {"il": 8, "cuore": 4, "batte": 2, "##no": 1, ".": 1}
QUICK = StatisticsConfig(resamples=50)


def settings(**given: Any) -> MaskedLmLossConfig:
    return MaskedLmLossConfig(**{"max_length": 32, "masking": "words", **given})


def scored(records: Sequence[Record], models: Sequence[CheckpointPredictor],
           config: MaskedLmLossConfig, **given: Any) -> list[dict[str, Any]]:
    evaluation = MaskedLmEvaluation(models, config, **given)
    assert sum(evaluation.run(records)) > 0
    return list(evaluation.lines(QUICK))


def sequences_of(masker: SequenceMasker, records: Sequence[Record]) -> Sequences:
    return masker.cut(masker.encode(records), text_keys(records))


def texts_of(*texts: str) -> list[Record]:
    return [Record(id=str(number), text=text) for number, text in enumerate(texts)]


def drawn_texts(count: int, words: int, seed: int = 0) -> list[Record]:
    """Return random texts of the known model's words."""
    rng = np.random.default_rng(seed)
    vocabulary = ["il", "cuore", "batte", "cuoreno", "batteno", "."]
    return texts_of(*(" ".join(rng.choice(vocabulary, words)) for _ in range(count)))


def test_scores_equal_a_hand_computed_table(known: Callable[..., CheckpointPredictor]) -> None:
    # Weights add up to 16: p(il) = 1/2, p(cuore) = 1/4, p(batte) = 1/8, p(##no) = p(.) = 1/16.
    [line] = scored(texts_of("il cuore batte", "il", "cuoreno ."), [known(WEIGHTS)],
                    settings(mask_rate="1", corruption="100/0/0", repeats=2))
    # bits: 1 + 2 + 3; 1; 2 + 4 + 4. Everything is masked, in both draws.
    assert line["perplexity"] == pytest.approx(2 ** (17 / 7), abs=1e-4)
    assert line["nats_per_token"] == pytest.approx(17 / 7 * math.log(2), abs=1e-5)
    assert line["accuracy"] == pytest.approx(2 / 7, abs=1e-6)
    assert (line["masked_tokens"], line["tokens"]) == (14, 7)
    assert (line["records"], line["sequences"]) == (3, 3)
    assert (line["masked_share"], line["perplexity_sd"]) == (1, 0)
    assert line["signature"].startswith(
        "mlm:words|rate:1.0|corruption:100/0/0|repeats:2|seed:0|max_length:32|"
        "segmenter:tokenizer|precision:fp32|case:kept|accents:kept|bmtools:")


@pytest.mark.parametrize("corruption", ["80/10/10", "40/40/20", "100/0/0"])
def test_loss_equals_transformers(any_model: CheckpointPredictor, records: list[Record],
                                  corruption: str) -> None:
    config = settings(masking="tokens,words,spans", mask_rate="0.3,0.5", corruption=corruption,
                   repeats=2, max_length=16)
    lines = scored(records, [any_model], config, seed=7)
    for combination, line in zip(config.combinations(), lines, strict=True):
        nats, counts = loss_of_transformers(any_model, records, config, combination, seed=7)
        assert line["masked_tokens"] == counts
        assert line["nats_per_token"] == pytest.approx(nats / counts, rel=1e-4)


def loss_of_transformers(model: CheckpointPredictor, records: list[Record],
                         config: MaskedLmLossConfig, combination: Combination,
                         seed: int) -> tuple[float, int]:
    """Add up the losses of the complete model, one sequence after the other."""
    tokenizer = model.tokenizer
    masker = SequenceMasker(tokenizer, config, seed=seed)
    sequences = sequences_of(masker, records)
    nats, counts = 0.0, 0
    for draw in range(config.repeats):
        shown = masker.mask(sequences, combination, draw)
        for begin, end in zip(sequences.borders[:-1], sequences.borders[1:], strict=True):
            ids = [tokenizer.cls_token_id, *shown.inputs[begin:end], tokenizer.sep_token_id]
            labels = torch.tensor([[-100, *shown.labels[begin:end], -100]])
            masked = int((labels >= 0).sum())
            with torch.no_grad():
                loss = model.checkpoint.model(input_ids=torch.tensor([ids]), labels=labels).loss
            nats, counts = nats + float(loss) * masked, counts + masked
    return nats, counts


def test_words_are_masked_completely(any_model: CheckpointPredictor) -> None:
    records = texts_of("Neurotrasmettitori serotoninergici riducono l'ipercolesterolemia.",
                       "La broncopneumopatia, cronica e ostruttiva, sonnecchia nell'addome.")
    unknown = any_model.tokenizer.unk_token_id
    masker = SequenceMasker(any_model.tokenizer, settings(max_length=62))
    sequences = sequences_of(masker, records)
    assert len(sequences.texts) == len(records)
    pieces = 0
    for draw in range(4):
        shown = masker.mask(sequences, Combination("words", 0.3, "80/10/10"), draw)
        for record, begin, end in zip(records, sequences.borders[:-1], sequences.borders[1:],
                                      strict=True):
            found = any_model.tokenizer.backend_tokenizer.encode(
                record["text"], add_special_tokens=False)
            masked = (shown.labels[begin:end] >= 0).tolist()
            assert unknown not in shown.labels[begin:end]
            for word in re.finditer(r"\w+|[^\w\s]", record["text"]):
                own = [position for position, (_, end) in enumerate(found.offsets)
                       if word.start() < end <= word.end()]
                # An unknown token is never masked and ends its word.
                if own and unknown not in [found.ids[position] for position in own]:
                    assert len({masked[position] for position in own}) == 1
                    pieces += len(own) > 1 and masked[own[0]]
    assert pieces > 5


@pytest.mark.parametrize(("longest", "seed"), [(6, 0), (14, 1), (30, 2), (126, 3), (40, 4)])
def test_texts_are_cut_as_in_pretraining(longest: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5 * longest, 50)
    starts = rng.random(lengths.sum()) < 0.3
    firsts = np.cumsum(lengths) - lengths
    starts[firsts] = True

    class OneCorpus:
        """Search for word starts one position after the other."""

        def at_or_before(self, documents: np.ndarray, offsets: np.ndarray,
                         slack: int) -> np.ndarray:
            return np.array([next((position for position in range(offset, offset - slack - 1, -1)
                                   if starts[firsts[document] + position]), offset)
                             for document, offset in
                             zip(documents, offsets, strict=True)])

    numbers = np.arange(len(lengths))
    whole = whole_documents(numbers, lengths, numbers)
    expected = cut_evenly(whole, [OneCorpus()], longest + 2)  # type: ignore[list-item]
    begins, texts, offsets = cut_texts(lengths, starts, longest + 2)
    assert texts.tolist() == expected["document"].tolist()
    assert offsets.tolist() == (begins - firsts[texts]).tolist() == expected["start"].tolist()
    borders = np.append(begins, len(starts))
    assert np.diff(borders).tolist() == expected["length"].tolist()
    assert np.diff(borders).max() <= longest


@pytest.mark.parametrize("passes", [{"batch_tokens": 40}, {"workers": 3}, {"batch_tokens": 1}])
def test_scores_do_not_depend_on_batches_and_workers(wordpiece: CheckpointPredictor,
                                                     records: list[Record], passes: dict[str,
                                                     int]) -> None:
    config = settings(masking="tokens,words", mask_rate="0.2,0.4", max_length=12)
    alone, other = (CheckpointPredictor(wordpiece.checkpoint, InferenceConfig(**chosen))
                    for chosen in ({"workers": 1}, passes))
    close(scored(records, [other], config), scored(records, [alone], config))


def test_bf16_error_is_measured_and_logits_are_not_rounded(wordpiece: CheckpointPredictor,
                                                           records: list[Record]) -> None:
    half = CheckpointPredictor(wordpiece.checkpoint, InferenceConfig(precision="bf16"))
    seen = []
    hook = half.checkpoint.model.cls.predictions.decoder.register_forward_hook(
        lambda _module, _states, logits: seen.append(logits.dtype))
    [line] = scored(records, [half], settings(mask_rate="0.4"))
    hook.remove()
    assert set(seen) == {torch.float32}
    assert 0 < line["difference_to_float32"]["max"] < 0.5


def test_scores_do_not_depend_on_order_and_windows(wordpiece: CheckpointPredictor,
                                                   records: list[Record],
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    config = settings(masking="tokens,words", mask_rate="0.4", max_length=12)
    expected = scored(records, [wordpiece], config, by=["id"])
    module = sys.modules[MaskedLmEvaluation.__module__]
    monkeypatch.setattr(module, "_TOKENS_AT_ONCE", 30)
    close(scored(records[::-1], [wordpiece], config, by=["id"]), expected)


def close(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Compare lines: counts exactly, losses up to rounding."""
    assert len(found) == len(expected)
    for one, other in zip(map(flat, found), map(flat, expected), strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            is_loss = isinstance(value, float)
            assert value == (pytest.approx(other[name], rel=1e-4) if is_loss else other[name])


def flat(line: Any, path: str = "") -> dict[str, Any]:
    """Return the values of nested lines by their paths."""
    items = line.items() if isinstance(line, dict) else enumerate(line)
    found: dict[str, Any] = {}
    for name, value in items:
        nested = isinstance(value, dict | list)
        found |= flat(value, f"{path}{name}.") if nested else {f"{path}{name}": value}
    return found


def test_masks_depend_only_on_text_seed_and_draw(wordpiece: CheckpointPredictor,
                                                 records: list[Record]) -> None:
    config, combination = settings(max_length=60), Combination("words", 0.3, "80/10/10")

    def labels(own: list[Record], seed: int = 0, draw: int = 0) -> list[list[int]]:
        masker = SequenceMasker(wordpiece.tokenizer, config, seed=seed)
        sequences = sequences_of(masker, own)
        found = masker.mask(sequences, combination, draw).labels
        return [found[begin:end].tolist()
                for begin, end in zip(sequences.borders[:-1], sequences.borders[1:], strict=True)]

    together = labels(records)
    assert [labels([record])[0] for record in records] == together
    assert together != labels(records, seed=1) != labels(records, draw=1) != together


def test_corruption_keeps_the_masks_and_higher_rates_extend_them(wordpiece: CheckpointPredictor,
                                                                 records: list[Record]) -> None:
    masker = SequenceMasker(wordpiece.tokenizer, settings(masking="tokens", max_length=60))
    sequences = sequences_of(masker, records)

    def masked(rate: float, corruption: str) -> np.ndarray:
        shown = masker.mask(sequences, Combination("tokens", rate, corruption), 0)
        return shown.labels >= 0

    low = masked(0.2, "80/10/10")
    assert np.array_equal(low, masked(0.2, "100/0/0"))
    assert masked(0.4, "80/10/10")[low].mean() > 0.9


def test_models_with_one_vocabulary_get_the_same_masks( known: Callable[...,
                                                       CheckpointPredictor]) -> None:
    model, twin, other = known(WEIGHTS), known(WEIGHTS, name="twin"), known({"il": 1, "cuore": 1})
    first, second, third = scored(drawn_texts(4, 20), [model, twin, other], settings())
    assert [one.pop("model") for one in (first, second, third)] == ["known", "twin", "known"]
    assert first == second
    assert third["vocabulary"] != first["vocabulary"]
    assert third["tokens"] < first["tokens"]  # unknown tokens are not masked


def test_text_unknown_to_one_vocabulary_is_not_scored( known: Callable[...,
                                                      CheckpointPredictor]) -> None:
    models = [known(WEIGHTS), known({"rene": 1})]
    texts = [Record(id="a", text="il cuore", place="t.jsonl:1"),
             Record(id="b", text="il rene", place="t.jsonl:2")]
    refused: list[RecordError] = []
    evaluation = MaskedLmEvaluation(models, settings(mask_rate="1"))
    list(evaluation.run(texts, refused.append))
    assert [error.place for error in refused] == ["t.jsonl:1"]
    assert [line["records"] for line in evaluation.lines(QUICK)] == [1, 1]
    with pytest.raises(RecordError, match=r"t.jsonl:1: key 'text': found no tokens to mask"):
        list(MaskedLmEvaluation(models, settings()).run(texts))


def test_interval_is_over_documents(known: Callable[..., CheckpointPredictor]) -> None:
    """Copies of sentences narrow the interval only if they are in other documents."""
    config = settings(mask_rate="1", corruption="100/0/0")
    texts = texts_of(*["il", "cuore", ".", "il", "batte"] * 2)
    copies = [record.replace(id=f"D{number}-s{copy}") for copy in range(4)
              for number, record in enumerate(texts)]
    [line], [copied] = (scored(some, [known(WEIGHTS)], config) for some in (texts, copies))
    assert [(one["unit"], one["units"], one["records"]) for one in (line, copied)] == [
        ("record", 10, 10), ("document", 10, 40)]
    widths = [one["interval"][1] / one["interval"][0] for one in (line, copied)]
    assert widths[1] > widths[0]**0.7  # twice as narrow over records: a power of 0.5


def test_models_with_one_vocabulary_are_compared( known: Callable[..., CheckpointPredictor],
                                                 save: Callable[..., Path]) -> None:
    models = [save(known(weights, name=name)) for name, weights in (
        ("one", WEIGHTS), ("two", dict.fromkeys(WEIGHTS, 1)), ("other", {"il": 1, "cuore": 1}))]
    records = [{"id": f"D{number % 12}-s{number}", "text": text}
               for number, text in enumerate(["il cuore", "il il", "cuore il il"] * 8)]
    *lines, compared = masked_lm_loss(records, models, masking="tokens", mask_rate="1",
                                      max_length=16, resamples=200)
    assert compared["compared"] == [str(model) for model in models[:2]]
    assert compared["difference"] == pytest.approx(
        lines[0]["nats_per_token"] - lines[1]["nats_per_token"], abs=2e-6)
    assert (compared["unit"], compared["units"], compared["records"]) == ("document", 12, 24)
    assert compared["p"] == compared["p_holm"] <= 0.01
    [line] = masked_lm_loss(records, models[:1], masking="tokens", unit="text", max_length=16,
                            resamples=200)
    assert (line["unit"], line["units"], "interval" in line) == ("text", 3, False)


def test_interval_is_over_texts(known: Callable[..., CheckpointPredictor]) -> None:
    config = settings(mask_rate="1", corruption="100/0/0")
    [even] = scored(texts_of(*["il", "il il", "il"] * 4), [known(WEIGHTS)], config)
    assert even["interval"] == [even["perplexity"]] * 2
    [uneven] = scored(texts_of(*["il", "cuore", ".", "il", "batte"] * 2), [known(WEIGHTS)], config)
    low, high = uneven["interval"]
    assert 2 <= low < uneven["perplexity"] < high <= 16
    evaluation = MaskedLmEvaluation([known(WEIGHTS)], config)
    list(evaluation.run(texts_of(*["il", "cuore"] * 5)))
    assert "interval" in next(evaluation.lines())
    assert "interval" not in next(evaluation.lines(StatisticsConfig(resamples=0)))


@pytest.mark.parametrize(("given", "message"), [
    ({"masking": "token"}, "masking: found 'token', expected names from tokens, words"),
    ({"masking": ","}, "masking: found ',', expected at least one"),
    ({"masking": "words,words"}, "masking: found 'words,words', expected each once"),
    ({"mask_rate": "0.15,1.5"}, "mask_rate: found '0.15,1.5', expected shares above 0"),
    ({"mask_rate": "0"}, "mask_rate: found '0', expected shares above 0"),
    ({"mask_rate": "nan"}, "mask_rate: found 'nan', expected shares above 0"),
    ({"mask_rate": "many"}, "mask_rate: found 'many', expected shares above 0"),
    ({"mask_rate": "0.2,0.20"}, "mask_rate: found '0.2,0.20', expected each once"),
    ({"corruption": "80/10"}, "corruption: found '80/10', expected percentages that add up"),
    ({"corruption": "0.8/0.1/0.1"}, "corruption: found '0.8/0.1/0.1', expected percentages"),
    ({"corruption": "110/-10/0"}, "corruption: found '110/-10/0', expected percentages"),
    ({"corruption": "a/b/c"}, "corruption: found 'a/b/c', expected percentages"),
    ({"repeats": 0}, "repeats: found 0, expected 1 or more"),
    ({"max_length": 7}, "max_length: found 7, expected 8 or more"),
])
def test_wrong_settings_are_errors(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        MaskedLmLossConfig(**given)
