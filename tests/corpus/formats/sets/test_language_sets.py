"""Sets in Spanish, French, German and other languages, each in its published layout.

The sentences are invented. Names of files, columns and types are the real ones.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Make = Callable[[Mapping[str, str]], Path]
DOCS = Path(__file__).parents[4] / "docs/sets.md"
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


def test_pharmaconer_is_imported(make: Make, imported) -> None:
    """Subtrack 1 is BRAT. Subtrack 2 has a file for each document, with `<null>` in some."""
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


def test_cantemist_is_imported(make: Make, imported, run) -> None:
    """NORM has the code in a note. CODING lists only documents with a code."""
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
    assert "documents with labels but without text: 1" in run("import", *arguments).err
    make({"codes.tsv": "cc_onco1 8041/3\n"})
    failed = run("import", "brat", f"{set_}/cantemist-norm", "--labels", "codes.tsv")
    assert "codes.tsv:1: found 'cc_onco1 8041/3', expected a document, a tab and its" in failed.err


@pytest.mark.parametrize(("language", "text"), [
    ("es", "Fiebre alta"), ("en", "High fever"), ("nl", "Hoge koorts"), ("it", "Febbre alta"),
    ("ro", "Febră mare"), ("sv", "Hög feber"), ("cz", "Vysoká horečka")])
def test_multiclinai_is_imported(make: Make, imported, language: str, text: str) -> None:
    """Texts and annotations are in separate folders, next to the same annotations as a table."""
    name = f"MultiClinNER-{language}-train-symptom"
    set_ = f"MultiClinNER/MultiClinNER-{language}/MultiClinNER-{language}-train/{name}"
    make({f"{set_}/txt/{name}-1.txt": f"{text}.\r\n",
          f"{set_}/ann/{name}-1.ann": f"T1\tSYMPTOM 0 {len(text)}\t{text}\n",
          f"{set_}/tsv/{name}.tsv": "filename\tlabel\tstart_span\tend_span\ttext\n"})
    for paths in ([set_], [f"{set_}/ann", f"{set_}/txt"]):
        [record] = imported("brat", *paths)
        assert (record["id"], mentions(record)) == (f"{name}-1", [("SYMPTOM", text)])


def test_bronco_is_imported(make: Make, imported, run) -> None:
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


def test_quaero_and_deft_2021_are_imported(make: Make, imported) -> None:
    """QUAERO's notes contain several concepts. DEFT's classes contain .ann files and a mention."""
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


def test_ggponc_is_imported(make: Make, imported, run) -> None:
    """Three editions: BigBIO's JSON, JSON Lines of tokens and tags, and CoNLL."""
    entity = {"type": "Diagnosis_or_Pathology", "text": ["Melanom"], "offsets": [[12, 19]]}
    parts = {"type": "Therapeutic", "text": ["Chemo-", "therapie"], "offsets": [[22, 28], [42, 50]]}
    document = {
        "document_id": "01_melanom_0001.tsv", "entities": [entity, parts], "passages": [
            {"id": "0", "type": "sentence", "text": "Das maligne Melanom.", "offsets": [[0, 20]]},
            {"id": "1", "type": "sentence", "text": "Chemo- oder Strahlentherapie",
             "offsets": [[22, 50]]}]}
    tokens = {"fname": "a.tsv", "sentence_id": 1, "tokens": ["Malignes", "Melanom"]}
    tags = ["O", "B-Diagnosis_or_Pathology"]
    make({"json/fine/long/all.json": json.dumps([document], indent=1),
          "huggingface/train_fine_long.json": json.dumps({**tokens, "tags": tags}) + "\n",
          "conll/train_fine_long.conll": "Malignes\tO\nMelanom\tB-Diagnosis_or_Pathology\n\n",
          "splits.csv": "file,split\n01_melanom_0001.txt,train\n"})
    [record] = imported("jsonl", "json/fine/long/all.json", "--lang", "de")
    assert record["id"] == "01_melanom_0001.tsv"
    assert record["text"] == "Das maligne Melanom.  Chemo- oder Strahlentherapie"
    assert mentions(record) == [("Diagnosis_or_Pathology", "Melanom"),
                                ("Therapeutic", "Chemo- therapie")]
    [record] = imported("jsonl", "huggingface/train_fine_long.json")
    assert (record["text"], mentions(record)) == (
        "Malignes Melanom", [("Diagnosis_or_Pathology", "Melanom")])
    [again] = imported("conll", "conll/train_fine_long.conll")
    assert again["entities"] == record["entities"]
    make({"bad.json": json.dumps([{**document, "entities": [{**entity, "offsets": []}]}])})
    failed = run("import", "jsonl", "bad.json")
    assert failed.code == 1
    assert "bad.json (1): found a passage or an entity without offsets, expected" in failed.err
    document["passages"][0]["offsets"] = [[10**12, 10**12 + 20]]
    make({"bad.json": json.dumps([document])})
    assert "bad.json (1): found a record of " in run("import", "jsonl", "bad.json").err


