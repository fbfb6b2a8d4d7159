from __future__ import annotations

import random
import re
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bmtools.errors import CheckpointError, DataError, RecordError
from bmtools.records import Record
from bmtools.tasks.ner import NerConfig, NerTask, TaggedText
from bmtools.tasks.tagging import (
    SCHEMES,
    can_follow,
    group_labels,
    iob2_spans,
    tag_words,
    tags_to_spans,
)

TEXT = "Caffe\u0301 🧬🧬 e diabete mellito, ipertensione arteriosa."


def entity(text: str, mention: str, kind: str = "X") -> dict[str, Any]:
    start = text.index(mention)
    return {"start": start, "end": start + len(mention), "type": kind}


def make_task(tokenizer: Any, max_length: int = 512, merge_types: str = "") -> NerTask:
    """Make a task that reads and collates, with a model that has only a maximum length."""
    model = SimpleNamespace(base_model=None, base_model_prefix="",
                            config=SimpleNamespace(max_position_embeddings=512))
    checkpoint: Any = SimpleNamespace(tokenizer=tokenizer, model=model, path="tagger")
    return NerTask(NerConfig(max_length, merge_types=merge_types), checkpoint)


def read(tokenizer: Any, *entities: dict[str, Any], text: str = TEXT, merge_types: str = ""
         ) -> tuple[TaggedText, list[str], dict[str, Any]]:
    """Read a record; return its example, tags and counts."""
    task = make_task(tokenizer, merge_types=merge_types)
    split = task.read("train", [Record(id="1", text=text, entities=list(entities))])
    [example] = split.examples
    ids = [number for window in example.inputs for [number] in window.target]  # type: ignore[union-attr]
    return example, [task.labels[number] for number in ids], split.counts


def spans(example: TaggedText, tags: list[str]) -> list[tuple[int, int, str]]:
    return [(example.words[first, 0], example.words[after - 1, 1], kind)
            for first, after, kind in tags_to_spans(tags)]


def test_offsets_are_recovered_exactly(tokenizer: Any) -> None:
    given = [entity(TEXT, "Caffe\u0301"), entity(TEXT, "🧬🧬", "Y"),
             entity(TEXT, "diabete mellito"), entity(TEXT, "arteriosa")]
    example, tags, counts = read(tokenizer, *given)
    assert spans(example, tags) == [(e["start"], e["end"], e["type"]) for e in given]
    assert counts["unaligned"] == 0
    assert counts["reachable"] == counts["entities"] == 4


@pytest.mark.parametrize(("mention", "found"), [
    ("diab", "diabete"), ("bete mell", "diabete mellito"), ("mellito, ", "mellito,"),
    (" e", "e")])
def test_boundaries_inside_words_are_counted(tokenizers: dict[str, Any], mention: str,
                                             found: str) -> None:
    example, tags, counts = read(tokenizers["wordpiece"], entity(TEXT, mention))
    assert counts["unaligned"] == 1 and counts["reachable"] == 0
    assert [TEXT[start:end] for start, end, _ in spans(example, tags)] == [found]
    assert example.gold == {(TEXT.index(mention), TEXT.index(mention) + len(mention), "X")}


def test_tokens_represent_entities_inside_words(tokenizers: dict[str, Any]) -> None:
    """Translated sets contain joined mentions: `CORCOR` is two genes."""
    text = "Due casicasi e duecasi."
    given = [{"start": start, "end": start + 4, "type": "X"} for start in (4, 8, 18)]
    for family in ("wordpiece", "uncased", "bytes"):
        task = make_task(tokenizers[family])
        split = task.read("train", [Record(id="1", text=text, entities=given)])
        assert (split.counts["reachable"], split.counts["words"]) == (0, 5)
        assert split.notes == [
            "of 3 entities, 3 that begin or end inside a word; 1 overlapping a longer entity and "
            "not tagged; tags can represent 0; use tags tokens to tag parts of words"]
        task.config = NerConfig(tags="tokens")
        split = task.read("train", [Record(id="1", text=text, entities=given)])
        [example] = split.examples
        tags = [task.labels[number] for window in example.inputs for [number] in window.target]
        assert spans(example, tags) == [(one["start"], one["end"], "X") for one in given]
        assert (split.counts["reachable"], split.counts["tokens"]) == (3, len(tags))
        assert split.notes == []


