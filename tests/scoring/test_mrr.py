"""Mean reciprocal rank, compared with a hand-computed table and the published set."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import pipeline

from bmtools.errors import RecordError
from bmtools.records import MASK, Record
from bmtools.scoring.checkpoint_predictor import CheckpointPredictor
from bmtools.scoring.evaluation import compare_models
from bmtools.scoring.mrr import MrrTotals
from bmtools.scoring.mrr_ranking import MaskScore, best_ranks, best_tokens, score_masked_words
from bmtools.scoring.settings import MrrConfig
from bmtools.statistics.settings import StatisticsConfig

# The order by weight is: cuore, il, ##re, rene, Cuore, mano, fegato.
WEIGHTS = {"il": 50, "cuore": 60, "##re": 40, "mano": 10, "rene": 30, "Cuore": 20, "fegato": 5,
           ".": 1, "vede": 1, "%": 1, "60": 1}
WORDS = list(WEIGHTS)


def masked(target: str, text: str = "il [MASK] .", **keys: str) -> Record:
    return Record(id="1", text=text, target=target, place="m.jsonl:1", **keys)


def scores(records: Sequence[Record], model: Any, **settings: Any) -> list[MaskScore]:
    return list(score_masked_words(records, [model], MrrConfig(**settings)))


def words(score: MaskScore) -> list[str]:
    return [word for word, _ in score.proposals]


def totals(records: Sequence[Record], model: Any, **settings: Any) -> dict[str, Any]:
    own_totals = MrrTotals(model, MrrConfig(**settings))
    for one in scores(records, model, **settings):
        own_totals.add(one)
    return own_totals.line()


@pytest.mark.parametrize(("target", "settings", "rank", "reciprocal"), [
    ("cuore", {}, 1, 1),
    ("rene", {}, 4, 1 / 4),           # pieces of words are also proposals
    ("rene", {"top_k": 3}, 4, 0),
    ("Cuore", {}, 5, 1 / 5),
    ("mano", {}, 6, 0),               # not among the first five
    ("mano", {"top_k": 6}, 6, 1 / 6),
    ("Cuore", {"ignore_case": True}, 1, 1),
    ("CUORE", {"ignore_case": True}, 1, 1),   # a token only if case is ignored
    ("CUORE", {}, None, 0),
    (" rene ", {}, 4, 1 / 4),
    ("milza", {}, None, 0),           # unknown
    ("60%", {}, None, 0),             # two tokens
])
def test_scores_equal_a_hand_computed_table( known: Callable[..., CheckpointPredictor],
                                            target: str, settings: dict[str, Any],
                                            rank: int | None, reciprocal: float) -> None:
    [one] = scores([masked(target)], known(WEIGHTS), **settings)
    assert (one.rank, one.reciprocal_rank) == (rank, pytest.approx(reciprocal))
    assert words(one) == ["cuore", "il", "##re", "rene", "Cuore", "mano"][
        :settings.get("top_k", 5)]


def test_means_by_domain_and_counts_equal_a_hand_computed_example(known: Callable[...,
                                                                  CheckpointPredictor]) -> None:
    model = known(WEIGHTS)
    records = [masked("cuore", domain="Cardiologia"), masked("60%", domain="Cardiologia"),
               masked("rene", domain="Nefrologia"), masked("milza", "vede [MASK] ."),
               masked("mano", "vede [MASK] .", domain="Ortopedia")]
    line = totals(records, model)
    assert line["mrr"] == pytest.approx((1 + 0 + 1 / 4 + 0 + 0) / 5)
    assert (line["hits_at_1"], line["hits_at_5"], line["hits_at_10"]) == (0.2, 0.4, 0.6)
    # Two of five words have no rank. The others have ranks 1, 4 and 6, so the median is 6.
    assert (line["median_rank"], line["mean_rank"], line["ranked"]) == (6, None, 3)
    one = line["by"]["domain"]["Ortopedia"]
    assert (one["median_rank"], one["mean_rank"], one["ranked"]) == (6, 6, 1)
    assert line["by"]["domain"]["Cardiologia"]["median_rank"] is None
    # The weights add up to 219.
    assert line["probability"] == pytest.approx((60 + 30 + 10) / 219 / 5, abs=1e-6)
    assert (line["maskings"], line["sentences"]) == (5, 5)
    assert (line["multi_token"], line["unknown"]) == (1, 1)
    by = line["by"]["domain"]
    assert {name: (one["mrr"], one["maskings"]) for name, one in by.items()} == {
        "Cardiologia": (0.5, 2), "Nefrologia": (0.25, 1), "-": (0, 1), "Ortopedia": (0, 1)}
    assert line["signature"].startswith(
        "mrr:top5|multi_token:miss|proposals:all|ties:lower-id|match:exact|precision:fp32|")
    skipping = totals(records, model, multi_token="skip", ignore_case=True)
    assert skipping["mrr"] == pytest.approx((1 + 1 / 4 + 0 + 0) / 4)
    assert (skipping["maskings"], skipping["multi_token"]) == (4, 1)
    own = skipping["by"]["domain"]["Cardiologia"]
    assert (own["mrr"], own["maskings"]) == (1, 1)
    assert "multi_token:skip" in skipping["signature"]
    assert "match:caseless" in skipping["signature"]


def test_ranks_and_best_tokens_equal_sorting() -> None:
    rng = torch.Generator().manual_seed(5)
    logits = torch.randint(0, 6, (40, 50), generator=rng).float()
    order = [sorted(range(50), key=lambda token, row=row: (-row[token], token))
             for row in logits.tolist()]
    assert best_tokens(logits, 7) == [tokens[:7] for tokens in order]
    assert best_tokens(logits, 80) == order
    wanted = [tuple(range(row % 4)) for row in range(40)]
    assert best_ranks(logits, wanted) == [
        min((tokens.index(token) + 1 for token in right), default=None)
        for tokens, right in zip(order, wanted, strict=True)]
    assert best_ranks(logits[:2], [(), ()]) == [None, None]


@pytest.mark.parametrize(("text", "target"), [
    ("La [MASK] riduce la dopamina.", "malattia"),
    ("[MASK] malattia riduce la dopamina.", "La"),
    ("Il paziente riferisce [MASK], nausea", "dolore"),
    ("Perché riduce la [MASK]", "pressione"),
    ("Il dolore è già più [MASK].", "dolente"),
])
def test_single_tokens_are_found_in_every_family(
        any_model: CheckpointPredictor, text: str, target: str) -> None:
    """The input has one mask in place of the word; other tokens are unchanged."""
    tokenizer = any_model.tokenizer
    whole = tokenizer(text.replace(MASK, target))["input_ids"]
    [one] = scores([masked(target, text)], any_model)
    position = int(one.target.masked.spans[0, 0])
    ids = one.target.masked.input_ids.tolist()
    if len(one.target.token_ids) == 1:
        assert ids == whole
        assert one.target.correct_ids == (whole[position],)
        assert tokenizer.decode([whole[position]]).strip() == target
        assert one.rank is not None
    else:
        pieces = whole[position:position + len(whole) - len(ids) + 1]
        assert tokenizer.decode(pieces).strip() == target
        assert ids == [*whole[:position + 1], *whole[position + one.line()["tokens"]:]]
        assert one.rank is None


def test_ranks_equal_the_complete_model(any_model: CheckpointPredictor) -> None:
    tokenizer, model = any_model.tokenizer, any_model.checkpoint.model
    records = [masked("malattia", "La [MASK] di Parkinson riduce la dopamina nel cervello."),
               masked("riduce", "Un farmaco [MASK] la pressione."), masked("cuore", "Il [MASK].")]
    for one in scores(records, any_model, multi_token="skip"):
        if one.rank is None:
            continue
        ids = torch.from_numpy(one.target.masked.input_ids)[None].clone()
        position = int(one.target.masked.spans[0, 0])
        ids[0, position] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, position]
        order = logits.argsort(descending=True).tolist()
        assert order.index(one.target.correct_ids[0]) + 1 == one.rank
        assert len(one.proposals) == 5


def test_words_with_several_tokens_follow_the_policy( known: Callable[...,
                                                     CheckpointPredictor]) -> None:
    model = known(WEIGHTS)
    record = masked("cuorere")  # cuore ##re
    [missed], [first] = scores([record], model), scores([record], model, multi_token="first")
    assert (missed.rank, missed.reciprocal_rank, missed.probability) == (None, 0, 0)
    assert (first.rank, first.probability) == (1, pytest.approx(60 / 219))
    [joint] = scores([record], model, multi_token="joint")
    # In any context the probability is 60/219, then 40/219. Ahead: il and cuore, then either.
    assert joint.probability == pytest.approx(60 / 219 * 40 / 219)
    pairs = sorted(((one * other, -WORDS.index(a), -WORDS.index(b)) for a, one in WEIGHTS.items()
                    for b, other in WEIGHTS.items()), reverse=True)
    assert joint.rank == 1 + pairs.index((2400, -WORDS.index("cuore"), -WORDS.index("##re")))
    # A word inside a larger token has no first token.
    [larger] = scores([masked("re", "il cuo[MASK] .")], model, multi_token="first")
    assert larger.rank is None
    for policy, mrr in (("miss", 0.5), ("first", 1), ("joint", 0.5 + joint.reciprocal_rank / 2),
                        ("skip", 1)):
        line = totals([record, masked("cuore")], model, multi_token=policy)
        assert line["mrr"] == pytest.approx(mrr, abs=1e-6)
        assert f"|multi_token:{policy}|" in line["signature"]
        assert line["multi_token"] == 1
    assert "|beam:20|" in totals([record], model, multi_token="joint")["signature"]


def test_like_biobit_equals_the_published_evaluation(known: Callable[...,
                                                     CheckpointPredictor]) -> None:
    """Proposals from transformers' pipeline, compared by the rules of Buonocore et al."""
    model = known({"il": 50, "cuore": 60, "Cuore": 45, "##re": 40, "60": 30, "mano": 10,
                   ".": 1, "%": 1})
    maskings = [masked(target) for target in ("cuore", "CUORE", "il", "60%", "mano", "cuorere")]
    fill = pipeline("fill-mask", model=model.checkpoint.model, tokenizer=model.tokenizer, top_k=5)
    expected = []
    for record in maskings:
        bare = "".join(one for one in record["target"] if one not in string.punctuation)
        reciprocal_rank = 0.0
        for position, proposal in enumerate(fill(record["text"]), 1):
            if proposal["token_str"].lower() == bare.lower():
                reciprocal_rank = round(1 / position, 2)
        expected.append(reciprocal_rank)
    # `cuore` is proposed first, and third as `Cuore`; the later one counts there.
    assert expected == [0.33, 0.33, 0.5, 0.2, 0, 0]
    found = scores(maskings, model, like="biobit")
    assert [one.reciprocal_rank for one in found] == expected
    line = totals(maskings, model, like="biobit")
    assert line["mrr"] == pytest.approx(sum(expected) / 6, abs=1e-6)
    assert "|match:caseless|like:biobit|punctuation:dropped|" in line["signature"]


