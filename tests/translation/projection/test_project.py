"""Projection methods by name, with their engine and files."""

import sys
from collections import Counter
from functools import partial

import pytest

from bmtools.records import Record
from bmtools.translation import translate
from bmtools.translation.engines import loading
from bmtools.translation.projection import project as project_module
from bmtools.translation.projection.documents import blocks, pair_document
from bmtools.translation.projection.pairs import SentencePair
from bmtools.translation.projection.project import Methods, project
from bmtools.translation.projection.settings import ProjectionConfig
from bmtools.translation.settings import EngineConfig

PAIRS = [SentencePair("A fever and a fever.", "Una febbre e una febbre.", ((2, 7), (14, 19))),
         SentencePair("No pain.", "Nulla.", ((3, 7),))]


@pytest.fixture
def engine(monkeypatch, dictionary):
    """Make the methods load an engine with a few sentences that records its calls."""
    def make(known):
        made = dictionary(known, batch_sentences=1)
        monkeypatch.setattr(project_module, "load_engine", lambda config: made)
        return made

    return make


APERTIUM = EngineConfig("apertium", "en", "it", via="ca")


def test_mentions_are_translated_once_for_methods_that_need_them(engine):
    made = engine({"fever": "febbre"})
    exact = Methods(ProjectionConfig(("exact",)), APERTIUM)
    assert [pair.mentions for pair in exact.with_mentions(PAIRS)] == [("febbre", "febbre"), ("",)]
    assert made.calls == [["fever"], ["pain"]]
    for other in (Methods(ProjectionConfig(("align", "markers")), APERTIUM),
                  Methods(ProjectionConfig(("exact", "dictionary")))):
        assert other.with_mentions(PAIRS) == PAIRS
    assert len(made.calls) == 2


def test_a_glossary_is_read_in_the_languages_of_the_records(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("it\tde\ten\nfebbre\tFieber\tfever\n")
    sources = [Record(id="1", lang="en", text="A fever.", entities=[
        {"start": 2, "end": 7, "type": "D"}])]
    translations = [Record(id="1", lang="it", text="Le febbri.")]
    [record] = project(sources, translations, ProjectionConfig(("dictionary",), glossary=path))
    assert [one["text"] for one in record["entities"]] == ["febbri"]


def test_translating_engine_is_reused_for_projection(monkeypatch, m2m, write_lines):
    loaded = []
    real = loading.load_engine
    for module in ("engines.loading", "projection.project", "translate"):
        monkeypatch.setattr(sys.modules[f"bmtools.translation.{module}"], "load_engine",
                            lambda config: loaded.append(config.engine) or real(config))
    path = write_lines("notes.jsonl", {"id": "a", "text": "No patient died.", "entities": [
        {"start": 3, "end": 10, "type": "P"}]})
    [record] = translate(path, "en", "it", "transformers", project=True, methods=("markers",),
                         model=m2m, device="cpu")
    assert record["text"] == "Nessun paziente è morto."
    assert loaded == ["transformers"]


@pytest.mark.parametrize(("words", "sizes"), [
    ([], []), ([9, 9, 9], [3]), ([9] * 7, [4, 3]), ([9] * 9, [4, 3, 2]), ([9] * 16, [4, 4, 4, 4]),
    ([0, 99, 1, 1], [2, 2]), ([5000, 9, 9], [3])])
def test_documents_are_grouped_into_blocks_of_similar_size(words, sizes):
    """A sentence pair costs 100 plus its word pairs, or 100 if it is too long to be aligned."""
    documents = [pair_document(Record(id=str(number), text="a " * count),
                               Record(id=str(number), text="a " * count))
                 for number, count in enumerate(words)]
    found = list(blocks(documents, most=4 * 181))
    assert [len(block) for block in found] == sizes
    assert [one for block in found for one in block] == documents


def test_corpus_is_read_block_by_block(monkeypatch):
    """Sources and translations are not read far ahead, even if records are rejected."""
    monkeypatch.setattr(project_module, "blocks", partial(blocks, most=1000))
    read = Counter()

    def records(lang, text, left_out=()):
        for number in range(100):
            read[lang] += 1
            if number not in left_out:
                yield Record(id=str(number), lang=lang, text=f"{text} {number}.",
                             entities=[{"start": 0, "end": len(text), "type": "D"}])

    rejected = []
    projected = project(records("en", "Sharp pain", {7}), records("it", "Dolore acuto"),
                        reject=rejected.append)
    first = next(projected)
    assert [one["text"] for one in first["entities"]] == ["Dolore acuto"]
    assert read["en"] == read["it"] < 25
    assert [one["id"] for one in projected] == [str(n) for n in range(100) if n != 7][1:]
    assert [str(error).split(",")[0] for error in rejected] == [
        "<memory>: found a translation with the id '7'"]


def test_a_glossary_is_read_and_a_mention_translated_once_for_all_blocks(monkeypatch, engine,
                                                                         tmp_path):
    made, reads = engine({"fever": "febbre"}), []
    monkeypatch.setattr(project_module, "blocks", partial(blocks, most=1))
    monkeypatch.setattr(project_module, "read_glossary", lambda *_: reads.append(1) or {})
    records = [Record(id=str(number), text="A fever.", lang="en", entities=[
        {"start": 2, "end": 7, "type": "D"}]) for number in range(5)]
    config = ProjectionConfig(("dictionary",), glossary=tmp_path / "terms.tsv")
    translations = [one.replace(text="Una febbre.", lang="it") for one in records]
    found = project(records, translations, config, APERTIUM)
    assert [one["entities"][0]["text"] for one in found] == ["febbre"] * 5
    assert (made.calls, reads) == ([["fever"]], [1])
