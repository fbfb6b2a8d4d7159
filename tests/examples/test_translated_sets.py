"""The example that projects annotated sets into other languages, complete but at toy size."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PARTS = ("train", "dev", "test")


def copy_sentences(source: Path, target: Path, most: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    sentences = source.read_text(encoding="utf-8").split("\n\n")[:most]
    target.write_text("\n\n".join(sentences) + "\n", encoding="utf-8")


def copy_documents(source: Path, target: Path, copy_lines: Any, most: int) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        copy_lines(source / f"{part}_corpus.txt", target / f"{part}_corpus.txt", most)
        ids = {line.partition("|")[0].lstrip("\ufeff") for line in
               (target / f"{part}_corpus.txt").read_text(encoding="utf-8").splitlines()}
        name = f"{part}_annotations.txt"
        lines = (source / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (target / name).write_text("".join(
            line for line in lines if line.lstrip("\ufeff").partition("\t")[0] in ids),
            encoding="utf-8")


@pytest.mark.data
@pytest.mark.slow
def test_translated_sets(data: Path, tmp_path: Path, run_script: Any, read: Any, copy_lines: Any,
                         copy_entries: Any) -> None:
    if shutil.which("apertium") is None:
        pytest.skip("apertium is absent")
    small, out = tmp_path / "data", tmp_path / "out"
    for name in ("BC5CDR", "NCBI-disease"):
        for part in ("train", "devel", "test"):
            copy_sentences(data / f"en/ner/{name}/{part}.tsv", small / f"en/ner/{name}/{part}.tsv",
                           12)
    for name in ("BC5CDR_CDR", "NCBI_DISEASE"):
        copy_documents(data / "it/ner" / name, small / "it/ner" / name, copy_lines, 4)
    questions = small / "en/qa/bioasq/squad-answers.json"
    for folder in (questions.parent, small / "it/qa"):
        folder.mkdir(parents=True)
    shutil.copy(data / "en/qa/bioasq/squad-answers.json", questions)
    copy_entries(data / "it/qa/BioASQ_5b_splitted.json", small / "it/qa/BioASQ_5b_splitted.json",
                 20)
    copy_entries(data / "it/qa/SQuAD_it-test.json.gz", small / "it/qa/SQuAD_it-test.json.gz", 10)
    (small / "it/corpus").mkdir(parents=True)
    for name in ("native-clinical.jsonl", "native-leaflets.jsonl.gz"):
        copy_lines(data / "it/corpus" / name, small / "it/corpus" / name, 20)
    shutil.copytree(EXAMPLES / "translated-sets", tmp_path / "translated-sets",
                    ignore=shutil.ignore_patterns("out"))
    script = tmp_path / "translated-sets/run.sh"
    text = script.read_text()
    for long, short in ((r"--epochs \d+", "--epochs 1"), ("bert-4x256", "bert-1x64"),
                        (r"--size (\d+)", "--size 1000 --allow-fewer"),
                        (r'(squad-answers.json") -o', r"\1 | sed -n 1~90p >"),
                        (r"vocabulary(\S*) \d_000_000 \d+", r"vocabulary\1 4_000 24"),
                        (r'(SQuAD_it-test.json.gz") \|', r"\1 | sed -n 1~40p |")):
        text = re.sub(long, short, text)
    script.write_text(text)
    run_script(script, OUT=str(out), DATA=str(small), SEEDS="0",
               PRETRAINING="--set precision=no")
    for name in ("BC5CDR", "NCBI-disease"):
        english, italian = (read(out / f"sets/{name}/train.{lang}.jsonl") for lang in ("en", "it"))
        before, after = (sum(len(record["entities"]) for record in records)
                         for records in (english, italian))
        assert 0.8 * before <= after <= before
        for test, versions in (("it", {"it", "authors"}), ("authors", {"it", "authors"}),
                               ("es", {"es"})):
            scores = read(out / f"{name}-on-{test}.jsonl")
            assert {line["model"] for line in scores if "model" in line} == versions
    assert {line["model"] for line in read(out / "questions-on-authors.jsonl")
            if "model" in line} == {"it", "authors"}
    parts = {version: [{record["meta"]["question"] for record in read(
        out / f"sets/questions/{part}.{version}.jsonl")} for part in ("train", "dev", "test")]
        for version in ("it", "authors")}
    assert not parts["it"][0] & (parts["authors"][1] | parts["authors"][2])
    assert not parts["authors"][0] & (parts["authors"][1] | parts["authors"][2])
    answers = [answer for record in read(out / "sets/BioASQ/train.es.jsonl")
               for answer in record["answers"]]
    assert len(answers) >= 8
