"""Candidate pairs and their labels, by hand and beside a brute-force twin."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from bmtools.corpus.formats.sets.ddi import ddi_records
from bmtools.errors import RecordError
from bmtools.records import Record
from bmtools.tasks.entity_pairs import find_candidates, label_candidates
from bmtools.tasks.settings import RelationsConfig

TEXT = "Aspirin blocks COX-1. Ibuprofen blocks COX-2 and COX-1."
MENTIONS = [("Ibuprofen", "T3", "CHEMICAL"), ("Aspirin", "T1", "CHEMICAL"),
            ("COX-1", "T2", "GENE-Y"), ("COX-2", "T4", "GENE-N")]
ENTITIES = [{"id": name, "start": TEXT.index(words), "end": TEXT.index(words) + len(words),
             "type": kind} for words, name, kind in MENTIONS]


def record(**keys: Any) -> Record:
    return Record(id="1", text=TEXT, lang="en", entities=ENTITIES, place="a.jsonl:3", **keys)


def pairs(**settings: Any) -> list[str]:
    return ["-".join(candidate.ends) for candidate in
            find_candidates(record(), ENTITIES, RelationsConfig(**settings))]


@pytest.mark.parametrize(("settings", "expected"), [
    ({}, "T1-T2 T1-T3 T1-T4 T2-T3 T2-T4 T3-T4"),
    ({"directed": True}, "T1-T2 T2-T1 T1-T3 T3-T1 T1-T4 T4-T1 T2-T3 T3-T2 T2-T4 T4-T2 T3-T4 T4-T3"),
    ({"head_types": "CHEMICAL", "tail_types": "GENE-Y, GENE-N"}, "T1-T2 T1-T4 T3-T2 T3-T4"),
    ({"head_types": "GENE-Y"}, "T2-T1 T2-T3 T2-T4"),
    ({"tail_types": "GENE-N", "directed": True}, "T1-T4 T2-T4 T3-T4"),
    ({"head_types": "CHEMICAL", "tail_types": "CHEMICAL"}, "T1-T3"),
    ({"within": "sentence"}, "T1-T2 T3-T4"),
])
def test_pairs_are_those_that_types_and_sentences_allow(settings: dict[str, Any],
                                                        expected: str) -> None:
    assert pairs(**settings) == expected.split()


def test_a_sentence_is_read_alone_and_is_not_cut_inside_an_entity() -> None:
    config = RelationsConfig(within="sentence")
    first, second = find_candidates(record(), ENTITIES, config)
    assert TEXT[first.start:first.end] == "Aspirin blocks COX-1."
    assert TEXT[second.start:second.end] == "Ibuprofen blocks COX-2 and COX-1."
    across = [*ENTITIES, {"id": "T5", "start": 15, "end": 31, "type": "X"}]
    assert {(one.start, one.end) for one in find_candidates(record(), across, config)} \
        == {(0, len(TEXT))}


@pytest.mark.parametrize("directed", [False, True])
def test_labels_agree_with_a_twin(directed: bool) -> None:
    """A pair has its first relation's type; whatever no label expresses is missed."""
    config = RelationsConfig(directed=directed, types="A,B", head_types="", tail_types="",
                             no_relation_label="none", other_types="drop")
    candidates = find_candidates(record(), ENTITIES, config)[:-2]
    rng = random.Random(0)
    for _ in range(200):
        arcs = [{"head": head, "tail": tail, "type": rng.choice(["A", "B", "C", "none"])}
                for head, tail in (rng.sample(["T1", "T2", "T3", "T4"], 2)
                                   for _ in range(rng.randrange(6)))]

        def joins(arc: dict[str, str], ends: tuple[str, str]) -> bool:
            own = arc["head"], arc["tail"]
            return own == ends or (not directed and own[::-1] == ends)

        expected = []
        missed = {(*((arc["head"], arc["tail"]) if directed else
                     sorted((arc["head"], arc["tail"]))), arc["type"])
                  for arc in arcs if arc["type"] in "AB"}
        for candidate in candidates:
            own = [arc["type"] for arc in arcs if joins(arc, candidate.ends)
                   and arc["type"] != "none"]
            wanted = [kind for kind in own if kind in "AB"]
            expected.append(wanted[0] if wanted else None if own else "none")
            if wanted:
                missed.discard((*(candidate.ends if directed else sorted(candidate.ends)),
                                wanted[0]))
        found = label_candidates(candidates, arcs, config)
        assert (found.pairs, found.missed) == (expected, sorted(kind for *_, kind in missed))
        assert found.other == sum(arc["type"] == "C" for arc in arcs)


def test_other_types_are_unrelated_unless_dropped() -> None:
    arcs = [{"head": "T1", "tail": "T2", "type": "CPR:1"}]
    for other, expected in (("false", "false"), ("drop", None)):
        config = RelationsConfig(types="CPR:3", other_types=other)
        candidates = find_candidates(record(), ENTITIES, config)
        assert label_candidates(candidates, arcs, config).pairs == [expected, *["false"] * 5]


def test_records_without_ids_or_language_are_refused() -> None:
    nameless = [ENTITIES[0], {"start": 0, "end": 2, "type": "X"}]
    with pytest.raises(RecordError, match=r"a.jsonl:3: key 'entities\[1\].id' is missing"):
        find_candidates(record(), nameless, RelationsConfig())
    with pytest.raises(RecordError, match=r"a.jsonl:3: found no language, expected the key 'lang'"):
        find_candidates(record().without("lang"), ENTITIES, RelationsConfig(within="sentence"))


@pytest.mark.data
@pytest.mark.parametrize(("part", "total", "types"), [
    ("Train", 27792, {"advise": 826, "effect": 1687, "int": 189, "mechanism": 1319}),
    ("Test/Test for DDI Extraction task", 5716,
     {"advise": 221, "effect": 360, "int": 96, "mechanism": 302})])
def test_the_pairs_of_ddi_are_the_corpus_s_own(data: Path, part: str, total: int,
                                               types: dict[str, int]) -> None:
    """BLURB's 22,233 + 5,559 and 5,716 pairs (its table 3): every two drugs of a sentence."""
    config, labels = RelationsConfig(), []
    for one in ddi_records([str(data / "en/re/DDI-2013/DDICorpus-2013.zip/DDICorpus" / part)]):
        found = label_candidates(find_candidates(one, one["entities"], config), one["relations"],
                                 config)
        assert not found.missed
        labels += found.pairs
    assert len(labels) == total
    assert {kind: labels.count(kind) for kind in sorted(set(map(str, labels)) - {"false"})} == types
