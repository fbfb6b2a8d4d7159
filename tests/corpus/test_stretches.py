"""Stretches of whole sentences, which are cheaper to find than sentences."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import pytest

from bmtools.corpus.segment import sentence_spans
from bmtools.corpus.stretches import stretch_spans, stretches


def parts(text: str) -> list[str]:
    return [text[start:end] for start, end in stretches(text)]


@pytest.mark.parametrize(("text", "expected"), [
    ("", [""]), ("no end", ["no end"]),
    ("Patients improved. They left.", ["Patients improved. ", "They left."]),
    ("We gave approx. Ten of them.", ["We gave approx. Ten of them."]),
    ("It was low. Then it rose.", ["It was low. Then it rose."]),
    ("The liver (which failed. It did) recovered. The end came.",
     ["The liver (which failed. It did) recovered. ", "The end came."]),
    ('He said "nothing helps. Nothing ever" and slept. We left.',
     ['He said "nothing helps. Nothing ever" and slept. ', "We left."]),
    ("A list 1) is closed. Never again.", ["A list 1) is closed. Never again."]),
])
def test_texts_are_cut_only_where_it_is_sure(text: str, expected: list[str]) -> None:
    assert parts(text) == expected
    assert "".join(parts(text)) == text


@pytest.mark.data
@pytest.mark.parametrize(("name", "lang", "most"), [
    ("en/corpus/pubmed-drug-reviews.jsonl.gz", "en", 0.005),
    ("en/corpus/pubmed-case-reports.jsonl.gz", "en", 0.005),
    ("it/corpus/native-leaflets.jsonl.gz", "it", 0.005)])
def test_sentences_of_stretches_are_those_of_the_text(data: Path, name: str, lang: str,
                                                      most: float) -> None:
    with gzip.open(data / name, "rt", encoding="utf-8") as stream:
        texts = [json.loads(line)["text"] for line in itertools.islice(stream, 400)]
    whole = {(number, *span) for number, text in enumerate(texts)
             for span in sentence_spans(text, lang)}
    cut = {(number, begin + start, begin + end) for number, text in enumerate(texts)
           for begin, stop in stretches(text)
           for start, end in stretch_spans(text[begin:stop], lang)}
    assert len(whole ^ cut) <= most * len(whole)
    assert sum(len(stretches(text)) for text in texts) > 2 * len(texts)
