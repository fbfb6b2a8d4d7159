"""Scores of translations, compared with sacrebleu's own command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bmtools.errors import DataError, RecordError
from bmtools.translation import score_translation

pytest.importorskip("sacrebleu")
Write = Callable[..., Path]
REFERENCES = ["Il paziente ha la febbre da 3 giorni.", "Nessun paziente è morto.",
              "La dose era di 2,5 mg al giorno.", "Il farmaco riduce il dolore.", "La febbre."]
FIRST = ["Il paziente ha febbre per 3 giorni.", "Nessun paziente morì.",
         "La dose era 25 mg al giorno.", "Il farmaco riduce dolore.", "Febbre."]
SECOND = ["Paziente febbre 3 giorno.", "Nessuno è morto.", "Dose era 2,5 mg ogni giorno.",
          "Il farmaco diminuisce i dolori.", "La febbre."]
SOURCES = ["The patient has had fever for 3 days.", "No patient died.",
           "The dose was 2.5 mg per day.", "The drug reduces pain.", "Fever."]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Files of the texts; the records of the first system have another order."""
    found = {}
    for name, texts in (("references", REFERENCES), ("first", FIRST), ("second", SECOND),
                        ("sources", SOURCES)):
        records = [{"id": str(number), "text": text, "lang": "en" if name == "sources" else "it"}
                   for number, text in enumerate(texts)]
        found[name] = tmp_path / f"{name}.jsonl"
        found[name].write_text("".join(f"{json.dumps(one)}\n" for one in
                                       (reversed(records) if name == "first" else records)))
    return found


def test_scores_equal_sacrebleu(files: dict[str, Path]) -> None:
    """Expected values: `sacrebleu references.txt -i first.txt -m bleu chrf ter --confidence -w 4`.
    """
    [by_ids] = score_translation(str(files["first"]), str(files["references"]))
    for key, score, mean, spread in (("bleu", 28.4110, 28.4178, 9.9355),
                                     ("chrf", 71.6521, 71.4658, 4.5427),
                                     ("ter", 29.6296, 30.2750, 8.8235)):
        assert by_ids[key] == score
        assert by_ids["intervals"][key] == pytest.approx([mean - spread, mean + spread], abs=2e-4)
    assert by_ids["signatures"]["bleu"].startswith(
        "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:2.")
    length = len("".join(FIRST)) / len("".join(REFERENCES))
    assert by_ids["length_ratio"] == pytest.approx(length, abs=1e-4)


def test_intervals_stay_within_the_range_of_their_score(tmp_path: Path) -> None:
    """One of twelve translations is right, so the distribution of the resamples is skewed."""
    texts = [f"La terapia con aspirina riduce il dolore numero {number}." for number in range(12)]
    for name, own in (("gold", texts), ("poor", [*texts[:1], *["xxx qqq zzz www"] * 11]),
                      ("good", [*["xxx qqq zzz www"], *texts[1:]])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(
            {"id": str(number), "text": text, "lang": "it"}) + "\n"
            for number, text in enumerate(own)))
    poor, good = (score_translation(f"{tmp_path}/{name}.jsonl", f"{tmp_path}/gold.jsonl")[0]
                  for name in ("poor", "good"))
    assert [poor["intervals"][key][0] for key in ("bleu", "chrf")] == [0, 0]
    assert good["intervals"]["bleu"][1] <= 100 and good["intervals"]["ter"][0] >= 0
    assert poor["ter"] <= poor["intervals"]["ter"][1]


def test_p_values_equal_sacrebleu(files: dict[str, Path]) -> None:
    """Expected values: the same command with `-i first.txt second.txt --paired-bs`."""
    first, second, difference = score_translation(
        str(files["second"]), str(files["references"]), baseline=str(files["first"]))
    assert (first["model"], second["model"]) == ("first", "second")
    assert [second[key] for key in ("bleu", "chrf", "ter")] == [15.0841, 49.5336, 48.1481]
    assert difference["compared"] == ["second", "first"]
    assert difference["difference"]["chrf"] == pytest.approx(49.5336 - 71.6521)
    assert {key: round(p, 4) for key, p in difference["p"].items()} == {
        "bleu": 0.0659, "chrf": 0.0020, "ter": 0.0130}


def test_perfect_translations_have_perfect_scores(files: dict[str, Path]) -> None:
    references = str(files["references"])
    [line] = score_translation(references, references)
    assert [line[key] for key in ("chrf", "bleu", "ter")] == [100, 100, 0]
    assert (line["intervals"]["chrf"], line["intervals"]["ter"]) == ([100, 100], [0, 0])


def test_kept_numbers_terms_and_flags_are_counted(files: dict[str, Path], tmp_path: Path) -> None:
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("en\tit\npain\tdolore\nfever\tfebbre\n", encoding="utf-8")
    first, second, _ = score_translation(
        str(files["second"]), str(files["references"]), str(files["sources"]),
        baseline=str(files["first"]), glossary=glossary, resamples=10)
    assert (first["numbers"], first["numbers_kept"]) == (2, 0.5)
    assert second["numbers_kept"] == 1.0
    assert (first["terms"], first["terms_kept"]) == (3, 1.0)
    assert second["terms_kept"] == pytest.approx(2 / 3, abs=1e-4)
    assert first["flagged"]["numbers"] == 1


def test_chinese_is_split_as_sacrebleu_does(write_lines: Write) -> None:
    found = write_lines("found.jsonl", {"id": "a", "text": "患者没有发烧。", "lang": "zh"})
    gold = write_lines("gold.jsonl", {"id": "a", "text": "病人没有发烧。", "lang": "zh"})
    [line] = score_translation(str(found), str(gold), resamples=10)
    assert "|tok:zh|" in line["signatures"]["bleu"]
    assert line["bleu"] > 30


def test_unequal_and_empty_files_are_errors(files: dict[str, Path], write_lines: Write) -> None:
    two = write_lines("two.jsonl", {"id": "0", "text": "Si."}, {"id": "x", "text": "No."})
    with pytest.raises(DataError, match=r"two.jsonl: found no text for 4 of 5 texts of "
                                        r".*references.jsonl \(ids '1', '2', '3', ...\)"):
        score_translation(str(two), str(files["references"]))
    with pytest.raises(DataError, match=r"references.jsonl: found no text for 1 of 1 texts"):
        score_translation(str(files["references"]), str(
            write_lines("one.jsonl", {"id": "y", "text": "No."})))
    again = write_lines("again.jsonl", {"id": "0", "text": "Si."}, {"id": "0", "text": "No."})
    with pytest.raises(RecordError, match=r"again.jsonl:2: found the id '0' again, "
                                          r"which .*again.jsonl:1 has"):
        score_translation(str(again), str(files["references"]))
    blank = write_lines("blank.jsonl", {"id": "0", "text": " "})
    with pytest.raises(ValueError, match=r"glossary: found terms.tsv, expected a file of"):
        score_translation(str(again), str(again), glossary=Path("terms.tsv"))
    with pytest.raises(DataError, match=r"blank.jsonl: found no text, expected translations"):
        score_translation(str(blank), str(blank))