def test_like_biobit_finds_sentencepiece_words(unigram: CheckpointPredictor) -> None:
    """`▁cuore` in the vocabulary represents the word `cuore`."""
    token, number = max((token, number) for token, number in unigram.tokenizer.get_vocab().items()
                        if token[0] == "▁" and token[1:].isalpha())
    bias = unigram.checkpoint.model.lm_head.bias
    with torch.no_grad():
        bias[number] += 100
        [found] = scores([masked(token[1:], "Il cuore [MASK] il sangue.")], unigram, like="biobit")
        bias[number] -= 100
    assert found.reciprocal_rank == 1
    assert words(found)[0] == f" {token[1:]}"


def test_intervals_are_over_documents(known: Callable[..., CheckpointPredictor]) -> None:
    """Maskings from sentences of one document are one unit, with or without its name."""
    model = known(WEIGHTS)
    rows = [(masked(word, f"{'il ' * number}[MASK] ."), number % 12) for number, word in
            enumerate(["cuore", "mano", "rene"] * 20, 1)]
    lines = [totals([one.replace(**{key: value.format(document)}) for one, document in rows], model)
             for key, value in (("id", "D{}-s1-m2"), ("text_pair", "{}"))]
    lines.append(totals([one.replace(meta={"document": document}) for one, document in rows],
                        model))
    assert [(line["unit"], line["units"], line["sentences"]) for line in lines] == [
        ("document", 12, 60), ("sentence", 60, 60), ("document", 12, 60)]
    assert lines[0]["mrr"] == lines[1]["mrr"] and lines[0]["data"] == lines[1]["data"]


