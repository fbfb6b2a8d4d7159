"""Checks of translations, and further attempts at faulty translations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from bmtools.errors import BmtoolsError
from bmtools.records import Record
from bmtools.translation import translate
from bmtools.translation.audit import AuditedTranslator, Auditor
from bmtools.translation.documents import translate_records
from bmtools.translation.engines.engine import Translation, Translator
from bmtools.translation.settings import CHECKS, AuditConfig, DocumentConfig

LONG = "The patients who were treated with the drug had less pain after three months of therapy."
GOOD = "I pazienti trattati con il farmaco avevano meno dolore dopo tre mesi di terapia."


@pytest.mark.parametrize(("sentence", "text", "target", "faults"), [
    (LONG, GOOD, "it", ()),
    (LONG, "...", "it", ("empty",)),
    ("***", "***", "it", ()),
    (LONG, "I pazienti trattati.", "it", ("short",)),
    ("Fever.", "Febbre alta.", "it", ()),
    ("Fever.", f"Febbre {GOOD}", "it", ("long",)),
    (LONG, "I pazienti trattati con il farmaco farmaco farmaco avevano meno dolore dopo tre mesi.",
     "it", ("looping",)),
    (LONG, "I pazienti trattati con il farmaco avevano meno dolooooooore dopo tre mesi.", "it",
     ("looping",)),
    ("Very very very good results were seen in most of them.",
     "Sono stati visti risultati molto molto molto buoni.", "it", ()),
    (LONG, LONG, "it", ("copied", "language")),
    ("Dr. Smith, Mayo Clinic, Rochester, Minnesota, USA", "Dr. Smith, Mayo Clinic, Rochester, "
     "Minnesota, USA", "it", ()),
    (LONG, "Los pacientes tratados con el fármaco tenían menos dolor tras tres meses.", "it",
     ("language",)),
    ("The dose was 5 mg in 36 patients.", "La dose era di 5 in 63 pazienti.", "it",
     ("numbers", "units")),
])
def test_faults_are_named(sentence: str, text: str, target: str,
                          faults: tuple[str, ...]) -> None:
    pytest.importorskip("py3langid")
    assert Auditor("en", target).faults(sentence, text) == faults


def test_only_chosen_checks_run() -> None:
    assert Auditor("en", "it", ("units",)).faults("5 mg", "") == ("units",)
    assert AuditConfig("numbers, units").names == ("numbers", "units")
    assert AuditConfig("none").names == ()
    assert AuditConfig().names == tuple(CHECKS)
    with pytest.raises(ValueError, match="did you mean 'numbers'"):
        AuditConfig("number")


class Attempts(Translator):
    """An engine with different translations in each attempt."""

    name = "attempts"
    fingerprint = ""

    def __init__(self, *attempts: dict[str, Translation | str]) -> None:
        self.details: dict[str, str] = {}
        self.own_counts = Counter[str]()
        self.known = attempts
        self.attempts = len(attempts)
        self.asked: list[tuple[int, list[str]]] = []

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        self.asked.append((attempt, list(sentences)))
        found = (self.known[attempt][one] for one in sentences)
        return [Translation(one) if isinstance(one, str) else one for one in found]


def _audited(*attempts: dict[str, Translation | str]) -> tuple[AuditedTranslator, Attempts]:
    engine = Attempts(*attempts)
    return AuditedTranslator(engine, Auditor("en", "it")), engine


def test_faults_are_tried_again_and_the_best_attempt_is_kept() -> None:
    translator, engine = _audited(
        {"Give 5 mg.": "Dare.", "None.": "No.", "Take 2.5 g.": "Prendere 25.",
         "Not at all.": Translation("", fault="no end")},
        {"Give 5 mg.": "Dare 5.", "Take 2.5 g.": "Prendere 2,5 g.", "Not at all.": "Per niente."},
        {"Give 5 mg.": "Dare 5 kg."})
    found = translator.translate(["Give 5 mg.", "None.", "Take 2.5 g.", "Not at all."])
    assert [(one.text, one.flags) for one in found] == [
        ("Dare 5.", ("units",)), ("No.", ()), ("Prendere 2,5 g.", ()), ("Per niente.", ())]
    assert engine.asked[1:] == [(1, ["Give 5 mg.", "Take 2.5 g.", "Not at all."]),
                                (2, ["Give 5 mg."])]
    assert translator.counts == {"retried": 3, "mended": 2, "flagged_units": 1}


def test_more_probable_of_equal_attempts_is_kept() -> None:
    translator, _ = _audited(
        {"5": Translation("6", log_probability=-2.0)},
        {"5": Translation("7", log_probability=-1.0)},
        {"5": Translation("8", log_probability=-1.5)})
    [found] = translator.translate(["5"])
    assert (found.text, found.flags) == ("7", ("numbers",))


def test_empty_translation_is_a_fault() -> None:
    translator, _ = _audited({"No pain.": " "})
    [found] = translator.translate(["No pain."])
    assert (found.fault, found.flags) == ("the engine wrote nothing", ("empty",))


def test_flags_reach_the_record() -> None:
    translator, _ = _audited({"Give 5 mg.": Translation("Dare 5.", log_probability=-0.12345),
                              "None.": "No."})
    record = Record(id="a", title="None.", text="None. Give 5 mg.")
    [found] = translate_records([record], translator, DocumentConfig("en", "it"))
    details = found["meta"]["translation"]
    assert details["flags"] == [{"key": "text", "start": 4, "end": 11, "flags": ["units"]}]
    assert found["text"][4:11] == "Dare 5."


def test_missing_language_identifier_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert Auditor("en", "it").faults(LONG, LONG) == ("copied",)
    with pytest.raises(BmtoolsError, match=r"checks language needs the package py3langid: .*"
                                           r"\[translation\]"):
        translate([], "en", "it", "memory", memory=Path("m.tsv"), checks="language")