def test_bigbio_relations_and_concepts_are_imported(make: Make, imported) -> None:
    """Documents in BigBIO's schema, in Parquet on the Hub, contain the ends of relations."""
    ends = [{"id": f"1_{name}", "type": kind, "text": [text], "offsets": [[start, start + 4]],
             "normalized": [{"db_name": "MESH", "db_id": code}]} for name, kind, text, start, code
            in (("T1", "Chemical", "Iron", 0, "D007501"), ("T2", "Disease", "rash", 10, "D005076"))]
    make({"train.jsonl": json.dumps({
        "id": "0", "document_id": "227508", "entities": ends, "events": [], "passages": [
            {"id": "0", "type": "title", "text": ["Iron cures rash"], "offsets": [[0, 15]]}],
        "relations": [{"id": "r", "type": "CID", "arg1_id": "1_T1", "arg2_id": "1_T2",
                       "normalized": []}]}) + "\n"})
    [record] = imported("jsonl", "train.jsonl")
    assert mentions(record, "identifier", "start") == [("Chemical", "Iron", "D007501", 0),
                                                       ("Disease", "rash", "D005076", 11)]
    assert record["relations"] == [{"head": "1_T1", "tail": "1_T2", "type": "CID"}]


def test_frenchmedmcqa_is_imported(make: Make, imported, run) -> None:
    """A question has one or several answers. The Hub's edition has a column for each."""
    answers = {"a": "Fer", "b": "Zinc", "c": "Or", "d": "Cuivre", "e": "Iode"}
    question = {"id": "q1", "question": "Lesquels ?", "correct_answers": ["a", "d"],
                "subject_name": "pharmacie", "type": "multiple"}
    make({"train.json": json.dumps([{**question, "answers": answers}]),
          "hub.jsonl": json.dumps({**question, **{
              f"answer_{key}": value for key, value in answers.items()}}) + "\n"})
    [record] = imported("jsonl", "train.json")
    assert record["text"] == "Lesquels ?\n(a) Fer\n(b) Zinc\n(c) Or\n(d) Cuivre\n(e) Iode"
    assert (record["labels"], record["label"]) == (["a", "d"], "2")
    assert imported("jsonl", "hub.jsonl") == [record]
    make({"bad.json": json.dumps([{**question, "answers": ["Fer"]}])})
    failed = run("import", "jsonl", "bad.json")
    assert "bad.json (1): found correct_answers that is not a list" in failed.err


def test_sets_of_texts_and_classes_are_imported(make: Make, imported, run) -> None:
    """MorFITT is a table, DiaMED is JSON. PxCorpus has intents and slots in separate files."""
    case = {"identifier": "c1", "clinical_case": "Toux.", "icd-10": "J00-J99  Diseases",
            "title": "Cas"}
    make({"train.tsv": "identifier\tabstract\tspecialities\n"
                       "PMC1\tUn \"virus\".\tvirology|genetics\n",
          "splits/train.json": json.dumps([case]),
          "intents.tsv": "paracétamol matin\tmedical_prescription\n",
          "PxSLU_conll.txt": "paracétamol\tB-inn\nmatin\tB-rhythm_tdte\n\n"})
    [record] = imported("table", "train.tsv", "--columns",
                        "id=identifier,text=abstract,labels=specialities",
                        "--set", "labels_separator=|")
    assert (record["id"], record["labels"]) == ("PMC1", ["virology", "genetics"])
    [record] = imported("jsonl", "splits/train.json", "--columns",
                        "id=identifier,text=clinical_case,label=icd-10")
    assert record == {"id": "c1", "text": "Toux.", "label": "J00-J99  Diseases", "title": "Cas"}
    [record] = imported("table", "intents.tsv", "--columns", "text=1,label=2",
                        "--set", "header=no")
    assert record["label"] == "medical_prescription"
    [record] = imported("conll", "PxSLU_conll.txt")
    assert mentions(record) == [("inn", "paracétamol"), ("rhythm_tdte", "matin")]
    failed = run("import", "jsonl", "splits/train.json", "--columns",
                 "text=clinical_case,label=icd")
    assert "key 'icd': found no such key, expected the label; name its key" in failed.err


