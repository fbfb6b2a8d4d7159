"""Sets in Spanish, French, German and other languages, each in the layout that its authors publish.

The sentences are made here; names of files, columns and types are those of the sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Make = Callable[[Mapping[str, str]], Path]
PHARMACONER = "S0004-06142005000500011-1"


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Write files below the working directory."""
    monkeypatch.chdir(tmp_path)

    def write(files: Mapping[str, str]) -> Path:
        for name, content in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content.encode())
        return tmp_path

    return write


@pytest.fixture
def imported(run: Callable[..., Any]) -> Callable[..., list[dict[str, Any]]]:
    """Import files and return the records."""

    def call(*arguments: str) -> list[dict[str, Any]]:
        found = run("import", *arguments)
        assert found.code == 0, found.err
        return list(found.records)

    return call


def mentions(record: Mapping[str, Any], *keys: str) -> list[tuple[str, ...]]:
    return [tuple(entity.get(key, "") for key in ("type", "text", *keys))
            for entity in record["entities"]]


def test_pharmaconer(make: Make, imported) -> None:
    """Subtrack 1 is BRAT; subtrack 2 has a file for each document, `<null>` in some."""
    set_ = "pharmaconer/train-set_1.1/train"
    make({f"{set_}/subtrack1/{PHARMACONER}.txt": "Glucosa y GOT normales.\n",
          f"{set_}/subtrack1/{PHARMACONER}.ann": "T1\tNORMALIZABLES 0 7\tGlucosa\n"
                                                 "T2\tPROTEINAS 10 13\tGOT\n",
          f"{set_}/subtrack1/S1.txt": "Sin tratamiento.", f"{set_}/subtrack1/S1.ann": "",
          f"{set_}/subtrack2/{PHARMACONER}.tsv": f"{PHARMACONER}\t67079006\n"
                                                 f"{PHARMACONER}\t26091008\n",
          f"{set_}/subtrack2/S1.tsv": "S1\t<null>\n"})
    first, second = imported("brat", f"{set_}/subtrack1", *(
        f"--labels={set_}/subtrack2/{name}.tsv" for name in (PHARMACONER, "S1")))
    assert mentions(first) == [("NORMALIZABLES", "Glucosa"), ("PROTEINAS", "GOT")]
    assert (first["labels"], second["labels"]) == (["67079006", "26091008"], [])


def test_cantemist(make: Make, imported, run) -> None:
    """NORM has the code in a note; CODING lists documents, those without a code not."""
    set_ = "cantemist/train-set"
    make({f"{set_}/cantemist-norm/cc_onco1.txt": "Carcinoma microcítico, M0.",
          f"{set_}/cantemist-norm/cc_onco1.ann":
              "T1\tMORFOLOGIA_NEOPLASIA 0 21\tCarcinoma microcítico\n"
              "#1\tAnnotatorNotes T1\t8041/3\n"
              "T2\tMORFOLOGIA_NEOPLASIA 23 25\tM0\n#2\tAnnotatorNotes T2\tsin revisar 2\n",
          f"{set_}/cantemist-norm/cc_onco2.txt": "Sin datos.",
          f"{set_}/cantemist-coding/train-coding.tsv":
              "file\tcode\ncc_onco1\t8041/3\ncc_onco1\t8000/6\ncc_onco1\t8041/3\ncc_onco9\t1\n"})
    arguments = ("brat", f"{set_}/cantemist-norm", "--labels",
                 f"{set_}/cantemist-coding/train-coding.tsv")
    first, second = imported(*arguments)
    assert mentions(first, "identifier") == [
        ("MORFOLOGIA_NEOPLASIA", "Carcinoma microcítico", "8041/3"),
        ("MORFOLOGIA_NEOPLASIA", "M0", "")]
    assert (first["labels"], second["labels"]) == (["8041/3", "8000/6"], [])
    assert len(first["meta"]["brat"]) == 2
    assert "documents with labels that have no text: 1" in run("import", *arguments).err
    make({"codes.tsv": "cc_onco1 8041/3\n"})
    failed = run("import", "brat", f"{set_}/cantemist-norm", "--labels", "codes.tsv")
    assert "codes.tsv:1: found 'cc_onco1 8041/3', expected a document and its label" in failed.err


@pytest.mark.parametrize(("language", "text"), [
    ("es", "Fiebre alta"), ("en", "High fever"), ("nl", "Hoge koorts"), ("it", "Febbre alta"),
    ("ro", "Febră mare"), ("sv", "Hög feber"), ("cz", "Vysoká horečka")])
