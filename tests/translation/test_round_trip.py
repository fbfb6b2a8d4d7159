"""Translations that are translated back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.translation import translate
from bmtools.translation.counts import TranslationCounts
from bmtools.translation.round_trip import RoundTripTranslator
from bmtools.translation.settings import AuditConfig, EngineConfig, ModelConfig

pytest.importorskip("sacrebleu")


def test_a_memory_is_read_backwards(tmp_path: Path, write_lines: Callable[..., Path]) -> None:
    memory = tmp_path / "memory.tsv"
    memory.write_text("en\tit\nNo pain at all.\tNessun dolore.\nNone.\tNessuno.\n"
                      "Not any pain.\tNessun dolore.\n", encoding="utf-8")
    notes = write_lines("notes.jsonl", {"id": "a", "text": "None. Not any pain."})
    counts = TranslationCounts()
    list(translate(str(notes), "en", "it", "memory", memory=memory, counts=counts,
                   audit=AuditConfig("none", round_trip=1.0)))
    assert 0 < counts.worst_round_trip < 60
    assert counts.round_trip_sum == 100.0 + counts.worst_round_trip
    [line] = [line for line in counts.lines() if "back" in line]
    assert line.startswith("2 sentences translated back: chrF ")
    assert line.endswith(": 'Not any pain.'")


def test_a_sample_depends_on_sentences_alone(dictionary: Callable[..., Any]) -> None:
    sentences = [f"Sentence {number}." for number in range(200)]
    engine = dictionary(dict(zip(sentences, sentences, strict=True)))
    translator = RoundTripTranslator(engine, engine, 0.25)
    together = [one.round_trip for one in translator.translate(sentences)]
    alone = [translator.translate([sentence])[0].round_trip for sentence in sentences[:20]]
    assert 30 < sum(score is not None for score in together) < 70
    assert alone == together[:20]


def test_the_worst_sentence_has_a_name_even_if_none_is_bad() -> None:
    counts = TranslationCounts()
    counts.add_round_trip(100.0, "None.")
    assert list(counts.lines())[-1].endswith("at worst 100.0: 'None.'")


def test_an_engine_reversed() -> None:
    config = EngineConfig("ctranslate2", "en", "it", model=ModelConfig(
        Path("nllb"), source_code="eng_Latn", target_code="ita_Latn")).reversed()
    assert (config.source_lang, config.target_lang) == ("it", "en")
    assert (config.model.source_code, config.model.target_code) == ("ita_Latn", "eng_Latn")
    other = config.reversed(Path("opus"))
    assert (other.model.model, other.target_lang) == (Path("opus"), "it")