def test_pairs_from_the_hub_are_imported(make: Make, imported) -> None:
    """CLISTER and DEFT-2020 have columns of pairs."""
    make({"clister.jsonl": json.dumps({"id": "1", "document_1_id": "d", "text_1": "Toux.",
                                       "text_2": "Il tousse.", "label": 4.5}) + "\n"})
    [record] = imported("jsonl", "clister.jsonl", "--columns",
                        "text=text_1,text_pair=text_2,score=label,document=document_1_id")
    assert record == {"id": "1", "text": "Toux.", "text_pair": "Il tousse.", "score": 4.5,
                      "meta": {"document": "d"}}


def test_deft_2020_is_imported(make: Make, imported, run) -> None:
    """XML contains pairs with a mean score, and sets of three targets."""
    make({"t1-train.xml": '<?xml version="1.0" encoding="UTF-8"?>\n<doc>\n'
                          '<paire id="7" vote="4.0" moy="4.5" scores="4,5"><source>Toux &amp; '
                          'rhume.</source>\n<cible>Il tousse.</cible></paire>\n'
                          '<paire id="8" moy="0"><source>Fer.</source><cible>Or.</cible></paire>'
                          '</doc>',
          "t2-train.xml": '<doc><ensemble id="3" cible="2"><source>Toux.</source>'
                          '<cible num="1">Or.</cible><cible num="2">Il tousse.</cible>'
                          '<cible num="3">Fer.</cible></ensemble></doc>'})
    first, second = imported("table", "t1-train.xml", "--set", "row=doc/paire", "--columns",
                             "id=@id,text=source,text_pair=cible,score=@moy")
    assert first == {"id": "7", "text": "Toux & rhume.", "text_pair": "Il tousse.", "score": 4.5,
                     "meta": {"@vote": "4.0", "@scores": "4,5"}}
    assert (second["id"], second["score"], "meta" in second) == ("8", 0, False)
    [record] = imported("table", "t2-train.xml", "--set", "row=doc/ensemble", "--columns",
                        "id=@id,text=source,text_pair=cible,label=@cible")
    assert record == {"id": "3", "text": "Toux.", "text_pair": "Or.\nIl tousse.\nFer.",
                      "label": "2"}
    for setting, message in (("row=doc", "row: found 'doc', expected ROOT/ELEMENT"),
                             ("row=paires/paire", "found the root element <doc>, expected")):
        failed = run("import", "table", "t1-train.xml", "--set", setting)
        assert failed.code in (1, 2) and message in failed.err, failed.err
    failed = run("import", "table", "t1-train.xml", "--set", "row=doc/paire")
    assert "t1-train.xml:3: found no column 'text', expected one of " in failed.err


CAS = ("1\t0\tPas\tpas\tADV\tpas\tB_cue_neg\n1\t1\tde\tde\tPRP\t_\tB_scope_neg\n"
       "1\t2\tfièvre\tfièvre\tNOM\t_\tI_scope_neg\n1\t3\t.\t.\tSENT\t_\t_\n\n"
       "2\t0\tToux\ttoux\tNOM\t***\n2\t1\t.\t.\tSENT\t***\n\n")


