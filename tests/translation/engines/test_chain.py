"""A memory before an engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bmtools.records import Record
from bmtools.translation.audit import AuditedTranslator, Auditor
from bmtools.translation.counts import TranslationCounts
from bmtools.translation.documents import translate_records
from bmtools.translation.engines.chain import MemoryFirst
from bmtools.translation.engines.engine import NOTHING_NEW
from bmtools.translation.engines.memory import MemoryTranslator
from bmtools.translation.settings import DocumentConfig


def _memory(tmp_path: Path, threshold: float | None = None) -> MemoryTranslator:
    path = tmp_path / "memory.tsv"
    path.write_text("en\tit\nNo pain.\tNessun dolore.\nA fever of 39 degrees.\t"
                    "Una febbre di 39 gradi.\n", encoding="utf-8")
    return MemoryTranslator(path, "en", "it", threshold)


def test_the_engine_gets_what_the_memory_lacks(
        tmp_path: Path, dictionary: Callable[..., object]) -> None:
    engine = dictionary({"Cough.": "Tosse."})
    engine.licence = "CC-BY-NC-4.0"
    chain = MemoryFirst(_memory(tmp_path), engine)
    counts = TranslationCounts()
    [record] = translate_records(
        [Record(id="a", text="No pain.  Cough.", licence="CC-BY-4.0")], chain,
        DocumentConfig("en", "it"), counts=counts)
    assert record["text"] == "Nessun dolore.  Tosse."
    assert engine.calls == [["Cough."]]
    assert record["licence"] == "CC-BY-NC-4.0"
    assert record["meta"]["translation"]["memory"] == "memory.tsv"
    assert "1 sentence from the translation memory" in counts.lines()
    found = chain.translate(["Cough.", "No pain.", "What?"])
    assert [one.engine or one.fault for one in found] == ["dictionary", "memory", "not in the book"]


def test_a_second_attempt_is_the_engine_s_first_for_what_the_memory_gave(
        tmp_path: Path, dictionary: Callable[..., object]) -> None:
    engine = dictionary({"No pain.": "Niente dolore.", "Cough.": "Tosse."})
    chain = MemoryFirst(_memory(tmp_path), engine)
    assert chain.attempts == 2
    found = chain.translate(["Cough.", "No pain."], attempt=1)
    assert [one.text for one in found] == ["", "Niente dolore."]
    assert found[0] == NOTHING_NEW
    assert (engine.calls, engine.attempts_made) == ([["No pain."]], [0])


def test_an_engine_without_other_settings_is_asked_once_about_a_doubtful_sentence(
        tmp_path: Path, dictionary: Callable[..., object]) -> None:
    engine = dictionary({"5 mg.": "Milligrammi.", "No pain.": "Niente dolore."})
    audited = AuditedTranslator(MemoryFirst(_memory(tmp_path), engine),
                                Auditor("en", "it", ("numbers",)))
    found = audited.translate(["5 mg.", "What?", "No pain."])
    assert [(one.text, one.flags, one.fault) for one in found] == [
        ("Milligrammi.", ("numbers",), ""), ("", (), "not in the book"), ("Nessun dolore.", (), "")]
    assert engine.calls == [["5 mg.", "What?"]]
    assert audited.counts["retried"] == 0


def test_settings_of_an_engine_are_tried_in_turn(tmp_path: Path,
                                                 dictionary: Callable[..., object]) -> None:
    engine = dictionary({"No pain.": "Niente dolore.", "Cough.": "Tosse."})
    engine.attempts = 2
    chain = MemoryFirst(_memory(tmp_path), engine)
    for attempt in range(chain.attempts):
        chain.translate(["Cough.", "No pain."], attempt)
    assert list(zip(engine.attempts_made, engine.calls, strict=True)) == [
        (0, ["Cough."]), (0, ["No pain."]), (1, ["Cough."]), (1, ["No pain."])]


def test_similar_sentences_are_flagged_and_counted(
        tmp_path: Path, dictionary: Callable[..., object]) -> None:
    chain = MemoryFirst(_memory(tmp_path, 0.8), dictionary({}))
    found = chain.translate(["A fever of 40 degrees!", "A fever of 40 degrees.", "No pain!"])
    assert [one.text for one in found] == ["Una febbre di 40 gradi."] * 2 + ["Nessun dolore!"]
    assert [one.flags for one in found] == [("fuzzy-match",)] * 2 + [()]
    assert chain.counts == {"memory": 3, "fuzzy": 2}
    chain.translate(["A fever of 40 degrees."], attempt=1)
    assert chain.counts == {"memory": 3, "fuzzy": 2}
    assert chain.fingerprint != MemoryFirst(_memory(tmp_path), dictionary({})).fingerprint
