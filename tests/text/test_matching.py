"""Word search with arrays, compared with a search at every position."""

# ruff: noqa: RUF001
from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest
from tokenizers import normalizers

from bmtools.text.case_folding import CASELESS, EXACT, Folding
from bmtools.text.matching import Matcher
from bmtools.text.word_lists import WordList

BERT = json.dumps({"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                   "strip_accents": None, "lowercase": True})
Place = tuple[int, str, int, int]


def find(rule: str, words: Sequence[str], *texts: str) -> list[Place]:
    folding = Folding(rule)
    found = Matcher([folding.string(word) for word in words], folding).find(texts)
    return [(text, words[word], start, end) for text, word, start, end in zip(
        found.texts.tolist(), found.words.tolist(), found.starts.tolist(), found.ends.tolist(),
        strict=True)]


def said(rule: str, words: Sequence[str], text: str) -> list[str]:
    return [text[start:end] for _, _, start, end in find(rule, words, text)]


def search(rule: str, words: Sequence[str], text: str) -> list[Place]:
    """Compare every stretch of a text."""
    folding = Folding(rule)
    wanted = {folding.string(word): word for word in words}
    longest = 3 * max(map(len, words))
    # Marks that vanish belong to the previous letter.
    found = {(folded, start): end for start in range(len(text))
             if not unicodedata.combining(text[start]) and not text[start].isspace()
             for end in range(start + 1, min(len(text), start + longest) + 1)
             if not text[start:end].rstrip("\u0301\u0308\u3099")[-1:].isspace()
             and (folded := folding.string(text[start:end])) in wanted
             and not touched(text, start, -1, rule) and not touched(text, end - 1, 1, rule)}
    return [(0, wanted[folded], start, end) for (folded, start), end in found.items()]


def touched(text: str, inner: int, step: int, rule: str) -> bool:
    outer = inner + step
    while rule == BERT and 0 <= outer < len(text) and unicodedata.combining(text[outer]):
        outer += step
    while rule == BERT and unicodedata.combining(text[inner]):
        inner -= 1
    return (0 <= outer < len(text) and joins(text[outer])
            and (joins(text[inner]) or unicodedata.category(text[inner])[0] not in "LNM"))


def joins(character: str) -> bool:
    spaced = not any(name in unicodedata.name(character, "") for name in
                     ("CJK", "HIRAGANA", "KATAKANA", "THAI"))
    return unicodedata.category(character)[0] in "LNM" and spaced


@pytest.mark.parametrize(("rule", "alphabet", "words"), [
    (EXACT, ["a", "b", "A", " ", "-", "e\u0301", "é", ".", "  "],
     ["a", "ab", "é", "aé", "a-b", "b a", "abab", "Ab", "-a", "b."]),
    (CASELESS, ["s", "ß", "S", " ", "Σ", "ς", "σ", "-", "İ", "i\u0307"],
     ["ss", "ß s", "σ", "σς", "i̇s", "S-S", "sss"]),
    (BERT, ["肝", "癌", "a", "B", " ", "か", "\u3099", "é", "-"],
     ["肝", "肝癌", "b肝", "癌 癌", "ab", "か", "a-か", "肝a", "かか"]),
    (BERT, ["л", "Ё", "е\u0308", " ", "ο", "Ό", "1", "_", "\n"],
     ["ле", "е", "ое", "л1", "о", "1", "ο", "л е"]),
], ids=["accents", "caseless", "japanese", "greek and russian"])
def test_matches_equal_a_brute_force_search(rule: str, alphabet: list[str],
                                            words: list[str]) -> None:
    folding = Folding(rule)
    words = list({folding.string(word): word for word in words}.values())
    rng = random.Random(1)
    total = 0
    for _ in range(150):
        text = "".join(rng.choices(alphabet, k=rng.randrange(40)))
        found = find(rule, words, text)
        assert sorted(found) == sorted(search(rule, words, text)), ascii(text)
        total += len(found)
    assert total > 80


@pytest.mark.parametrize(("words", "text", "expected"), [
    (["TNF-alpha", "TNF"], "TNF-alpha, TNF-alphas and aTNF-alpha", ["TNF", "TNF-alpha", "TNF"]),
    (["myocardial infarction"], "Myocardial\n infarction of myocardial infarctions",
     ["Myocardial\n infarction"]),
    (["IL-2"], "IL-2 IL-21 (IL-2) anti-IL-2", ["IL-2", "IL-2", "IL-2"]),
    (["(+)-catechin"], "x(+)-catechin and (+)-catechin", ["(+)-catechin"]),
    (["asma"], "l'asma asmatico plasma Asma", ["asma", "Asma"]),
    (["perché"], "perche\u0301 perche perché PERCHE\u0301 perchés",
     ["perche\u0301", "perché", "PERCHE\u0301"]),
    (["λέμφωμα", "ΟΔΟΣ"], "ΛΈΜΦΩΜΑ, λε\u0301μφωμα, λεμφωματος, οδος", ["ΛΈΜΦΩΜΑ", "λε\u0301μφωμα",
                                                                       "οδος"]),
    (["йод"], "ЙОД йода и\u0306од", ["ЙОД", "и\u0306од"]),
    (["Straße"], "STRASSE, Strasse, Straßen", ["STRASSE", "Strasse"]),
    (["İzmir"], "i\u0307zmir izmir İZMIR", ["i\u0307zmir", "İZMIR"]),
    (["リンパ腫", "B型肝炎"], "悪性リンパ腫です。B型肝炎、AB型肝炎", ["リンパ腫", "B型肝炎"]),
    (["lymphoma"], "lym\u00adphoma\u00ad lymphoma_x", ["lym\u00adphoma", "lymphoma"]),
])
def test_only_complete_words_match(words: list[str], text: str, expected: list[str]) -> None:
    assert said(CASELESS, words, text) == expected


def test_words_are_folded_once() -> None:
    """Folding Greek again after accents are removed would change the word."""
    steps = [normalizers.Replace("α", "alpha"), normalizers.NFD(), normalizers.StripAccents()]
    rule = json.dumps(json.loads(normalizers.Sequence(steps).__getstate__()))
    words = WordList.of(["TNF-ά", "α"], rule)
    matcher = Matcher(words.folded, Folding(rule))
    text = "TNF-ά, α, TNF-α"
    found = matcher.find([text])
    assert [(words.words[number], text[start:end]) for number, start, end
            in zip(found.words, found.starts, found.ends, strict=True)] == [
                ("TNF-ά", "TNF-ά"), ("α", "α"), ("α", "α")]


def test_many_words_are_found_in_long_text() -> None:
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefgh"))
    vocabulary = ["".join(rng.choice(letters, rng.integers(1, 9))) for _ in range(3_000)]
    words = list(dict.fromkeys(vocabulary[:1_500]))
    tokens = rng.choice(vocabulary, 40_000).tolist()
    found = find(EXACT, words, " ".join(tokens))
    wanted = set(words)
    assert [word for _, word, _, _ in found] == [token for token in tokens if token in wanted]
