"""Apertium: sentences stay aligned, unknown words are counted, and its signs are removed."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import BmtoolsError, RecordError
from bmtools.records import Record
from bmtools.translation.counts import translation_lines
from bmtools.translation.documents import translate_records
from bmtools.translation.engines import apertium, programs
from bmtools.translation.engines.apertium import ApertiumTranslator, installed_modes
from bmtools.translation.settings import DocumentConfig, EngineConfig


def engine(target: str = "it", source: str = "en", **settings: Any) -> ApertiumTranslator:
    return ApertiumTranslator(EngineConfig("apertium", source, target, **settings))


CHAIN = {"eng-cat", "cat-ita", "eng-spa", "spa-ita"}
_is_there = shutil.which("apertium") is not None and set(installed_modes()) >= CHAIN
needs_apertium = pytest.mark.skipif(
    not _is_there, reason="apertium with eng-cat, cat-ita, eng-spa and spa-ita is not installed")


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend that some modes are installed, and how they change lines."""

    def pretend(*names: str, run: Callable[[str, list[str]], list[str]] | None = None) -> None:
        monkeypatch.setattr(apertium, "installed_modes", lambda: list(names))
        act = run or (lambda _mode, lines: lines)

        def pretended(program: programs.Program, sentences: list[str]) -> Any:
            lines = [program.pack(number, one) for number, one in enumerate(sentences)]
            found = act(program.name.split()[-1], lines)
            return [line.encode() for line in found], "ended" * (len(found) < len(lines)), False

        monkeypatch.setattr(programs.Program, "_run", pretended)

    return pretend


def test_missing_program_is_reported_with_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(BmtoolsError, match="apt install apertium apertium-eng-cat"):
        engine()


def test_missing_language_pair_is_reported_with_a_fix(modes: Callable[..., None]) -> None:
    modes("eng-cat", "cat-ita", "eng-spa", "es-gl")
    with pytest.raises(BmtoolsError, match=r"no mode eng-ita here; use via cat, or install"):
        engine()
    with pytest.raises(BmtoolsError, match=r"apertium-spa-ita \(or apertium-ita-spa"):
        engine(via="es")
    assert engine(source="en-GB", via="ca").details == {"via": "ca"}
    assert engine("gl", "es").details == {}


def test_signs_in_the_text_are_kept_and_apertium_marks_counted(
        modes: Callable[..., None]) -> None:
    """In this test the program adds a mark to every word of four characters."""

    def run(_mode: str, lines: list[str]) -> list[str]:
        return [" ".join(f"*{word}" if len(word) == 4 else word for word in line.split(" "))
                for line in lines]

    modes("eng-ita", run=run)
    source = "p* < 0.05 *q #3 @me ~7 a_b [x] {y} ^c$ d/e f\\g <h> +/-0.3 some more -2 x-y"
    [translation] = engine().translate([source])
    assert translation.text == source
    assert translation.unknown == 5  # 0.05, d\/e, f\\g, some, more


@pytest.mark.parametrize(("line", "text", "unknown"), [
    ("il *drug", "il drug", ["drug"]), ("@drug e #dare", "drug e dare", ["drug", "dare"]),
    (r"\@drug", "drug", ["drug"]), ("#dare# via", "dare via", ["dare"]),
    (r"\[*IL-6\] a\/*b", "[IL-6] a/b", ["IL-6", "b"]), ("*a b  c .", "a b c.", ["a"]),
    ("studio[-]di[-]12 mesi", "studio di 12 mesi", []), ("bambino[-].", "bambino.", []),
    ("uno[-]-[-]due", "uno-due", []), ("*(a.b), *?", "(a.b), ?", ["a.b", ""])])
def test_apertium_output_is_parsed(line: str, text: str, unknown: list[str]) -> None:
    assert apertium.shown(line) == (text, unknown)


def test_a_word_unknown_to_two_stages_counts_once(modes: Callable[..., None]) -> None:
    def run(mode: str, lines: list[str]) -> list[str]:
        new = "foo bar" if mode == "eng-cat" else "foo"
        for word in new.split():
            lines = [line.replace(word, f"*{word}") for line in lines]
        return [line.replace("cat", "*gat") for line in lines]

    modes("eng-cat", "cat-ita", run=run)
    [translation] = engine(via="ca").translate(["foo cat bar."])
    assert (translation.text, translation.unknown) == ("foo gat bar.", 3)


@pytest.mark.parametrize("harm", ["crash", "swallow", "shift"])
def test_only_the_sentence_that_breaks_apertium_has_a_fault(
        modes: Callable[..., None], harm: str) -> None:
    def run(_mode: str, lines: list[str]) -> list[str]:
        for number, line in enumerate(lines):
            if line.startswith("BAD"):
                rest = lines[number + 1:]
                return lines[:number] + {"crash": [], "swallow": rest,
                                         "shift": ["BAD", *rest]}[harm]
        return lines

    modes("eng-ita", run=run)
    sentences = [f"Sentence {number}." for number in range(9)]
    sentences[5] = "BAD."
    translations = engine().translate(sentences)
    assert [one.text for one in translations] == [*sentences[:5], "", *sentences[6:]]
    assert [bool(one.fault) for one in translations] == [one == "BAD." for one in sentences]


