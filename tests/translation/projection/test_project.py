"""Methods by name, with their engine and files."""

import sys

import pytest

from bmtools.records import Record
from bmtools.translation import translate
from bmtools.translation.engines import loading
from bmtools.translation.projection import project as project_module
from bmtools.translation.projection.pairs import SentencePair
from bmtools.translation.projection.project import Methods, project
from bmtools.translation.projection.settings import MethodConfig, ProjectionConfig
from bmtools.translation.settings import EngineConfig, ModelConfig

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


def config(*methods, **resources):
    engine = EngineConfig("apertium", "en", "it", via="ca")
    return ProjectionConfig(methods, engine=engine, resources=MethodConfig(**resources),
                            translate_mentions=True)


def test_mentions_are_translated_once_for_the_methods_that_look_for_them(engine):
    made = engine({"fever": "febbre"})
    assert [pair.mentions for pair in Methods(config("exact"), "", "").with_mentions(PAIRS)] == [
        ("febbre", "febbre"), ("",)]
    assert made.calls == [["fever"], ["pain"]]
    for other in (config("align", "markers"), ProjectionConfig(("exact", "dictionary"))):
        assert Methods(other, "", "").with_mentions(PAIRS) == PAIRS
    assert len(made.calls) == 2


def test_marks_go_through_the_engine(engine):
    engine({"A [1 fever 1] and a [2 fever 2].": "Una [1 febbre 1] e una [2 febbre 2].",
            "No [pain].": "Nessun [dolore]."})
    loaded = Methods(config("markers"), "", "").load("markers")
    assert [[one and (one.start, one.end) for one in places]
            for places in loaded.project(PAIRS)] == [[(4, 10), (17, 23)], [None]]


def test_a_glossary_is_read_in_the_languages_of_the_records(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("it\tde\ten\nfebbre\tFieber\tfever\n")
    settings = ProjectionConfig(("dictionary",), resources=MethodConfig(glossary=path))
    sources = [Record(id="1", lang="en", text="A fever.", entities=[
        {"start": 2, "end": 7, "type": "D"}])]
    translations = [Record(id="1", lang="it", text="Le febbri.")]
    [record] = project(sources, translations, settings)
    assert [one["text"] for one in record["entities"]] == ["febbri"]


@pytest.mark.parametrize("name", ["encoder", "score", "embeddings"])
def test_models_are_loaded_for_their_methods(name, m2m, tokenizer, tmp_path):
    from toy_models import save_random

    resources = MethodConfig(embeddings=save_random(tmp_path, tokenizer)) \
        if name == "embeddings" else MethodConfig()
    engine = EngineConfig("transformers", "en", "it", model=ModelConfig(m2m, device="cpu"))
    settings = ProjectionConfig((name,), resources=resources, engine=engine)
    loaded = Methods(settings, "", "").load(name)
    assert loaded.name == name
    [[found]] = loaded.project([SentencePair("No patient died.", "Nessun paziente.", ((3, 10),))])
    assert found is None or 0 <= found.start < found.end <= 16


@pytest.mark.parametrize(("methods", "resources", "message"), [
    (("markers",), {}, "method markers needs engine$"),
    (("score",), {}, "method score needs engine ctranslate2 or transformers"),
    (("encoder",), {}, "method encoder needs engine ctranslate2 or transformers"),
    (("embeddings",), {}, "method embeddings needs embeddings"),
    (("exact",), {"glossary": "g.tsv"}, "glossary means nothing without method dictionary"),
    (("exact",), {"embeddings": "dir"}, "embeddings means nothing without method embeddings")])
def test_methods_say_what_they_need(methods, resources, message):
    with pytest.raises(ValueError, match=message):
        ProjectionConfig(methods, resources=MethodConfig(**resources)).require_resources()
    if message.endswith("transformers"):
        with pytest.raises(ValueError, match=message):
            config(*methods).require_resources()


def test_an_engine_that_translated_projects_too(monkeypatch, m2m, write_lines):
    loaded = []
    real = loading.load_engine
    for module in ("engines.loading", "projection.project", "translate"):
        monkeypatch.setattr(sys.modules[f"bmtools.translation.{module}"], "load_engine",
                            lambda config: loaded.append(config.engine) or real(config))
    path = write_lines("notes.jsonl", {"id": "a", "text": "No patient died.", "entities": [
        {"start": 3, "end": 10, "type": "P"}]})
    settings = ProjectionConfig(("markers", "encoder", "score"))
    [record] = translate(path, "en", "it", "transformers", projection=settings,
                                          model=ModelConfig(m2m, device="cpu"))
    assert record["text"] == "Nessun paziente è morto."
    assert loaded == ["transformers"]


def test_a_loaded_model_s_encoder_is_not_loaded_again(monkeypatch, m2m):
    from bmtools.translation.projection import encoder

    settings = ModelConfig(m2m, device="cpu")
    engine = loading.load_engine(EngineConfig("transformers", "en", "it", model=settings))
    monkeypatch.setattr(encoder, "TransformersTranslator", type(engine))
    fresh = encoder.translation_encoder(settings, "en", "it")
    monkeypatch.setattr(type(engine), "__init__", None)
    shared = encoder.translation_encoder(settings, "en", "it", engine=engine)
    pairs = [SentencePair("No patient died.", "Nessun paziente.", ((3, 10),))]
    assert shared.project(pairs) == fresh.project(pairs)
