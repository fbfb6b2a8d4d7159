"""Building of vocabularies in Python."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from transformers import AutoTokenizer

import bmtools.vocab
from bmtools.errors import BmtoolsError, DataError
from bmtools.io.output import temporary_file
from bmtools.vocab.build_vocab import DocumentSample, random_key
from bmtools.vocab.settings import VocabularyConfig

RECORDS = [{"id": "1", "title": "Cuore", "text": "il cuore batte e il sangue scorre"}] * 3


def test_build_compare_and_extend_a_vocabulary_from_python(tmp_path: Path) -> None:
    config = VocabularyConfig(size=100, uncased=True, allow_fewer=True)
    built = bmtools.vocab.build_vocab(RECORDS, config, tmp_path / "tok")
    assert built.results["vocab_size"] == len(built.tokenizer)
    assert AutoTokenizer.from_pretrained(tmp_path / "tok").get_vocab() == \
        built.tokenizer.get_vocab()
    manifest = json.loads((tmp_path / "tok/bmtools.json").read_text(encoding="utf-8"))
    assert (manifest["vocabulary"], manifest["results"]) == (built.fingerprint, built.results)
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in RECORDS))
    same = bmtools.vocab.build_vocab(str(tmp_path / "texts.jsonl"), output=str(tmp_path / "same"),
                                     size=100, uncased=True, allow_fewer=True)
    assert same.fingerprint == built.fingerprint
    with pytest.raises(TypeError, match="found sise, expected some of "):
        bmtools.vocab.build_vocab(RECORDS, sise=100)
    more = VocabularyConfig(size=len(built.tokenizer) + 100, allow_fewer=True)
    larger = bmtools.vocab.build_vocab([{"text": "aritmia, aritmia ventricolare"}] * 9, more,
                                       extend=str(tmp_path / "tok"))
    assert larger.results["kept_tokens"] == len(built.tokenizer) < len(larger.tokenizer)
    lines = list(bmtools.vocab.compare_vocab({"old": tmp_path / "tok"}, RECORDS))
    assert [line["scope"] for line in lines] == ["text"]
    with pytest.raises(BmtoolsError, match="or overwrite to replace it"):
        bmtools.vocab.build_vocab(RECORDS, config, tmp_path / "tok")
    with pytest.raises(DataError, match="size: found 5000, but the text supports"):
        bmtools.vocab.build_vocab(RECORDS, VocabularyConfig(size=5_000))


def test_a_vocabulary_is_built_without_torch(tmp_path: Path) -> None:
    """Importing torch takes more memory and nearly as much time as training on 20 MB."""
    code = ("import sys\nfrom bmtools.vocab import build_vocab\n"
            f"build_vocab({RECORDS}, output=sys.argv[1], size=100, allow_fewer=True)\n"
            "assert not {'torch', 'transformers'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "tok")], check=True)


def sampled(texts: list[str], max_bytes: int, seed: int = 0) -> list[str]:
    return list(DocumentSample(max_bytes, seed).add(texts))


def test_documents_that_fit_are_kept_in_order() -> None:
    texts = ["il cuore", "è", "", "\u03b2"]
    sample = DocumentSample(1_000, 0)
    assert list(sample.add(texts)) == texts
    assert sample.summary() == {"documents": 4, "total_documents": 4, "bytes": 12,
                                "total_bytes": 12}
    passed = DocumentSample(10, 0)
    assert list(passed.passed(texts)) == texts
    assert passed.summary() == sample.summary()


def test_the_lowest_keys_are_sampled() -> None:
    texts = [f"{number:04}" for number in range(500)]
    sample = DocumentSample(400, 0)
    ranked = sorted(range(500), key=lambda number: random_key(0, number))
    assert [int(text) for text in sample.add(texts)] == sorted(ranked[:100])
    assert sample.summary() == {"documents": 100, "total_documents": 500, "bytes": 400,
                                "total_bytes": 2_000}


def test_sample_depends_on_the_seed_and_not_on_batches() -> None:
    texts = ["x" * (number % 9 + 1) for number in range(300)]
    bit_by_bit = DocumentSample(200, 0)
    for start in range(0, 300, 7):
        bit_by_bit.add(texts[start:start + 7])
    assert list(bit_by_bit.add([])) == sampled(texts, 200) != sampled(texts, 200, seed=1)


def test_documents_larger_than_the_limit_are_skipped() -> None:
    texts = [f"{number:04}" for number in range(50)]
    for place in (0, 25, 50):
        found = sampled([*texts[:place], "x" * 101, *texts[place:]], 100)
        assert len(found) == 25 and "x" * 101 not in found


def test_every_document_has_the_same_chance() -> None:
    texts = [f"{number:04}" for number in range(20)]
    found = Counter(text for seed in range(2_000) for text in sampled(texts, 20, seed))
    assert sum(found.values()) == 10_000
    # Standard deviation of each count: square root of 2,000 x 1/4 x 3/4.
    assert all(abs(found[text] - 500) < 4.5 * 19.4 for text in texts)


def test_documents_are_not_kept_in_memory() -> None:
    def texts() -> object:
        return ("x" * 10_000 + str(number) for number in range(3_000))

    with temporary_file() as file:
        tracemalloc.start()
        sample = DocumentSample(10_000_000, 0, file)
        sizes = sum(map(len, sample.add(texts())))  # type: ignore[arg-type]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert sample.total_bytes > 30_000_000
    assert 9_900_000 < sample.sampled_bytes == sizes <= 10_000_000
    assert peak < 2_000_000
