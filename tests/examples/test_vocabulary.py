"""The comparison of vocabularies in examples/vocabulary, complete but at toy size."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "vocabulary" / "run.sh"
REVIEWS = "en/corpus/pubmed-drug-reviews.jsonl.gz"
ENTITIES = "en/ner/BC5CDR/train.tsv"
VOCABULARIES = ("bert-base-uncased", "scibert-scivocab-uncased", "covid-electra-50k-uncased")


@pytest.fixture
def small(data: Path, tmp_path: Path, copy_lines: Any) -> Path:
    """The beginning of the real data, and the real vocabularies."""
    folder = tmp_path / "data"
    for name in (REVIEWS, ENTITIES, "vocab/any"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    copy_lines(data / REVIEWS, folder / REVIEWS, 150)
    copy_lines(data / ENTITIES, folder / ENTITIES, 9_000)
    for name in VOCABULARIES:
        shutil.copy(data / f"vocab/{name}.txt", folder / f"vocab/{name}.txt")
    return folder


@pytest.mark.data
@pytest.mark.slow
def test_domain_vocabularies_split_entities_less(small: Path, tmp_path: Path, run_script: Any,
                                                 read: Any) -> None:
    out = tmp_path / "out"
    table = run_script(SCRIPT, DATA=str(small), OUT=str(out), SIZES="1000 4000",
                       OMP_NUM_THREADS="1")
    lines = {(line["vocabulary"], line["scope"]): line for line in read(out / "comparison.jsonl")}
    assert "pieces per word" in table and "| COVID-ELECTRA " in table
    for kind in ("Chemical", "Disease"):
        rates = {name: lines[name, f"entities:{kind}"]["pieces_per_word"] for name in
                 ("BERT", "SciBERT", "COVID-ELECTRA", "reviews-1000", "reviews-4000")}
        assert rates["BERT"] > rates["SciBERT"] > rates["COVID-ELECTRA"] >= 1
        assert rates["reviews-1000"] > rates["reviews-4000"] >= 1
    assert lines["reviews-4000", "text"]["vocab_size"] == 4000
    assert (out / "pieces.png").read_bytes().startswith(b"\x89PNG")
