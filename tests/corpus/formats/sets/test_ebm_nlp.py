"""EBM-NLP's original files, whose layers overlap."""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.ebm_nlp import ebm_nlp_records
from bmtools.errors import DataError, RecordError
from bmtools.records import check
from bmtools.tasks.metrics.samples import measure

TOKENS = "Insulin for diabetic patients on insulin . Glucose fell ."
LAYERS = {"participants": "0 0 1 1 1 1 0 0 0 0", "interventions": "1 0 0 0 0 1 0 0 0 0",
          "outcomes": "0 0 0 0 0 0 0 3 0 0"}


def corpus(folder: Path, part: str = "train", document: str = "12", separator: str = "\n",
           joint: str = ".", **layers: str) -> str:
    """Write the files of a document as in release 2.00, or as in 1.00 with other separators."""
    root = folder / "ebm_nlp"
    annotations = root / "annotations/aggregated/starting_spans"
    files = {root / f"documents/{document}.tokens": TOKENS.replace(" ", separator),
             root / f"documents/{document}.text": TOKENS,
             root / f"annotations/individual/phase_1/outcomes/{part}/{document}.A1.ann": "1"}
    for layer, labels in (LAYERS | layers).items():
        files[annotations / layer / part / f"{document}{joint}AGGREGATED.ann"] = labels.replace(
            " ", "," if separator == " " else "\n")
    for path, content in files.items():
        if content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}\n")
    return str(root)


@pytest.mark.parametrize(("separator", "joint"), [("\n", "."), (" ", "_")])
def test_layers_overlap(tmp_path: Path, separator: str, joint: str) -> None:
    counts: Counter[str] = Counter()
    name = corpus(tmp_path, separator=separator, joint=joint)
    first, second = ebm_nlp_records([name], split="train", counts=counts)
    assert first["text"] == "Insulin for diabetic patients on insulin ."
    assert [(one["text"], one["type"]) for one in first["entities"]] == [
        ("Insulin", "INT"), ("diabetic patients on insulin", "PAR"), ("insulin", "INT")]
    assert second == {"id": "12-s2", "text": "Glucose fell .", "meta": {"document": "12"},
                      "entities": [{"start": 0, "end": 7, "type": "OUT", "text": "Glucose"}]}
    assert +counts == {"documents": 1, "words of elements": 6, "words of several elements": 1}
    for record in (first, second):
        check(record)
    # The authors' script also counts words for each element.
    scores, _ = measure("pico", [first, second], [first, second])
    assert (scores["macro_f1"], scores["support"]) == (1, 7)


def test_the_archive_equals_the_folder(tmp_path: Path) -> None:
    name = corpus(tmp_path)
    with tarfile.open(tmp_path / "ebm.tar.gz", "w:gz") as packed:
        packed.add(name, "ebm_nlp_2_00")
    assert list(ebm_nlp_records([str(tmp_path / "ebm.tar.gz")], split="train")) == \
        list(ebm_nlp_records([name], split="train"))


def test_parts_are_selected_and_missing_layers_counted(tmp_path: Path) -> None:
    corpus(tmp_path)
    corpus(tmp_path, "train", "13")
    name = corpus(tmp_path, "test/gold", "13", outcomes="")
    counts: Counter[str] = Counter()
    train = list(ebm_nlp_records([name], split="train", counts=counts))
    assert {record["meta"]["document"] for record in train} == {"12"}
    assert counts["documents of test/gold left out"] == 1
    gold = list(ebm_nlp_records([name], split="test/gold", counts=counts))
    assert [record["id"] for record in gold] == ["13-s1", "13-s2"]
    assert counts["documents without a layer"] == 1
    with pytest.raises(DataError, match=r"found 2 documents and 0 with labels of test/crowd"):
        list(ebm_nlp_records([name], split="test/crowd"))


def test_labels_that_do_not_fit_the_tokens_are_rejected(tmp_path: Path) -> None:
    corpus(tmp_path)
    name = corpus(tmp_path, document="13", participants="1 0")
    faults: list[RecordError] = []
    found = list(ebm_nlp_records([name], split="train", reject=faults.append))
    assert {record["meta"]["document"] for record in found} == {"12"}
    assert str(faults[0]) == (f"{name} (13): found 10 tokens and 2 labels of PAR, 10 labels "
                              "of INT, 10 labels of OUT, expected the same number of each")