def test_longest_overlapping_entity_is_tagged(tokenizer: Any) -> None:
    whole = entity(TEXT, "diabete mellito")
    part = entity(TEXT, "mellito", "Y")
    example, tags, counts = read(tokenizer, part, whole)
    assert spans(example, tags) == [(whole["start"], whole["end"], "X")]
    assert counts["overlapping"] == 1
    assert (counts["entities"], counts["reachable"]) == (2, 1)
    assert len(example.gold) == 2, "the score still expects both"


def test_discontinuous_entities_are_read_as_one(tokenizers: dict[str, Any]) -> None:
    start, end = TEXT.index("diabete"), TEXT.index(" arteriosa")
    parts = {"start": start, "end": end, "type": "X",
             "spans": [[start, start + 7], [end - 4, end]]}
    example, tags, counts = read(tokenizers["wordpiece"], parts)
    assert counts["discontinuous"] == 1
    assert spans(example, tags) == [(start, end, "X")]


def test_types_can_be_merged(tokenizer: Any) -> None:
    *_, counts = read(tokenizer, entity(TEXT, "diabete", "A"), entity(TEXT, "diabete", "B"),
                      merge_types="Disease")
    assert counts["types"] == {"Disease": 1}
    assert counts["repeated"] == 1


def test_records_without_annotation_are_rejected(tokenizer: Any) -> None:
    task = make_task(tokenizer)
    records = [Record(id="1", text="asma", place="a.jsonl:3"),
               Record(id="2", text="asma", entities=[entity("asma", "asma")], place="a.jsonl:4")]
    with pytest.raises(RecordError, match=r"a\.jsonl:3: key 'entities' is missing"):
        task.read("train", records)
    errors: list[RecordError] = []
    assert task.read("train", records, errors.append).counts["records"] == 1
    assert [error.place for error in errors] == ["a.jsonl:3"]
    with pytest.raises(DataError, match="dev: found no entities in 0 records"):
        task.read("dev", records[:1], errors.append)


def test_training_leaves_out_windows_without_a_word(tokenizers: dict[str, Any]) -> None:
    task = make_task(tokenizers["wordpiece"], max_length=8)
    record = Record(id="1", text="asma " + "ab" * 40, entities=[entity("asma", "asma")])
    train, dev = (task.read(name, [record]) for name in ("train", "dev"))
    assert train.counts["windows"] == dev.counts["windows"] == len(dev.examples[0].inputs)
    assert len(train.examples[0].inputs) < len(dev.examples[0].inputs)
    assert all(len(window.firsts) for window in train.examples[0].inputs)


@pytest.mark.parametrize("pieces", ["first", "all"])
def test_entities_at_window_boundaries_are_found(tokenizers: dict[str, Any], pieces: Any) -> None:
    """An entity follows two words after `caso`; only overlapping windows contain both words."""
    text = "".join("caso e mg " + "due " * (number % 5) for number in range(30))
    entities = [{"start": found.start(), "end": found.end(), "type": "X"}
                for found in re.finditer("mg", text)]
    record = Record(id="1", text=text, entities=entities)
    found = {}
    for stride in (0, 12):
        task = make_task(tokenizers["wordpiece"], 26)
        task.config = NerConfig(26, stride=stride, label_pieces=pieces)
        [example] = task.read("train", [record]).examples
        assert len(example.inputs) > 3
        clue, *_ = task.checkpoint.tokenizer.encode("caso", add_special_tokens=False)
        outputs = []
        for window in example.inputs:
            shown = np.zeros((len(window), 1, 3), dtype=np.float32)
            shown[:, 0, 0] = 1.0
            clues = np.flatnonzero(window.ids == clue)
            words = task.checkpoint.tokenizer.convert_ids_to_tokens(window.ids.tolist())
            ordinals = np.cumsum([not one.startswith("##") for one in words])
            for place in np.flatnonzero(np.isin(ordinals, ordinals[clues] + 2)):
                shown[place, 0, 1 if not words[place].startswith("##") else 2] = 2.0
            outputs.append(task.trim(window, np.pad(shown, ((1, 1), (0, 0), (0, 0)))))
        scores = task.score([example], [outputs]).scores
        found[stride] = scores["f1"], scores.get("subtoken_f1", 1.0)
    assert found[0][0] < 1.0 and found[12] == (1.0, 1.0)


