"""Encodings of pairs: the texts that a model reads, and the tokens that are pooled."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bmtools.corpus.formats.sets.ddi import ddi_records
from bmtools.records import Record
from bmtools.tasks.entity_pairs import (
    Candidate,
    encode_pairs,
    find_candidates,
    keep_around,
    label_candidates,
    mark,
)
from bmtools.tasks.settings import RelationsConfig

TEXT = "Anti-TNF drugs block TNF."
BLURB = "@CHEMICAL$ @GENE$ @CHEM-GENE$"
SPANS = {"apart": ((0, 8), (21, 24)), "reverse": ((21, 24), (0, 8)), "nested": ((0, 8), (5, 8)),
         "same": ((5, 8), (5, 8)), "crossing": ((0, 8), (5, 14))}


def pair(name: str, start: int = 0) -> Candidate:
    (head, head_end), (tail, tail_end) = SPANS[name]
    return Candidate({"id": "1", "start": head, "end": head_end, "type": "DRUG"},
                     {"id": "2", "start": tail, "end": tail_end, "type": "GENE"}, start, len(TEXT))


@pytest.mark.parametrize(("name", "settings", "text", "pooled"), [
    ("apart", {"entities": "original"}, TEXT, ("Anti-TNF", "TNF")),
    ("apart", {}, "@DRUG$ drugs block @GENE$.", ("@DRUG$", "@GENE$")),
    ("reverse", {}, "@GENE$ drugs block @DRUG$.", ("@DRUG$", "@GENE$")),
    ("nested", {}, "@DRUG-GENE$ drugs block TNF.", ("@DRUG-GENE$", "@DRUG-GENE$")),
    ("crossing", {"placeholders": BLURB}, "@CHEM-GENE$ block TNF.", ("@CHEM-GENE$",) * 2),
    ("apart", {"placeholders": "@C$ @G$"}, "@C$ drugs block @G$.", ("@C$", "@G$")),
    ("apart", {"entities": "marked"}, "[E1] Anti-TNF [/E1] drugs block [E2] TNF [/E2].",
     ("Anti-TNF", "TNF")),
    ("reverse", {"entities": "marked", "markers": "@ @ # #"},
     "# Anti-TNF # drugs block @ TNF @.", ("TNF", "Anti-TNF")),
    ("reverse", {"entities": "marked", "pooling": "starts"},
     "[E2] Anti-TNF [/E2] drugs block [E1] TNF [/E1].", ("[E1]", "[E2]")),
    ("nested", {"entities": "marked"}, "[E1] Anti-[E2] TNF [/E2] [/E1] drugs block TNF.",
     ("Anti-[E2] TNF [/E2]", "TNF")),
    ("same", {"entities": "marked"}, "Anti-[E1] [E2] TNF [/E2] [/E1] drugs block TNF.",
     ("[E2] TNF [/E2]", "TNF")),
    ("crossing", {"entities": "marked"}, "[E1] Anti-[E2] TNF [/E1] drugs [/E2] block TNF.",
     ("Anti-[E2] TNF", "TNF [/E1] drugs")),
])
def test_entities_are_replaced_or_marked(name: str, settings: dict[str, Any], text: str,
                                         pooled: tuple[str, str]) -> None:
    found = mark(TEXT, pair(name), RelationsConfig(**settings))
    assert found.text == text
    assert tuple(found.text[start:end] for start, end in found.pooled) == pooled
    for kept, inside in zip(found.kept, found.pooled, strict=True):
        assert kept[0] <= inside[0] and inside[1] <= kept[1]


def test_the_tokens_of_both_mentions_are_pooled(tokenizer: Any) -> None:
    """In full and cut texts, the pooled tokens spell the mention."""
    text = "Il paziente ha l'ipertensione arteriosa, e il diabete mellito. " * 9
    end = text.rindex("diabete mellito") + 15
    candidate = Candidate({"id": "1", "start": 17, "end": 39, "type": "X"},
                          {"id": "2", "start": end - 15, "end": end, "type": "Y"}, 0, len(text))
    marked = mark(text, candidate, RelationsConfig(entities="original"))
    whole, cut = (next(encode_pairs(tokenizer, [marked], size)) for size in (1000, 60))
    assert not whole.truncated and len(cut) == 60
    assert cut.truncated == len(whole) - len(cut)
    for found in (whole, cut):
        head, tail = (re.sub("[^a-z]", "", tokenizer.decode(found.ids[tokens]))
                      for tokens in found.mentions)
        assert head.endswith("ipertensionearteriosa")
        assert tail == "diabetemellito"
        assert found.ids[0] == tokenizer.cls_token_id
        assert found.ids[-1] == tokenizer.sep_token_id


def test_cut_keeps_both_mentions_and_nearby_tokens() -> None:
    rng = random.Random(0)
    for _ in range(500):
        length, size = rng.randint(1, 60), rng.randint(6, 40)
        starts = [rng.randrange(length) for _ in range(2)]
        mentions = [np.arange(start, min(length, start + rng.randint(1, 5))) for start in starts]
        kept = keep_around(length, mentions, size)
        assert len(kept) == min(length, size)
        assert (np.diff(kept) > 0).all()
        for mention in mentions:
            assert set(mention[:size // 2]) <= set(kept)
        low, high = min(map(min, mentions)), max(map(max, mentions))
        if high - low < size and max(map(len, mentions)) <= size // 2:
            assert set(range(low, high + 1)) <= set(kept)
    assert keep_around(100, [np.arange(10, 90), np.array([95])], 8).tolist() \
        == [*range(9, 15), 94, 95]
    assert keep_around(9, [np.array([], dtype=int)] * 2, 4).tolist() == [0, 1, 2, 3]


PLAIN = "Aspirin blocks COX-1. Ibuprofen blocks COX-2 and COX-1."
MENTIONS = [("Ibuprofen", "T3", "CHEMICAL"), ("Aspirin", "T1", "CHEMICAL"),
            ("COX-1", "T2", "GENE-Y"), ("COX-2", "T4", "GENE-N")]
ENTITIES = [{"id": name, "start": PLAIN.index(words), "end": PLAIN.index(words) + len(words),
             "type": kind} for words, name, kind in MENTIONS]


def record(**keys: Any) -> Record:
    return Record(id="1", text=PLAIN, lang="en", entities=ENTITIES, place="a.jsonl:3", **keys)


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
def test_types_and_sentences_limit_the_pairs(settings: dict[str, Any], expected: str) -> None:
    assert pairs(**settings) == expected.split()


def test_sentences_are_read_separately_and_do_not_split_entities() -> None:
    config = RelationsConfig(within="sentence")
    first, second = find_candidates(record(), ENTITIES, config)
    assert PLAIN[first.start:first.end] == "Aspirin blocks COX-1."
    assert PLAIN[second.start:second.end] == "Ibuprofen blocks COX-2 and COX-1."
    across = [*ENTITIES, {"id": "T5", "start": 15, "end": 31, "type": "X"}]
    assert {(one.start, one.end) for one in find_candidates(record(), across, config)} \
        == {(0, len(PLAIN))}


@pytest.mark.parametrize("directed", [False, True])
def test_labels_equal_a_second_implementation(directed: bool) -> None:
    """A pair gets its first relation's type; relations that labels cannot represent are missed."""
    config = RelationsConfig(directed=directed, types="A,B", head_types="", tail_types="",
                             no_relation_label="none")
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
            expected.append(wanted[0] if wanted else "none")
            if wanted:
                missed.discard((*(candidate.ends if directed else sorted(candidate.ends)),
                                wanted[0]))
        assert label_candidates(candidates, arcs, config) == (
            expected, sorted(kind for *_, kind in missed))


@pytest.mark.data
@pytest.mark.parametrize(("part", "total", "types"), [
    ("Train", 27792, {"advise": 826, "effect": 1687, "int": 189, "mechanism": 1319}),
    ("Test/Test for DDI Extraction task", 5716,
     {"advise": 221, "effect": 360, "int": 96, "mechanism": 302})])
def test_ddi_pairs_equal_the_published_counts(data: Path, part: str, total: int, types: dict[str,
                                              int]) -> None:
    """BLURB's table 3 has 22,233 + 5,559 and 5,716 pairs: all pairs of drugs in a sentence."""
    config, labels = RelationsConfig(), []
    for one in ddi_records([str(data / "en/re/DDI-2013/DDICorpus-2013.zip/DDICorpus" / part)]):
        found, missed = label_candidates(find_candidates(one, one["entities"], config),
                                         one["relations"], config)
        assert not missed
        labels += found
    assert len(labels) == total
    assert {kind: labels.count(kind) for kind in sorted(set(map(str, labels)) - {"false"})} == types