def test_intervals_are_over_sentences(known: Callable[..., CheckpointPredictor]) -> None:
    """Sixty maskings of twelve sentences vary like twelve maskings."""
    model = known(WEIGHTS)
    found = [masked(word, f"{'il ' * number}[MASK] .") for number, word in
             enumerate(["cuore", "mano"] * 6, 1)]
    line = totals(found * 5, model)
    assert (line["interval"], line["sentences"]) == (totals(found, model)["interval"], 12)
    assert "interval" not in totals(found[:9] * 5, model)
    for word, mrr in (("cuore", 1), ("mano", 0)):
        line = totals([record for record in found * 3 if record["target"] == word] * 3
                      + [masked(word, f"[MASK] {'il ' * number}") for number in range(9)], model)
        assert (line["mrr"], line["sentences"], "interval" in line) == (mrr, 15, False)


def test_models_are_compared_by_masking(known: Callable[..., CheckpointPredictor]) -> None:
    one, two = known(WEIGHTS), known({**WEIGHTS, "rene": 100}, name="two")
    all_totals = [MrrTotals(model, MrrConfig()) for model in (one, two)]
    records = [masked(word) for word in ("cuore", "rene", "fegato", "il", "mano")]
    for found in score_masked_words(records, [one, two], MrrConfig()):
        all_totals[found.predictor].add(found)
    [line] = compare_models([(own.predictor.name, own.metrics()) for own in all_totals],
                            StatisticsConfig())
    assert line["difference"] == pytest.approx(
        (1 + 1 / 4 + 1 / 2 - 1 / 2 - 1 - 1 / 3) / 5, abs=1e-6)


