"""Terms in sentences and in translations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bmtools.errors import DataError
from bmtools.translation import translate
from bmtools.translation.engines.engine import Translation, Translator
from bmtools.translation.settings import TermConfig
from bmtools.translation.terms import ProtectedTranslator, TermFinder, has_term, load_terms


class Letters(Translator):
    """An engine that applies a function to the text, and records its sentences."""

    name = "letters"
    fingerprint = ""

    def __init__(self, change: Callable[[str], str] = str) -> None:
        self.details: dict[str, str] = {}
        self.own_counts = Counter[str]()
        self.change = change
        self.asked: list[str] = []

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        self.asked += sentences
        return [Translation(self.change(one)) for one in sentences]


def _found(finder: TermFinder, sentence: str) -> list[tuple[str, str]]:
    return [(sentence[term.start:term.end], term.target) for term in finder.find([sentence])[0]]


def test_the_longest_terms_are_found_between_words() -> None:
    finder = TermFinder({"pain": "dolore", "chest pain": "dolore toracico", "BRCA1": ""})
    assert _found(finder, "Chest pain, painful; PAIN in brca1.") == [
        ("Chest pain", "Dolore toracico"), ("PAIN", "dolore"), ("brca1", "brca1")]
    assert _found(TermFinder({"头痛": "headache"}), "患者头痛。") == [("头痛", "headache")]
    assert _found(TermFinder({}), "pain") == []
    assert has_term("Via Aerea libera", "via aerea")
    assert not has_term("vie aeree, aereato", "aerea")


def test_terms_missing_in_a_translation_are_enforced() -> None:
    engine = Letters(lambda text: text.replace("chest pain", "male").replace("No", "Nessun"))
    translator = ProtectedTranslator(
        engine, TermFinder({"chest pain": "dolore toracico", "No": "Nessun"}))
    found = translator.translate(["No chest pain.", "No fever."])
    assert [(one.text, one.flags) for one in found] == [
        ("Nessun dolore toracico.", ()), ("Nessun fever.", ())]
    assert engine.asked[2:] == ["No [0]."]
    assert translator.counts == {"terms": 3, "terms_enforced": 1}


def test_forms_that_agree_are_kept_and_plurals_are_found() -> None:
    finder = TermFinder({"chronic": "cronico", "drug": "farmaco", "therapy": "terapia",
                         "BRCA1": ""}, "en", "it")
    engine = Letters(lambda text: {"Chronic drugs.": "Malattie croniche, farmaci.",
                                   "Other therapies.": "Altre cure.",
                                   "Other [0].": "Altre [0]."}[text])
    found = ProtectedTranslator(engine, finder).translate(["Chronic drugs.", "Other therapies."])
    assert [one.text for one in found] == ["Malattie croniche, farmaci.", "Altre terapia."]
    assert _found(finder, "BRCA1s, drugged") == []


@pytest.mark.parametrize(("language", "target", "text"), [
    ("it", "dolore toracico", "i dolori toracici"), ("it", "acuto", "forma acuta"),
    ("es", "lesión crónica", "lesiones crónicas"), ("fr", "mental", "troubles mentaux"),
    ("fr", "artériel", "tension artérielle"), ("pt", "lesão", "lesões"),
    ("de", "chronisch", "bei chronischen"), ("en", "diagnosis", "diagnoses")])
def test_inflected_forms_of_a_term_are_found(
        language: str, target: str, text: str) -> None:
    assert has_term(text, target, language)
    assert not has_term(text, target)
    assert not has_term("medicinale testone", "medico", language)


def test_other_gender_is_only_found_for_long_words() -> None:
    assert _found(TermFinder({"testa": "head"}, "it", "en"), "il testo") == []
    assert _found(TermFinder({"cronico": "chronic"}, "it", "en"), "forma cronica") == [
        ("cronica", "chronic")]
    assert _found(TermFinder({"testa": "head", "teste": "witness"}, "it", "en"), "teste") == [
        ("teste", "witness")]


def test_term_that_moves_from_the_beginning_loses_its_capital() -> None:
    engine = Letters(lambda text: text.replace("[0] diseases", "malattie [0]"))
    finder = TermFinder({"chronic": "cronico"}, "en", "it")
    [found] = ProtectedTranslator(engine, finder).translate(["Chronic diseases."])
    assert found.text == "Malattie cronico."


def test_sentence_with_a_repeated_placeholder_is_flagged() -> None:
    drop = Letters(lambda text: "gene it is [0] [0]")
    translator = ProtectedTranslator(drop, TermFinder({"BRCA1": ""}))
    [found] = translator.translate(["BRCA1 it is."])
    assert (found.text, found.flags) == ("gene it is [0] [0]", ("terms",))
    assert translator.counts["terms_lost"] == 1


def test_list_without_terms_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("\n")
    with pytest.raises(DataError, match=r"names.txt: found no terms, expected one per line"):
        load_terms(TermConfig(protect=tmp_path / "names.txt"), "en", "fr")


def test_records_are_translated_with_terms(tmp_path: Path,
                                           write_lines: Callable[..., Path]) -> None:
    notes = write_lines("notes.jsonl", {"id": "a", "text": "Severe pain. BRCA1 was found."})
    (tmp_path / "terms.tsv").write_text("en\tit\nsevere pain\tdolore grave\n", encoding="utf-8")
    (tmp_path / "names.txt").write_text("BRCA1\n")
    [found] = translate(
        str(notes), "en", "it", "command", glossary=tmp_path / "terms.tsv",
        protect=tmp_path / "names.txt", command="sed -e s/.evere/forte/ -e s/pain/dolore/ "
                                                "-e s/BRCA1/gene/ -e s/was.found/trovato/")
    assert found["text"] == "Dolore grave. BRCA1 trovato."
    assert "flags" not in found["meta"]["translation"]