def test_multiclinai(make: Make, imported, language: str, text: str) -> None:
    """Texts and annotations are in separate folders, next to the same annotations as a table."""
    name = f"MultiClinNER-{language}-train-symptom"
    set_ = f"MultiClinNER/MultiClinNER-{language}/MultiClinNER-{language}-train/{name}"
    make({f"{set_}/txt/{name}-1.txt": f"{text}.\r\n",
          f"{set_}/ann/{name}-1.ann": f"T1\tSYMPTOM 0 {len(text)}\t{text}\n",
          f"{set_}/tsv/{name}.tsv": "filename\tlabel\tstart_span\tend_span\ttext\n"})
    for paths in ([set_], [f"{set_}/ann", f"{set_}/txt"]):
        [record] = imported("brat", *paths)
        assert (record["id"], mentions(record)) == (f"{name}-1", [("SYMPTOM", text)])


def test_bronco(make: Make, imported, run) -> None:
    """BRAT is in two folders, with codes as normalisations and negation as attributes."""
    make({"BRONCO150/textFiles/randomSentSet1.txt": "Kein HCC .\nSorafenib 400 mg .\n",
          "BRONCO150/bratFiles/randomSentSet1.ann":
              "T1\tDIAGNOSIS 5 8\tHCC\nN1\tReference T1 ICD10GM2017:C22.0\tLeberzellkarzinom\n"
              "A1\tLevelOfTruth T1 negative\nT2\tMEDICATION 11 20\tSorafenib\n",
          "BRONCO150/conllIOBTags/randomSentSet1.CONLL":
              "Kein\tPIAT\tO\nHCC\tNN\tB-DIAG\n.\t$.\tO\n\nSorafenib\tNN\tB-MED\n\n"})
    [record] = imported("brat", "BRONCO150")
    assert mentions(record, "identifier") == [("DIAGNOSIS", "HCC", "ICD10GM2017:C22.0"),
                                              ("MEDICATION", "Sorafenib", "")]
    assert "A1\tLevelOfTruth T1 negative" in record["meta"]["brat"]
    first, second = imported("conll", "BRONCO150/conllIOBTags/randomSentSet1.CONLL")
    assert [*mentions(first), *mentions(second)] == [("DIAG", "HCC"), ("MED", "Sorafenib")]
    failed = run("import", "brat", "BRONCO150/textFiles", "BRONCO150/bratFiles")
    assert failed.code == 1
    assert "if the texts are in another folder, name that folder after this one" in failed.err
    make({"curated/randomSentSet1.ann": "T1\tDIAGNOSIS 5 8\tHCC\n"})
    failed = run("import", "brat", "BRONCO150/bratFiles", "curated")
    assert "found annotations of the name 'randomSentSet1' again" in failed.err


def test_quaero_and_deft_2021(make: Make, imported) -> None:
    """QUAERO's notes name several concepts; DEFT's classes name .ann files and a mention."""
    make({"QUAERO_FrenchMed/corpus/train/EMEA/1.txt": "Patients maniaques",
          "QUAERO_FrenchMed/corpus/train/EMEA/1.ann":
              "T1\tLIVB 0 8\tPatients\n#1\tAnnotatorNotes T1\tC0030705\n"
              "T2\tDISO 9 18\tmaniaques\n#2\tAnnotatorNotes T2\tC0564408+C0338831\n",
          "DEFT-cas-cliniques/filepdf-1-cas.txt": "Un abcès de la peau.",
          "DEFT-cas-cliniques/filepdf-1-cas.ann": "T1\tpathologie 3 8\tabcès\n",
          "evaluations/ref-train-deft2021.txt": "filepdf-1-cas.ann\tinfections\tabcès\n"
                                                "filepdf-1-cas.ann\tpeau\tabcès de la peau\n"})
    [record] = imported("brat", "QUAERO_FrenchMed/corpus/train/EMEA")
    assert mentions(record, "identifier") == [("LIVB", "Patients", "C0030705"),
                                              ("DISO", "maniaques", "C0564408|C0338831")]
    [record] = imported("brat", "DEFT-cas-cliniques", "--labels",
                        "evaluations/ref-train-deft2021.txt")
    assert (record["labels"], mentions(record)) == (["infections", "peau"],
                                                    [("pathologie", "abcès")])
