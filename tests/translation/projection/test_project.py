"""Methods by name, with their engine and files."""

import sys

import pytest

from bmtools.records import Record
from bmtools.translation import translate
from bmtools.translation.engines import loading
from bmtools.translation.projection import project as project_module
from bmtools.translation.projection.pairs import SentencePair
from bmtools.translation.projection.project import Methods, project
from bmtools.translation.projection.settings import ProjectionConfig
from bmtools.translation.settings import EngineConfig

PAIRS = [SentencePair("A fever and a fever.", "Una febbre e una febbre.", ((2, 7), (14, 19))),
         SentencePair("No pain.", "Nulla.", ((3, 7),))]


@pytest.fixture
def engine(monkeypatch, dictionary):
    """Make an engine of a few sentences that the methods load, and remember what it was asked."""
    def make(known):
        made = dictionary(known, batch_sentences=1)
        monkeypatch.setattr(project_module, "load_engine", lambda config: made)
        return made

    return make


APERTIUM = EngineConfig("apertium", "en", "it", via="ca")


def test_mentions_are_translated_once_for_the_methods_that_look_for_them(engine):
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


def test_an_engine_that_translated_projects_too(monkeypatch, m2m, write_lines):
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
