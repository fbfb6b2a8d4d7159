"""Translation memories, with and without another engine."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from bmtools.errors import DataError
from bmtools.records import Record
from bmtools.translation.bilingual import read_pairs
from bmtools.translation.counts import translation_lines
from bmtools.translation.documents import translate_records
from bmtools.translation.engines.engine import NOTHING_NEW
from bmtools.translation.engines.memory import MemoryFirst, MemoryTranslator
from bmtools.translation.settings import DocumentConfig, EngineConfig

TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-GB"/><body>
<tu><tuv xml:lang="en-GB"><seg>The <bpt i="1">&lt;b&gt;</bpt>patient<ept i="1">&lt;/b&gt;</ept>
 has <hi>fever</hi> &amp; pain.</seg></tuv>
<tuv xml:lang="IT"><seg>Il paziente ha <ph>{1}</ph>febbre e dolore.</seg></tuv></tu>
<tu><tuv xml:lang="fr"><seg>Rien.</seg></tuv><tuv xml:lang="it"><seg>Nulla.</seg></tuv></tu>
<tu><tuv lang="en"><seg>Nothing.</seg></tuv><tuv lang="it"><seg>Nulla.</seg></tuv></tu>
</body></tmx>
"""


def _loaded(path: Path) -> MemoryTranslator:
    return MemoryTranslator(EngineConfig("memory", "en", "it", memory=path))


def _written(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_tmx_is_read_without_codes(tmp_path: Path) -> None:
    path = _written(tmp_path / "m.tmx", TMX)
    expected = [("The patient has fever & pain.", "Il paziente ha febbre e dolore."),
                ("Nothing.", "Nulla.")]
    assert list(read_pairs(path, "en", "it")) == expected
    assert list(read_pairs(path, "it", "fr")) == [("Nulla.", "Rien.")]
    packed = tmp_path / "m.tmx.gz"
    packed.write_bytes(gzip.compress(TMX.encode()))
    assert list(read_pairs(packed, "en", "it")) == expected


@pytest.mark.parametrize("content", [
    "en\tit\nNo pain.\tNessun dolore.\n", "source\ttarget\nNo pain.\tNessun dolore.\n",
    "No pain.\tNessun dolore.\n", "No pain.\tNessun dolore.\r\n\r\n",
    "doc\tspecialty\ten\tit\n1\tx\tNo  pain.\tNessun dolore.\n",
    "it-IT\tnote\ten-GB\nNessun dolore.\t\tNo pain.\n"])
def test_tsv_columns_are_found_by_header_or_order(tmp_path: Path, content: str) -> None:
    path = _written(tmp_path / "m.tsv", content)
    assert list(read_pairs(path, "en", "it")) == [("No pain.", "Nessun dolore.")]


@pytest.mark.parametrize(("content", "message"), [
    ("a\tb\tc\n", r"m.tsv:1: found 3 columns .*, expected two, or a header that names 'en'"),
    ("en\tit\nx\n", r"m.tsv:2: found 1 columns, expected 2"),
    ("en\tfr\nfever\tfièvre\n", r"m.tsv:1: found 2 columns \['en', 'fr'\], expected two, or a "
                                 r"header that names 'en' and 'it'"),
    ("en\tit\nx\t \n", r"m.tsv:2: found an empty sentence"),
    ("", r"m.tsv: found no pair of 'en' and 'it'")])
def test_bad_tsv_is_reported_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(read_pairs(_written(tmp_path / "m.tsv", content), "en", "it"))


@pytest.mark.parametrize(("content", "message"), [
    (TMX.replace("</tu>", "", 1), r"m.tmx:\d+: damaged XML"),
    ("<xliff/>", "found the root element <xliff>, expected <tmx>"),
    ('<!DOCTYPE tmx [<!ENTITY a "b">]><tmx><body/></tmx>', "found a declaration of the entity"),
    (TMX.replace('SYSTEM "tmx14.dtd"', '[<!ENTITY x SYSTEM "file:///etc/passwd">]')
     .replace("fever", "&x;"), "found a declaration of the entity"),
    ("<tmx><body/></tmx>", "found no pair")])
def test_bad_or_dangerous_tmx_is_rejected(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(read_pairs(_written(tmp_path / "m.tmx", content), "en", "it"))


def test_exact_matches_win_and_loose_matches_keep_case_and_punctuation(tmp_path: Path) -> None:
    path = _written(tmp_path / "m.tsv", "No pain.\tNessun dolore.\nNO PAIN\tNIENTE\n"
                                        "no pain.\tnessun dolore.\nfever\tfebbre\nfever\tcalore\n")
    translator = _loaded(path)
    found = translator.translate(
        ["No pain.", "NO PAIN", "no pain.", "No Pain!", "Fever", "fever;", "Cough."])
    assert [one.text for one in found] == [
        "Nessun dolore.", "NIENTE", "nessun dolore.", "Nessun dolore!", "Febbre", "febbre;", ""]
    assert [bool(one.fault) for one in found] == [False] * 6 + [True]
    assert found[-1].fault == f"not in {path}; add it there"


def test_long_segments_take_linear_time(tmp_path: Path) -> None:
    """A pattern for final punctuation needed five seconds for 40,000 characters."""
    path = _written(tmp_path / "m.tsv", "A" + ". " * 500_000 + "b\u3000!\tBene.\n")
    translator = _loaded(path)
    [found] = translator.translate(["a" + ". " * 500_000 + "B?"])
    assert found.text == "Bene?"


def _memory(tmp_path: Path) -> MemoryTranslator:
    return _loaded(_written(tmp_path / "memory.tsv", "en\tit\nNo pain.\tNessun dolore.\n"))


def test_engine_translates_sentences_missing_in_the_memory(
        tmp_path: Path, dictionary: Callable[..., object]) -> None:
    engine = dictionary({"Cough.": "Tosse."})
    engine.licence = "CC-BY-NC-4.0"
    chain = MemoryFirst(_memory(tmp_path), engine)
    counts: Counter[str] = Counter()
    [record] = translate_records(
        [Record(id="a", text="No pain.  Cough.", licence="CC-BY-4.0")], chain,
        DocumentConfig("en", "it"), counts=counts)
    assert record["text"] == "Nessun dolore.  Tosse."
    assert engine.calls == [["Cough."]]
    assert record["licence"] == "CC-BY-NC-4.0"
    assert record["meta"]["translation"]["memory"] == "memory.tsv"
    assert "1 sentence from the translation memory" in list(translation_lines(counts))
    found = chain.translate(["Cough.", "No pain.", "What?"])
    assert [one.engine or one.fault for one in found] == ["dictionary", "memory", "not in the book"]


def test_second_attempt_after_the_memory_is_the_first_of_the_engine(
        tmp_path: Path, dictionary: Callable[..., object]) -> None:
    engine = dictionary({"No pain.": "Niente dolore.", "Cough.": "Tosse."})
    chain = MemoryFirst(_memory(tmp_path), engine)
    assert chain.attempts == 2
    found = chain.translate(["Cough.", "No pain."], attempt=1)
    assert [one.text for one in found] == ["", "Niente dolore."]
    assert found[0] == NOTHING_NEW
    assert (engine.calls, engine.attempts_made) == ([["No pain."]], [0])