def test_cas_and_essai_are_imported(make: Make, imported, run) -> None:
    """Columns are document, word, token, lemma and part of speech; `***` means no negation."""
    make({"CAS_neg.txt": CAS, "hub.jsonl": json.dumps({
        "id": "1", "tokens": ["Pas", "de", "fièvre"],
        "ner_tags": ["B_cue_neg", "B_scope_neg", "I_scope_neg"]}) + "\n" + json.dumps({
            "id": "2", "tokens": ["Toux", "."], "pos_tags": ["B-NOM", "B-SENT"]}) + "\n"})
    first, second = imported("conll", "CAS_neg.txt", "--set", "token_column=3")
    assert mentions(first) == [("cue_neg", "Pas"), ("scope_neg", "de fièvre")]
    assert (second["text"], second["entities"]) == ("Toux .", [])
    assert "tags _ and *** read as O: 3" in run(
        "import", "conll", "CAS_neg.txt", "--set", "token_column=3").err
    first, second = imported("jsonl", "hub.jsonl")
    assert mentions(first) == [("cue_neg", "Pas"), ("scope_neg", "de fièvre")]
    assert mentions(second) == [("NOM", "Toux"), ("SENT", ".")]


def test_commands_in_the_docs_run(make: Make, warm_bmtools: Path, tmp_path: Path) -> None:
    """Run the commands of docs/sets.md with files of each set."""
    records = [json.dumps({"id": name, "text": name}) for name in (
        "filepdf-1-cas", "filepdf-2-cas", "filepdf-3-cas", "a.tsv", "b.tsv")]
    make({"subtrack1/S1.txt": "Hierro.", "subtrack1/S2.txt": "Zinc.",
          "subtrack2/S1.tsv": "S1\t1\n", "subtrack2/S2.tsv": "S2\t<null>\n",
          "distribution-corpus.txt": "filepdf-1-cas.txt\tx\ty\ttrain 2021\nfilepdf-2-cas.txt\tx\t"
                                     "y\ttest 2021\nfilepdf-3-cas.txt\tx\ty\ttrain 2020\n",
          "deft.jsonl": "\n".join(records[:3]), "ggponc.jsonl": "\n".join(records[3:]),
          "splits.csv": "file,split\na.txt,train\nb.txt,test\n", "CAS_neg.txt": CAS,
          "train.tsv": "identifier\tabstract\tspecialities\n1\tFer.\tvirology|genetics\n",
          "seq.in": "paracétamol matin\nnon\n", "seq.label": "medical_prescription\nnegate\n",
          "t2-train.xml": '<doc><ensemble id="3" cible="2"><source>Toux.</source><cible num="1">Or.'
                          '</cible><cible num="2">Fer.</cible></ensemble></doc>',
          "id_to_sentence_train.json": json.dumps({"cas_1": "Toux.", "cas_2": "Il tousse."}),
          "train.csv": "id_1\tid_2\tsim\ncas_1_a\tcas_2_b\t4.5\n",
          "Medline_GSC_fr_man.xml":
              '<Corpus><document id="d"><unit id="d.u1"><text>Toux aiguë</text><e id="e1" '
              'offset="0" len="4" grp="DISO" cui="C0010200"/></unit></document></Corpus>'})
    block = DOCS.read_text("utf-8").partition("More commands:\n\n```sh\n")[2].partition("```")[0]
    subprocess.run(["bash", "-euo", "pipefail", "-c", block], check=True, cwd=tmp_path,
                   env={**os.environ, "PATH": f"{warm_bmtools}:{os.environ['PATH']}"})
    made = {path.stem: [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            for path in tmp_path.rglob("*.jsonl")}
    assert [one["labels"] for one in made["pharmaconer"]] == [["1"], []]
    assert {path.parent.name: path.read_text() for path in tmp_path.glob("*/split.tsv")} == {
        "deft": "filepdf-1-cas\ttrain\nfilepdf-2-cas\ttest\n",
        "ggponc": "a.tsv\ttrain\nb.tsv\ttest\n"}
    assert made["morfitt"][0]["labels"] == ["virology", "genetics"]
    assert [one["label"] for one in made["intents"]] == ["medical_prescription", "negate"]
    assert mentions(made["pos"][1]) == [("NOM", "Toux"), ("SENT", ".")]
    assert [(one["text"], one["label"]) for one in made["negation"]] == [
        ("Pas de fièvre .", "negation"), ("Toux .", "neutral")]
    assert (made["deft-2020-sets"][0]["text_pair"], made["deft-2020-sets"][0]["label"]) == (
        "Or.\nFer.", "2")
    [pair] = made["clister"]
    assert (pair["text"], pair["text_pair"], pair["score"]) == ("Toux.", "Il tousse.", 4.5)
    assert made["mantra"][0]["entities"] == [{"type": "DISO", "start": 0, "end": 4}]
