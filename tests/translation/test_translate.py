"""Translation of records, from settings and from the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import bmtools.translation
from bmtools.errors import RecordError
from bmtools.records import Record
from bmtools.translation.counts import translation_lines
from bmtools.translation.documents import translate_records
from bmtools.translation.settings import DocumentConfig

translate = import_module("bmtools.translation.translate")
WORDS = {"Pain.": "Dolore.", "No fever.": "Niente febbre.", "Why?": "Perché??",
         "It is over now.": "È finita."}
EN_IT = DocumentConfig("en", "it")


def _record(number: int, text: str, **keys: Any) -> Record:
    return Record(id=str(number), text=text, **keys, place=f"x.jsonl:{number}")


def test_white_space_ids_and_unknown_keys_are_kept(dictionary: Callable[..., Any]) -> None:
    record = _record(1, "  Pain.\n\nNo\n fever.  Why? ", lang="en-GB", title="Pain.",
                     extra={"a": 1}, question="Why?", text_pair="No fever.",
                     meta={"year": 2001}, label="yes")
    [translated] = translate_records([record], dictionary(WORDS), EN_IT)
    assert translated == {
        "id": "1", "text": "  Dolore.\n\nNiente febbre.  Perché?? ", "lang": "it",
        "title": "Dolore.", "extra": {"a": 1}, "question": "Perché??",
        "text_pair": "Niente febbre.", "label": "yes",
        "meta": {"year": 2001, "translation": {
            "engine": "dictionary", "edition": "first", "source": "en", "target": "it",
            "sentences": 6, "missing": 0, "unknown_words": 4}}}
    assert list(translated) == list(record)
    assert translated.place == record.place
    assert record["text"].startswith("  Pain.")


@pytest.mark.parametrize(("source", "target", "text", "expected"), [
    ("zh", "en", "疼痛三天。使用抗生素。\n\n无发热。", "Pain. Drugs.\n\nNo fever."),
    ("zh", "en", "疼痛三天。\u3000使用抗生素。", "Pain. Drugs."),
    ("ja", "en", "疼痛三天。使用抗生素。", "Pain. Drugs."),
    ("zh", "ja", "疼痛三天。使用抗生素。", "Pain.Drugs."),
    ("en", "zh", "Pain. Why?", "痛。 为什么\uff1f")])
def test_sentences_get_the_spaces_of_the_target_language(
        source: str, target: str, text: str, expected: str,
        dictionary: Callable[..., Any]) -> None:
    words = {"疼痛三天。": "Pain.", "使用抗生素。": "Drugs.", "无发热。": "No fever.",
             "Pain.": "痛。", "Why?": "为什么\uff1f"}
    [translated] = translate_records([_record(1, text, entities=[])], dictionary(words),
                                     DocumentConfig(source, target))
    assert translated["text"] == expected


@pytest.mark.parametrize("text", ["", " \n ", "\x00"])
def test_record_without_sentences_is_passed_on(text: str, dictionary: Callable[..., Any]) -> None:
    translator = dictionary({})
    [translated] = translate_records([_record(1, text)], translator, EN_IT)
    assert (translated["text"], translated["lang"]) == (text, "it")
    assert translator.calls == []


def test_a_sentence_is_translated_once_and_batches_are_small(
        dictionary: Callable[..., Any]) -> None:
    translator = dictionary(WORDS, batch_sentences=2)
    texts = ["Pain. Pain.", "Pain. No fever.", "No fever. Pain.", "Why?", "It is over now.",
             "Why?", "Pain."]
    seen: list[int] = []

    def source() -> Iterator[Record]:
        for number, text in enumerate(texts):
            seen.append(number)
            yield _record(number, text)

    counts: Counter[str] = Counter()
    translated = translate_records(source(), translator, EN_IT, counts=counts)
    assert next(translated)["id"] == "0"
    assert seen == [0, 1]
    assert [record["id"] for record in translated] == ["1", "2", "3", "4", "5", "6"]
    assert translator.calls == [["Pain.", "No fever."], ["Why?", "It is over now."]]
    assert tuple(counts[key] for key in ("records", "sentences", "distinct")) == (7, 10, 4)
    assert counts["words"] == 10 + 1 + 1 + 3


def test_other_languages_are_rejected_or_kept_in_place(dictionary: Callable[..., Any]) -> None:
    records = [_record(1, "Pain."), _record(2, "Dolore.", lang="it"),
               _record(3, "Dolor.", lang="es", entities=[{"start": 0, "end": 5, "type": "S"}]),
               _record(4, "Why?")]
    errors: list[RecordError] = []
    kept = list(translate_records(records, dictionary(WORDS), EN_IT, errors.append))
    assert [record["id"] for record in kept] == ["1", "4"]
    assert str(errors[0]) == (
        "x.jsonl:2: key 'lang': found 'it' already, expected 'en'; remove the record, or keep "
        "it untranslated with other_languages keep")
    assert errors[1].reason.startswith("key 'lang': found 'es', expected 'en'")
    counts: Counter[str] = Counter()
    kept = list(translate_records(
        records, dictionary(WORDS), DocumentConfig("en", "it", other_languages="keep"),
        counts=counts))
    assert [record["id"] for record in kept] == ["1", "2", "3", "4"]
    assert kept[1:3] == records[1:3]
    assert counts["passed_on"] == 2


@pytest.mark.parametrize(("key", "value", "text"), [
    ("entities", [{"id": "T1", "start": 0, "end": 4, "type": "S"}], "Pain."),
    ("answers", [{"text": "Pain", "start": 0}], "Pain."),
    ("target", "Pain", "Pain.")])
def test_annotations_are_rejected_or_dropped(
        key: str, value: Any, text: str, dictionary: Callable[..., Any]) -> None:
    record = _record(7, text, **{key: value})
    with pytest.raises(RecordError, match=f"x.jsonl:7: key '{key}': .*drop_annotations"):
        list(translate_records([record], dictionary(WORDS), EN_IT))
    counts: Counter[str] = Counter()
    [translated] = translate_records(
        [record], dictionary(WORDS), DocumentConfig("en", "it", drop_annotations=True),
        counts=counts)
    assert key not in translated
    assert counts["stripped"] == 1
    [kept] = translate_records([_record(8, text, **{key: type(value)()})], dictionary(WORDS), EN_IT)
    assert key in kept


def test_a_missing_sentence_rejects_its_record_or_is_kept_or_dropped(
        dictionary: Callable[..., Any]) -> None:
    records = [_record(1, "Pain. Cough.  Why?"), _record(2, "Why?")]
    errors: list[RecordError] = []
    translated = list(translate_records(records, dictionary(WORDS), EN_IT, errors.append))
    assert [record["id"] for record in translated] == ["2"]
    assert str(errors[0]) == ("x.jsonl:1: no translation of 'Cough.': not in the book; or "
                              "continue with missing keep or drop")
    assert errors[0].content is records[0]
    for missing, text in (("keep", "Dolore. Cough.  Perché??"), ("drop", "Dolore. Perché??")):
        counts: Counter[str] = Counter()
        first, _ = translate_records(records, dictionary(WORDS),
                                     DocumentConfig("en", "it", missing=missing), counts=counts)
        assert first["text"] == text
        assert first["meta"]["translation"]["missing"] == 1
        assert counts["missing"] == 1
        assert "1 sentence without a translation" in list(translation_lines(counts))


def test_a_model_translates_records_from_the_command_line(
        run: Callable[..., Any], write_lines: Callable[..., Path], nllb: Path,
        pairs: dict[str, str]) -> None:
    path = write_lines("notes.jsonl", {"id": "a", "text": "\n".join(pairs)})
    command = ("translate", "--source-lang", "en", "--target-lang", "it", "--engine",
               "transformers",
               "--model", nllb, "--beam-size", 1)
    outcome = run(*command, "--set", "max_source_tokens=2", path)
    assert outcome.code == 1
    assert "tokens, the model accepts 2; or continue with --missing keep or drop" in outcome.err
    outcome = run(*command, "--set", "max_source_tokens=2", "--missing", "drop", path)
    assert outcome.code == 0
    assert outcome.records[0]["text"] == ""
    missing, split, retried, _ = outcome.err.splitlines()
    assert missing == "bmtools: 6 sentences without a translation"
    assert split.endswith("sentences too long for the model, translated clause by clause")
    assert retried.startswith("bmtools: 6 sentences with faults, tried")
    outcome = run(*command, path)
    assert outcome.records[0]["text"] == "\n".join(pairs.values())
    assert "1 record, 6 sentences (6 different ones), 27 words" in outcome.err


def test_files_and_dictionaries_can_be_translated(tmp_path: Path) -> None:
    memory, source = tmp_path / "memory.tsv", tmp_path / "notes.jsonl"
    memory.write_text("en\tit\nFever.\tFebbre.\n", encoding="utf-8")
    source.write_text('{"id": "a", "text": "Fever."}\n')
    for records in ([{"id": "a", "text": "Fever."}], source, str(source)):
        [record] = bmtools.translation.translate(records, "en", "it", "memory", memory=memory)
        assert (record["text"], record["lang"]) == ("Febbre.", "it")


def test_sections_move_with_their_sentences_and_end_them(dictionary) -> None:
    text = "BACKGROUND: One two\n\nThree. Four?  "
    marked = [{"label": "BACKGROUND", "start": 12, "end": 19},
              {"label": "RESULTS", "start": 21, "end": len(text)}]
    known = {"BACKGROUND:": "SFONDO:", "One two": "Uno due", "Three.": "Tre e basta.",
             "Four?": "Sì?"}
    record = Record(id="a", text=text, meta={"sections": marked, "pmid": "1"})
    [found] = translate_records([record], dictionary(known), DocumentConfig("en", "it"))
    sections = found["meta"]["sections"]
    assert [found["text"][one["start"]:one["end"]] for one in sections] == [
        "Uno due", "Tre e basta. Sì?  "]
    assert found["text"].startswith("SFONDO: Uno due\n\nTre")
    assert [one["label"] for one in sections] == ["BACKGROUND", "RESULTS"]
    assert found["meta"]["pmid"] == "1"