@pytest.mark.parametrize("labels", [["LABEL_0"], ["O", "X"], ["B-"], ["Q-X"]])
def test_labels_of_other_schemes_are_errors(tokenizer: Any, labels: list[str]) -> None:
    task = make_task(tokenizer)
    task.accept_labels(["O", "B-X", "I-X"])
    with pytest.raises(CheckpointError, match=f"found labels {', '.join(labels)}, expected O"):
        task.accept_labels(labels)
    assert task.labels == ["O", "B-X", "I-X"]


# Tags


WORDS = np.stack([np.arange(30), np.arange(30) + 1], axis=1)
SEQEVAL = str.maketrans("LU", "ES")


@pytest.mark.parametrize(("scheme", "tags"), [
    ("bio", "O B-X I-X I-X B-X O B-Y"), ("io", "O I-X I-X I-X I-X O I-Y"),
    *((name, "O B-X I-X L-X U-X O U-Y") for name in ("bioul", "bilou", "iobes"))])
def test_words_are_tagged_in_each_scheme(scheme: str, tags: str) -> None:
    found, faults = tag_words(WORDS[:7], [(1, 4, "X"), (4, 5, "X"), (6, 7, "Y")], scheme)
    assert found == tags.split() and not faults


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_recovers_its_entities(scheme: str) -> None:
    rng = random.Random(0)
    for _ in range(200):
        borders = sorted(rng.sample(range(30), 8))
        given = [(start, end, rng.choice("XY"))
                 for start, end in zip(borders[::2], borders[1::2], strict=True)]
        tags, _ = tag_words(WORDS, given, scheme)
        assert tags_to_spans(tags) == given
        assert set(tags) <= set(group_labels(scheme, "XY", False)[0])
        assert all(map(can_follow, [scheme] * 29, tags, tags[1:]))


@pytest.mark.parametrize("scheme", ["bio", "bioul"])
def test_allowed_transitions_equal_transitions_in_entities(scheme: str) -> None:
    """Entities of up to three words produce exactly the allowed pairs of tags."""
    labels = group_labels(scheme, "XY", False)[0]
    made = set()
    spans = [(start, end) for start in range(4) for end in range(start + 1, 5)]
    for first in spans:
        for second in [*spans, (9, 9)]:
            if second[0] >= first[1]:
                for kinds in ("XX", "XY", "YX", "YY"):
                    tags, _ = tag_words(WORDS[:5], [(*first, kinds[0]), (*second, kinds[1])][
                        :1 + (second[0] < 9)], scheme)
                    made |= set(pairwise(tags))
    made.add(("O", "O"))
    assert made == {(one, other) for one in labels for other in labels
                    if can_follow(scheme, one, other)}


@pytest.mark.parametrize("letters", ["BIO", "BILUO", "IO"])
def test_spans_of_every_scheme_equal_seqeval(letters: str) -> None:
    sequence_labeling = pytest.importorskip("seqeval.metrics.sequence_labeling")
    rng = random.Random(1)
    choices = ["O", *(f"{letter}-{kind}" for letter in letters[:-1] for kind in ("X", "a-b"))]
    for _ in range(500):
        tags = rng.choices(choices, k=12)
        theirs = [(start, end + 1, kind) for kind, start, end in sequence_labeling.get_entities(
            [tag[:1].translate(SEQEVAL) + tag[1:] for tag in tags])]
        assert tags_to_spans(tags) == theirs


def test_strict_spans_equal_seqeval() -> None:
    scheme = pytest.importorskip("seqeval.scheme")
    rng = random.Random(2)
    for _ in range(500):
        tags = rng.choices(["O", "B-X", "I-X", "B-Y", "I-Y"], k=12)
        [theirs] = scheme.Entities([tags], scheme.IOB2).entities
        assert iob2_spans(tags) == [(one.start, one.end, one.tag) for one in theirs]
