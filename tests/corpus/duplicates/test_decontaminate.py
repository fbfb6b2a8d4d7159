"""Evaluation texts in a corpus: all planted texts are found, and no others."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from bmtools.corpus.duplicates.decontaminate import ContaminationFinder, EvaluationRuns
from bmtools.corpus.duplicates.settings import ContaminationConfig, contaminated_texts
from bmtools.corpus.formats.sets.conll import conll_records
from bmtools.errors import DataError
from bmtools.io.jsonl import RecordReader
from bmtools.io.parts import read_blocks
from bmtools.io.passes import opened_pass
from bmtools.io.workers import Workers
from bmtools.records import Record

Write = Callable[..., Path]
SENTENCE = "the patient was treated with two tablets of aspirin a day for nine weeks in all"


def runs_of(*texts: str, **settings: Any) -> EvaluationRuns:
    records = [Record({"id": f"e{number}", "text": text}, place=f"eval:{number}")
               for number, text in enumerate(texts)]
    return EvaluationRuns.of(records, ContaminationConfig(**settings))


def hits(runs: EvaluationRuns, *texts: str) -> list[tuple[int, str, int, float]]:
    return [(number, hit.evaluation, hit.shared, hit.share) for number, hit in
            ContaminationFinder(runs).find([str(number) for number in range(len(texts))], texts)]


def test_thirteen_words_are_shared() -> None:
    words = SENTENCE.split()
    runs = runs_of(SENTENCE)
    assert hits(runs, " ".join(["x", *words[:13], "y"])) == [(0, "e0", 1, 0.25)]
    assert hits(runs, " ".join(["x", *words[1:], "y"])) == [(0, "e0", 3, 0.75)]
    assert hits(runs, " ".join([*words[:12], "x", *words[4:]])) == []
    assert hits(runs, " ".join(words[:8]), " ".join(words[8:])) == []  # of two texts


def test_case_white_space_and_punctuation_are_folded() -> None:
    [(_, hit)] = ContaminationFinder(runs_of(SENTENCE)).find(
        ["a"], ["So: THE patient\n was (treated) with two tablets\u00a0of aspirin, a day for nine"])
    assert (hit.id, hit.evaluation, hit.place) == ("a", "e0", "eval:0")
    assert hit.ngram.split(" ") == SENTENCE.split()[:13]


def test_shorter_texts_are_one_run() -> None:
    nine = " ".join(SENTENCE.split()[:9])
    runs = runs_of(nine, "no asthma found", "", SENTENCE)
    assert ([*runs.runs], runs.short) == ([9, 13], 2)
    assert hits(runs, f"x {nine} y", f"x {nine.removesuffix('aspirin')}") == [(0, "e0", 1, 1.0)]
    assert hits(runs_of("no asthma found", least_words=1), "now no asthma found") == [
        (0, "e0", 1, 1.0)]
    with pytest.raises(DataError, match=r"^eval: found no text with at least 8 words under text"):
        runs_of("no asthma found")


def test_masked_words_and_questions_are_evaluation_texts() -> None:
    masked = Record({"id": "m", "text": SENTENCE.replace("aspirin", "[MASK]"), "target": "aspirin"},
                    place="m:1")
    again = Record({"id": "n", "text": SENTENCE.replace("tablets", "[MASK]"), "target": "tablets"},
                   place="m:2")
    question = Record({"id": "q", "text": "x", "question": SENTENCE[::-1]}, place="q:1")
    runs = EvaluationRuns.of([masked, again, question], ContaminationConfig())
    assert [name for name, _ in runs.names] == ["m", "q", "q"]  # one sentence, masked twice
    assert {one[1] for one in hits(runs, SENTENCE, SENTENCE[::-1])} == {"m", "q"}
    alone = EvaluationRuns.of([masked, question], ContaminationConfig(keys="question"))
    assert {one[1] for one in hits(alone, SENTENCE, SENTENCE[::-1])} == {"q"}


@pytest.mark.parametrize("action", ["drop", "report"])
def test_records_are_dropped_or_reported(write_lines: Write, action: str) -> None:
    path = write_lines("a.jsonl", {"id": "1", "text": "clean"},
                       {"id": "2", "text": f"So {SENTENCE}."}, {"id": "2", "text": "same id"})
    aside = BytesIO()
    runs = runs_of(SENTENCE)
    with opened_pass(None, {}, Workers(1)) as own:
        lines = b"".join(own.lines(read_blocks(RecordReader([str(path)])),
                                   lambda: ContaminationFinder(
            runs, ContaminationConfig(action=action)), aside=aside))
    kept = [json.loads(line)["text"] for line in lines.splitlines()]
    assert kept == ["clean", *[f"So {SENTENCE}."] * (action == "report"), "same id"]
    [hit] = [json.loads(line) for line in aside.getvalue().splitlines()]
    assert (hit["id"], hit["evaluation"], hit["place"], hit["share"]) == ("2", "e0", "eval:0", 1.0)
    assert (own.counts["all"], own.counts["contaminated"]) == (3, 1)
    assert contaminated_texts(own.counts) == 1


@pytest.mark.data
@pytest.mark.parametrize("source", ["en/ner/NCBI-disease/test.tsv", "it/ner/E3C/test.txt"])
def test_all_planted_sentences_are_found(data: Path, source: str) -> None:
    rng = random.Random(0)
    sentences = [record["text"] for record in conll_records([str(data / source)])
                 if re.search(r"[^\W_]", record["text"])]
    clinical = (data / "it/corpus/native-clinical.jsonl").read_text(encoding="utf-8")
    documents = [json.loads(line)["text"].split() for line in clinical.splitlines()[:300]]
    texts = []
    for sentence in sentences:
        words = rng.choice(documents)
        place = rng.randrange(len(words) + 1)
        changed = rng.choice([str, str.upper, str.title])(sentence)
        planted = rng.choice(["{}", "({})", "\n{}\n"]).format(
            changed.replace(" ", rng.choice(" \n\t\u00a0")))
        texts.append(" ".join([*words[:place], planted, *words[place:]]))
    for least in (1, 8):
        found = {number for number, *_ in hits(runs_of(*sentences, least_words=least), *texts)}
        expected = {number for number, sentence in enumerate(sentences)
                    if len(re.findall(r"[^\W_]+", sentence)) >= least}
        assert expected <= found
        assert len(expected) > 50
