"""Comparisons of models, checked against each model's line on the items that both count."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bmtools.records import MASK, Record
from bmtools.scoring import pppl_sentences
from bmtools.scoring.checkpoint_predictor import CheckpointPredictor
from bmtools.scoring.evaluation import collect_scores
from bmtools.scoring.mrr import MrrTotals
from bmtools.scoring.mrr_ranking import score_masked_words
from bmtools.scoring.pppl import PpplTotals
from bmtools.scoring.pppl_sentences import score_sentences
from bmtools.scoring.settings import MrrConfig, PpplConfig
from bmtools.statistics.settings import StatisticsConfig

FEW = StatisticsConfig(resamples=200)
WORDS = ("cuore", "rene", "il", "##re", ".", "batte", "vede", "ve", "la", "dolore")
PPPL = [{}, {"variant": "within-word"}, {"like": "biobit"}]
COUNTS = ("sentences", "maskings")
MRR = [{"multi_token": policy, "top_k": top} for policy in ("miss", "first", "joint", "skip")
       for top in (1, 5)] + [{"like": "biobit"}, {"ignore_case": True, "multi_token": "skip"}]
Models = list[CheckpointPredictor]


@pytest.fixture
def models(known: Callable[..., CheckpointPredictor],
           unigram: CheckpointPredictor) -> Callable[[int], Models]:
    """Make two random models with one vocabulary, one with another and one of another family."""
    def drawn(seed: int) -> Models:
        rng = random.Random(seed)
        one, two = ({word: rng.randint(1, 50) for word in WORDS} for _ in range(2))
        fewer = {word: rng.randint(1, 50) for word in (*WORDS[1:], "cuo")}
        return [known(one, name="one"), known(two, name="two"), known(fewer, name="fewer"), unigram]
    return drawn


def texts(rng: random.Random, count: int = 14) -> list[Record]:
    words = ("cuore", "rene", "il", "vere", "batte", "vede", "la", "dolore", "cuore.")
    return [Record(id=str(number), text=" ".join(rng.choices(words, k=rng.randint(1, 9))),
                   part=rng.choice("ab")) for number in range(count)]


def maskings(rng: random.Random, count: int = 14) -> list[Record]:
    """Mask some words of some texts; one model leaves out some maskings of a text."""
    found = []
    for record in texts(rng, count):
        words = record["text"].split()
        for place in rng.sample(range(len(words)), min(3, len(words))):
            masked = " ".join([*words[:place], MASK, *words[place + 1:]])
            found.append(record.replace(id=f"{record['id']}-{place}", text=masked,
                                        target=words[place]))
    return found


class Pppl:
    """The steps of score-pppl."""

    draw = staticmethod(texts)

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.config: Any = PpplConfig(**settings)

    def scores(self, records: Sequence[Record], models: Models) -> list[Any]:
        return list(score_sentences(records, models, self.config))

    def totals(self, model: CheckpointPredictor) -> Any:
        return PpplTotals(model, self.config, ["part"], FEW)

    def counts(self, score: Any) -> bool:
        return "like" not in self.settings or len(score.logprobs) > 0

    def lines(self, records: Sequence[Record], models: Models) -> list[dict[str, Any]]:
        return collect_scores(iter(self.scores(records, models)), list(map(self.totals, models)),
                              FEW)


class Mrr(Pppl):
    """The steps of score-mrr."""

    draw = staticmethod(maskings)

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self.config = settings, MrrConfig(**settings)

    def scores(self, records: Sequence[Record], models: Models) -> list[Any]:
        return list(score_masked_words(records, models, self.config))

    def totals(self, model: CheckpointPredictor) -> Any:
        return MrrTotals(model, self.config, ["part"], FEW)

    def counts(self, score: Any) -> bool:
        return self.settings.get("multi_token") != "skip" or len(score.target.token_ids) == 1


MEASURES = [*map(Pppl, PPPL), *map(Mrr, MRR)]
every_measure = pytest.mark.parametrize(
    "measure", MEASURES, ids=lambda one: f"{type(one).__name__} {one.settings}")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pppl_sentences, "_BIOBIT_TOKENS", 9)


@every_measure
@pytest.mark.parametrize("seed", range(2))
def test_difference_equals_the_difference_of_lines_on_shared_items( models: Callable[[int],
                                                                   Models], measure: Pppl,
                                                                   seed: int) -> None:
    records, used = measure.draw(random.Random(seed)), models(seed)
    scores = measure.scores(records, used)
    totals = [measure.totals(model) for model in used]
    compared = collect_scores(iter(scores), totals, FEW)[len(used):]
    assert len(compared) >= 6  # pairs
    counted = [{one.record["id"] for one in scores
                if one.predictor == number and measure.counts(one)} for number in range(len(used))]
    for line in compared:
        both = [[model.name for model in used].index(name) for name in line["compared"]]
        alone = [measure.totals(used[number]) for number in both]
        for one in scores:
            if one.predictor in both and one.record["id"] in counted[both[0]] & counted[both[1]]:
                alone[both.index(one.predictor)].add(one)
        first, second = (own.line() for own in alone)
        metric = line["metric"]
        assert line["difference"] == pytest.approx(first[metric] - second[metric], abs=2e-6)
        assert all(line[key] == first[key] == second[key] for key in COUNTS if key in line)


@every_measure
def test_model_does_not_differ_from_itself(models: Callable[[int], Models], measure: Pppl) -> None:
    records = measure.draw(random.Random(7))
    for model in models(7):
        first, second, *compared = measure.lines(records, [model, model])
        assert first == second
        assert compared
        for line in compared:
            assert (line["difference"], line["p"], line["p_holm"]) == (0, 1, 1)
            assert line["interval"] in (None, [0, 0])
            assert all(line[key] == first[key] for key in COUNTS if key in line)


@pytest.mark.parametrize("measure", [
    Pppl({}), Pppl({"like": "biobit"}), Mrr({"multi_token": "skip"})])
def test_scores_do_not_depend_on_record_order(models: Callable[[int], Models],
                                              measure: Pppl) -> None:
    rng = random.Random(1)
    records, used = measure.draw(rng, 40), models(1)[:3]
    lines = measure.lines(records, used)
    assert any("interval" in line for line in lines[:3])
    assert any(line["interval"] for line in lines[3:])
    for _ in range(3):
        rng.shuffle(records)
        again = measure.lines(records, used)
        assert all(same(one, other) for one, other in zip(lines, again, strict=True))


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether lines are equal except for the last digit, which depends on order."""
    return one.keys() == other.keys() and all(
        same(value, other[key]) if isinstance(value, dict)
        else value == pytest.approx(other[key], abs=2e-6) if isinstance(value, float | list)
        else value == other[key] for key, value in one.items())