HANGING = """#!{python} -S
import os, subprocess, sys, time
if sys.argv[1] == "-l":
    sys.exit(print("eng-ita"))
rest = b""
while part := os.read(0, 65536):
    *lines, rest = (rest + part).split(b"\\0")
    for line in lines:
        if b"HANG" in line or (b"ONCE" in line and not os.path.exists("{once}")):
            open("{once}", "w").close()
            subprocess.run(["sleep", "1000"])  # a child process, as in Apertium's pipe
        os.write(1, line + b"\\0")
"""


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a program that stops answering at HANG, and at the first ONCE."""
    program = tmp_path / "apertium"
    program.write_text(HANGING.format(python=sys.executable, once=tmp_path / "once"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@pytest.mark.usefixtures("hanging")
def test_program_that_stops_answering_is_started_again() -> None:
    counts: Counter[str] = Counter()
    records = [Record(id=str(number), text=f"Sentence {number}.") for number in range(9)]
    records[2]["text"], records[5]["text"] = "ONCE.", "HANG."
    rejected: list[RecordError] = []
    found = list(translate_records(records, engine(timeout_seconds=0.5),
                                   DocumentConfig("en", "it"), rejected.append, counts))
    assert [one["text"] for one in found] == [
        one["text"] for one in records if one["text"] != "HANG."]
    [error] = rejected
    assert error.reason.startswith("no translation of 'HANG.': apertium eng-ita returned no text")
    assert counts["restarts"] == 3
    assert "3 times that the engine stopped answering or ended, and was started again" in list(
        translation_lines(counts))


@needs_apertium
@pytest.mark.parametrize("via", ["ca", "es"])
def test_real_sentences_keep_their_order(via: str) -> None:
    sentences = ["The patient has a fever.", "", "Conclusion", "We studied 20 patients.", "No",
                 "p* < 0.05, *p < 0.01, #3, @home, [IL-6], {x}, ^y$, a/b, c\\d, <e>, ~1, f_g"]
    translations = engine(via=via).translate(sentences)
    texts = [one.text for one in translations]
    assert "febbre" in texts[0]
    assert (texts[1], texts[2]) == ("", "Conclusione")
    assert "20 pazienti" in texts[3]
    assert texts[4].lower().startswith("n")
    for sign in "*#@[]{}^$/\\<>~_":
        assert texts[5].count(sign) == sentences[5].count(sign), sign
    assert [one.unknown for one in translations[:4]] == [0, 0, 0, 0]
    assert translations[5].unknown > 0


@needs_apertium
@pytest.mark.data
@pytest.mark.slow
def test_translations_depend_only_on_the_batch(
        data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apertium's tagger learns from the sentences that it reads."""
    monkeypatch.setattr(ApertiumTranslator, "part_sentences", 6)
    path = data / "parallel/abstrct-en-it/glaucoma-test.en.tsv"
    blocks = path.read_text(encoding="utf-8").split("\n\n")[:12]
    sentences = [" ".join(line.split()[0] for line in block.split("\n")) for block in blocks]
    one, two = (engine(via="es", workers=workers)
                for workers in (1, 2))
    first = one.translate(sentences)
    assert first == one.translate(sentences) == two.translate(sentences)


@needs_apertium
def test_odd_characters_do_not_shift_sentences() -> None:
    rng = random.Random(0)
    odd = ("[]{}^$@\\/<>*#~+-=&%!?.,;:'\"()`°µ±≤…“”†®中😀\u2013\u2019\u00ad\ufeff\u200b\u0301"
           "\u03b1\u2028\ufdd0")
    words = ["the", "patients", "were", "treated", "with", "No.", "min.", "IL-6", "p.", "0.05"]
    sentences = [" ".join("".join(rng.choice([rng.choice(words), rng.choice(odd)])
                                  for _ in range(rng.randint(1, 3)))
                          for _ in range(rng.randint(0, 12))) for _ in range(400)]
    translations = engine(via="ca").translate(sentences)
    assert not any(one.fault for one in translations)
    for sentence, one in zip(sentences, translations, strict=True):
        before, after = Counter(sentence), Counter(one.text)
        assert all(before[sign] == after[sign] for sign in "[]{}^$@\\<>*#~"), (sentence, one)
        assert "\ufdd0" not in one.text and "[-]" not in one.text


def test_other_data_change_the_fingerprint(
        modes: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Updated packages keep their names; a cache must not find translations of older packages."""
    modes("eng-cat", "cat-ita")
    monkeypatch.setenv("APERTIUM_DATADIR", str(tmp_path))
    (tmp_path / "modes").mkdir()
    rules = tmp_path / "rules.bin"
    (tmp_path / "modes" / "eng-cat.mode").write_text(f"apertium-transfer '{rules}' 'absent'\n")
    found = set()
    for content in ("old", "new", "old"):
        rules.write_text(content)
        found.add(engine("ca").fingerprint)
    assert len(found) == 2
