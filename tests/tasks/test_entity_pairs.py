"""Encodings of pairs: the texts that a model reads, and the tokens that are pooled."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

from bmtools.tasks.entity_pairs import Candidate, encode_pairs, keep_around, mark
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
def test_entities_are_told_apart(name: str, settings: dict[str, Any], text: str,
                                 pooled: tuple[str, str]) -> None:
    found = mark(TEXT, pair(name), RelationsConfig(**settings))
    assert found.text == text
    assert tuple(found.text[start:end] for start, end in found.pooled) == pooled
    for kept, inside in zip(found.kept, found.pooled, strict=True):
        assert kept[0] <= inside[0] and inside[1] <= kept[1]


def test_only_the_part_that_is_read_is_marked() -> None:
    candidate = Candidate({"id": "1", "start": 9, "end": 14, "type": "X"},
                          {"id": "2", "start": 21, "end": 24, "type": "Y"}, 9, 24)
    assert mark(TEXT, candidate, RelationsConfig()).text == "@X$ block @Y$"


def test_the_tokens_of_both_mentions_are_pooled(tokenizer: Any) -> None:
    """In every family of tokenizers, cut or whole; a mention's tokens spell the mention."""
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


def test_a_cut_keeps_both_mentions_and_what_is_near() -> None:
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
