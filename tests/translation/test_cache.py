"""Cache of translated sentences."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import BmtoolsError, DataError
from bmtools.translation import cache as cache_module
from bmtools.translation.cache import DATABASE, SentenceBatches, SentenceCache
from bmtools.translation.engines.engine import Translation

FULL = Translation("Dolore.", 1, "", -0.25, ("numbers-lost",), "memory")


def test_cached_translation_is_complete_and_depends_on_settings(tmp_path: Path) -> None:
    cache = SentenceCache("apertium en it", tmp_path / DATABASE)
    cache.put(["Pain."], [FULL], Counter(restarts=1))
    assert cache.get("Pain.") == (FULL, False)
    assert cache.get("pain.") is None
    assert cache.counts() == (1, {"restarts": 1})
    for fingerprint, found in (("apertium en it", (FULL, True)), ("apertium en es", None),
                               ("apertium en i", None)):
        assert SentenceCache(fingerprint, tmp_path / DATABASE).get("Pain.") == found


def test_failed_sentences_are_tried_again_by_another_run(
        dictionary: Callable[..., Any], tmp_path: Path) -> None:
    for run, is_tried in (("a", True), ("a", False), ("b", True), ("b", False)):
        engine = dictionary({}, batch_sentences=1)
        SentenceBatches(engine, SentenceCache("x", tmp_path / DATABASE, run)).add(["Pain."])
        assert bool(engine.calls) == is_tried


def test_two_writers_see_each_other(tmp_path: Path) -> None:
    one, other = (SentenceCache("x", tmp_path / DATABASE) for _ in range(2))
    one.put(["Pain.", "Fever."], [FULL, FULL], Counter())
    other.put(["Pain.", "Cough."], [FULL, FULL], Counter())
    assert one.get("Cough.") == (FULL, True)
    assert other.get("Fever.") == (FULL, True)


def test_batch_is_stored_completely_or_not_at_all(tmp_path: Path) -> None:
    cache = SentenceCache("x", tmp_path / DATABASE)
    with pytest.raises(ValueError, match="zip"):
        cache.put(["Pain.", "Fever."], [FULL], Counter())
    assert cache.get("Pain.") is None
    assert cache.counts() == (0, {})
    cache.put(["Pain."], [FULL], Counter())
    assert cache.get("Pain.") == (FULL, False)


def test_other_files_are_reported_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / DATABASE
    path.write_text("these are notes" * 1000)
    with pytest.raises(DataError, match=rf"^{path}: cannot be used as a cache of sentences \(file "
                                        r"is not a database\); remove it, or name another one$"):
        SentenceCache("x", path)
    assert path.read_text().startswith("these are notes")
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE sentences (mine)")
    with pytest.raises(DataError, match="another program"):
        SentenceCache("x", path)


def test_full_disk_is_reported(tmp_path: Path) -> None:
    cache = SentenceCache("x", tmp_path / DATABASE, label="out.jsonl")
    cache._database.execute("PRAGMA max_page_count = 8")
    with pytest.raises(BmtoolsError, match=r"^out.jsonl: cannot be written \(no space left on "
                                           r"device\); make room, or write elsewhere$"):
        cache.put([f"{number}" * 50 for number in range(1000)], [FULL] * 1000, Counter())
    assert cache.counts() == (0, {})


def test_resumed_run_forms_the_same_batches(dictionary: Callable[..., Any], tmp_path: Path) -> None:
    """An interrupted run forms the same batches as an uninterrupted run."""
    words = {f"{number}": f"n{number}" for number in range(10)}
    stream = [[*"0123"], [*"2045"], [*"6"], [*"789"]]

    def run(path: Path, batches: int) -> list[list[str]]:
        engine = dictionary(words, batch_sentences=3)
        cache = SentenceCache("x", path, "run")
        waiting = SentenceBatches(engine, cache)
        for sentences in stream:
            waiting.add(sentences)
            if len(engine.calls) == batches:
                cache.close()
                return engine.calls
        waiting.finish()
        assert [waiting[one].translation.text for one in words] == list(words.values())
        assert (waiting.translated, cache.counts()[0]) == (10, 10)
        return engine.calls

    whole = run(tmp_path / "whole", -1)
    assert whole == [["0", "1", "2"], ["3", "4", "5"], ["6", "7", "8"], ["9"]]
    for stop in (1, 2, 3):
        assert run(tmp_path / f"{stop}", stop) + run(tmp_path / f"{stop}", -1) == whole


def test_texts_without_a_new_sentence_do_not_wait_forever(
        dictionary: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_MOST_WAITING", 3)
    engine = dictionary({"a": "A", "b": "B"}, 100)
    waiting = SentenceBatches(engine, SentenceCache("x"))
    assert [waiting.add(text) for text in (["a"], ["a"], [], ["a", "b"])] == [1, 1, 0, 1]
    assert engine.calls == []
    assert waiting.add([]) == 0
    assert engine.calls == [["a", "b"]] and waiting.completed == 1