@pytest.mark.parametrize(("record", "message"), [
    (Record(id="1", text="il [MASK]", place="m.jsonl:3"),
     "m.jsonl:3: key 'target' is missing, expected the word hidden by [MASK] (bmtools "
     "import curated writes it)"),
    (masked("\u0007"), "m.jsonl:1: key 'target': the tokenizer has no tokens for '\\x07', expected "
                       "a visible word"),
    (Record(id="1", text="il cuore", target="il", place="m.jsonl:4"),
     "m.jsonl:4: key 'text': found no [MASK], expected one"),
    (Record(id="1", text="[MASK] [MASK]", place="m.jsonl:5"),
     "m.jsonl:5: key 'text': found 2 [MASK], expected one"),
    (masked("il", "[MASK]" + " il" * 70), "m.jsonl:1: found 73 tokens, but known reads at most "
                                          "64, including special tokens; split it into "
                                          "sentences first (bmtools import jsonl --sentences)"),
])
def test_bad_records_are_errors_with_their_position( known: Callable[..., CheckpointPredictor],
                                                    record: Record, message: str) -> None:
    refused: list[RecordError] = []
    assert not list(score_masked_words([record], [known(WEIGHTS)], MrrConfig(), refused.append))
    assert [str(error) for error in refused] == [message]


@pytest.mark.data
def test_published_set_is_counted_completely( known: Callable[..., CheckpointPredictor],
                                             data: Path) -> None:
    """897 maskings in 54 sentences (Buonocore et al. 2023), in the file's 22 areas."""
    from bmtools.corpus.formats.sets.curated import curated_records

    path = data / "it/mrr/mlm_data.json"
    records = list(curated_records([str(path)]))
    model = known({"malattia": 5, "cuore": 4, "dopamina": 3, "##a": 2, "a": 1}, tokens=512)
    line = totals(records, model)
    by = line["by"]["domain"]
    assert (line["maskings"], line["sentences"], len(by)) == (897, 54, 22)
    assert (line["unit"], line["units"]) == ("sentence", 54)
    assert sum(domain["maskings"] for domain in by.values()) == 897
    assert sum(domain["sentences"] for domain in by.values()) == 54
    assert sum(domain["mrr"] * domain["maskings"] for domain in by.values()) == pytest.approx(
        897 * line["mrr"], abs=1e-3)
    found = [record["target"] for record in records]
    expected = sum({"malattia": 1, "cuore": 1 / 2, "dopamina": 1 / 3, "a": 1 / 5}.get(word, 0)
                   for word in found)
    assert expected > 1
    assert line["mrr"] == pytest.approx(expected / 897, abs=1e-6)
    originals = json.loads(path.read_text(encoding="utf-8"))["data"]
    assert sum(len(item["masked"]) for item in originals) == 897
