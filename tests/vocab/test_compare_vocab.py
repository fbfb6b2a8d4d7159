"""Comparison of vocabularies on the same text, entities and terms."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertTokenizer, BertTokenizerFast

from bmtools.corpus.formats.sets.conll import conll_records
from bmtools.errors import DataError
from bmtools.records import Record
from bmtools.vocab.compare_vocab import Term, compare_terms, compare_vocab, read_terms
from bmtools.vocab.loading import Vocabulary, load_vocabulary

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CHARACTERS = [*"abcdefghijklmnopqrstuvwxyz-.", *(f"##{one}" for one in
                                                 "abcdefghijklmnopqrstuvwxyz")]
RECORDS = [
    Record(id="1", title="Asma", text="asma e diabete, asma-like.", entities=[
        {"start": 0, "end": 4, "type": "Disease"},
        {"start": 7, "end": 14, "type": "Disease"},
        {"start": 16, "end": 25, "type": "Disease"}]),
    Record(id="2", text="il farmaco", entities=[{"start": 3, "end": 10, "type": "Drug"}]),
    Record(id="3", text="asma\te \u05d0", entities=[
        {"start": 0, "end": 6, "type": "Disease", "spans": [[0, 4], [5, 6]]}])]


def wordpiece(*words: str) -> Vocabulary:
    tokens = [*SPECIAL, *CHARACTERS, *words]
    tokenizer = BertTokenizer(vocab={token: n for n, token in enumerate(tokens)})
    return Vocabulary(tokenizer.backend_tokenizer, uncased=True)


def lines_of(*arguments: Any, **settings: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {(line["vocabulary"], line["scope"]): line
            for line in compare_vocab(*arguments, **settings)}


def figures(line: dict[str, Any], *keys: str) -> tuple[Any, ...]:
    return tuple(line[key] for key in keys)


PAIR = {"whole": wordpiece("asma", "diabete", "like"), "letters": wordpiece("as", "##ma")}


def test_numbers_of_a_hand_worked_text() -> None:
    found = lines_of(PAIR, RECORDS)
    # asma asma e diabete asma like il farmaco asma e א: eleven words, and the signs , - .
    whole, letters = found["whole", "text"], found["letters", "text"]
    assert figures(whole, "words", "pieces", "tokens") == (11, 4 + 2 + 1 + 1 + 2 + 7 + 1, 18 + 3)
    assert figures(letters, "words", "pieces", "tokens") == (11, 30, 30 + 3)  # 8+2+7+4+2+6+1
    assert figures(whole, "whole_share", "unknown_share") == (round(8 / 11, 4), round(1 / 11, 4))
    assert figures(letters, "whole_share", "pieces_per_word") == (0.1818, round(30 / 11, 4))
    assert figures(letters, "tokens_per_1000_words", "relative_tokens") == (3000.0, 1.5714)
    assert whole["relative_tokens"] == 1


def test_each_mention_of_an_entity_counts() -> None:
    found = lines_of(PAIR, RECORDS)
    assert list(found)[:8] == [(name, scope) for scope in (
        "text", "entities", "entities:Disease", "entities:Drug") for name in PAIR]
    disease = found["letters", "entities:Disease"]
    # asma, diabete, asma-like, asma e: six words, one sign.
    assert figures(disease, "mentions", "words", "tokens") == (4, 6, 18 + 1)
    assert figures(disease, "pieces", "pieces_per_word") == (18, 3)
    assert disease["whole_mentions_share"] == 0
    assert found["whole", "entities:Disease"]["whole_mentions_share"] == 0.5
    both, drug = found["whole", "entities"], found["whole", "entities:Drug"]
    assert figures(both, "mentions", "words", "tokens") == (5, 7, 7 + 7)
    assert figures(drug, "words", "pieces") == (1, 7)


def test_worst_and_costliest_terms_are_ranked() -> None:
    records = [Record(id="1", text="farmaco asma asma asma like like il")]
    line = lines_of(PAIR, records, worst=2)["letters", "text"]
    assert line["worst"] == [
        {"term": "farmaco", "count": 1, "pieces": ["f", "##a", "##r", "##ma", "##c", "##o"]},
        {"term": "like", "count": 2, "pieces": ["l", "##i", "##k", "##e"]}]
    assert [one["term"] for one in line["costliest"]] == ["like", "farmaco"]
    line = lines_of(PAIR, [*records, *records], terms=[Term("asma")] * 9, worst=9)
    assert [one["term"] for one in line["letters", "text"]["costliest"]] == [
        "like", "farmaco", "asma", "il"]
    assert [one["term"] for one in line["whole", "text"]["worst"]] == ["farmaco", "il"]
    assert line["letters", "terms"]["worst"] == [
        {"term": "asma", "count": 9, "pieces": ["as", "##ma"]}]
    assert line["whole", "terms"]["worst"] == []


def test_terms_with_and_without_types_are_compared() -> None:
    found = lines_of(PAIR, [], [Term("asma", "disease"), Term("il"), Term("farmaco", "drug.x")])
    assert [scope for name, scope in found if name == "whole"] == [
        "terms", "terms:disease", "terms:drug.x"]
    assert figures(found["whole", "terms"], "mentions", "pieces") == (3, 1 + 2 + 7)
    assert "terms" not in {scope for _, scope in lines_of(PAIR, [], [Term("asma", "disease")])}


def test_terms_are_read_with_their_types(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("asma\tdisease\n\n il farmaco \r\n", encoding="utf-8")
    assert list(read_terms(str(path))) == [Term("asma", "disease"), Term("il farmaco")]
    for line in ("a\tb\tc", "\tdisease"):
        path.write_text(f"asma\n{line}\n")
        with pytest.raises(DataError, match=f"{path}:2: found .*expected a term"):
            list(read_terms(str(path)))


def judged(tokenizer: Any, texts: Counter[str]) -> int:
    """Encode each text with transformers."""
    return sum(count * len(tokenizer.tokenize(text)) for text, count in texts.items())


NAMES = ("bert-base-uncased", "scibert-scivocab-uncased", "covid-electra-50k-uncased")


@pytest.fixture(scope="module")
def found(data: Path) -> dict[tuple[str, str], dict[str, Any]]:
    records = conll_records([str(data / "en/ner/BC5CDR/train.tsv")])
    return lines_of({name: load_vocabulary(data / "vocab" / f"{name}.txt")
                     for name in NAMES}, records)


@pytest.mark.data
@pytest.mark.parametrize("name", NAMES)
def test_real_entities_against_transformers(data: Path, found: Any, name: str) -> None:
    """All mentions of BC5CDR."""
    tokenizer = BertTokenizerFast(str(data / "vocab" / f"{name}.txt"), do_lower_case=True)
    for kind in ("Chemical", "Disease"):
        mentions = Counter(
            record["text"][entity["start"]:entity["end"]]
            for record in conll_records([str(data / "en/ner/BC5CDR/train.tsv")])
            for entity in record["entities"] if entity["type"] == kind)
        line = found[name, f"entities:{kind}"]
        assert line["mentions"] == mentions.total()
        assert line["tokens"] == judged(tokenizer, mentions)
        signs = sum(count * sum(one.isspace() or not one.isalnum() for one in mention)
                    for mention, count in mentions.items())
        # Every sign in these mentions is a separate token, except for spaces.
        spaces = sum(count * mention.count(" ") for mention, count in mentions.items())
        assert line["pieces"] == line["tokens"] - (signs - spaces)


@pytest.mark.data
def test_in_domain_and_larger_vocabularies_break_fewer_words(data: Path, found: Any) -> None:
    """Shin et al. 2020, table 3: in-domain and larger vocabularies break entities less often.

    The vocabularies here have 8k, 16k and 30k tokens, trained on drug reviews.
    """
    def rates(kind: str) -> list[float]:
        return [found[name, f"entities:{kind}"]["pieces_per_word"] for name in NAMES]

    chemical, disease = rates("Chemical"), rates("Disease")
    assert chemical == pytest.approx([2.944, 2.108, 1.230], abs=1e-3)  # paper: 3.012, 1.654, 1.478
    assert disease == pytest.approx([2.146, 1.367, 1.065], abs=1e-3)  # paper: 2.42, 1.236, 1.116


def test_terms_are_shown_with_pieces_and_labels() -> None:
    """Shin et al. 2020, figure 1: labels of words, and of all pieces."""
    lines = [*compare_terms(PAIR, RECORDS, [Term("asma"), Term("asma  \u05d0", "x")])]
    assert [(line["term"], line.get("type"), line["count"]) for line in lines] == [
        ("asma", "Disease", 1), ("diabete", "Disease", 1), ("asma-like", "Disease", 1),
        ("farmaco", "Drug", 1), ("asma e", "Disease", 1), ("asma", None, 1),
        ("asma \u05d0", "x", 1)]
    assert lines[2]["vocabularies"] == {
        "whole": {"whole": False, "pieces": ["asma", "-", "like"], "first": ["B", "I", "I"],
                  "all": ["B", "I", "I"]},
        "letters": {"whole": False, "pieces": ["as", "##ma", "-", "l", "##i", "##k", "##e"],
                    "first": ["B", "-", "I", "I", "-", "-", "-"], "all": ["B", *"IIIIII"]}}
    assert [one["whole"] for one in lines[0]["vocabularies"].values()] == [True, False]
    assert lines[-1]["vocabularies"]["whole"]["pieces"] == ["asma", "[UNK]"]
    [unknown] = compare_terms({"a": PAIR["whole"]}, [], [Term("\u05d0")])
    assert unknown["vocabularies"]["a"]["whole"] is False
    with pytest.raises(DataError, match="no entities in the input"):
        next(compare_terms(PAIR, [Record(id="1", text="asma")]))


def test_byte_level_terms_are_encoded_after_a_space() -> None:
    tokens = ["[UNK]", *sorted(pre_tokenizers.ByteLevel.alphabet()), "as", "ma", "asma", "Ġasma"]
    backend = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, [
        ("a", "s"), ("m", "a"), ("as", "ma"), ("Ġ", "asma")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole, two = compare_terms({"b": Vocabulary(backend, uncased=False)}, [],
                               [Term("asma"), Term("asma la")])
    assert whole["vocabularies"]["b"] == {"whole": True, "pieces": ["Ġasma"], "first": ["B"],
                                          "all": ["B"]}
    assert two["vocabularies"]["b"]["pieces"] == ["Ġasma", "Ġ", "l", "a"]
    assert two["vocabularies"]["b"]["first"] == ["B", "I", "-", "-"]


@pytest.mark.data
def test_seventeen_terms_of_blurb_agree_with_the_paper(data: Path) -> None:
    """Gu et al. 2021, table 1: terms in the vocabularies of BERT and SciBERT.

    All ticks agree. All terms are one token in the in-domain vocabulary, as in PubMedBERT's.
    """
    everywhere = ("diabetes", "leukemia", "lithium", "insulin", "DNA", "promoter")
    scientific = ("hypertension", "nephropathy", "lymphoma", "lidocaine")
    own = ("oropharyngeal", "cardiomyocyte", "chloramphenicol", "RecA", "acetyltransferase",
           "clonidine", "naloxone")
    terms = [Term(text, kind) for kind, texts in (
        ("BERT", everywhere), ("SciBERT", scientific), ("PubMedBERT", own)) for text in texts]
    found = lines_of({name: load_vocabulary(data / "vocab" / f"{name}.txt") for name in NAMES},
                     [], terms, worst=17)

    def whole(name: str) -> list[float]:
        return [found[name, f"terms:{kind}"]["whole_mentions_share"]
                for kind in ("BERT", "SciBERT", "PubMedBERT")]

    assert [whole(name) for name in NAMES] == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    ticks = [[one["whole"] for one in line["vocabularies"].values()] for line in compare_terms(
        {name: load_vocabulary(data / "vocab" / f"{name}.txt") for name in NAMES}, [], terms)]
    assert ticks == 6 * [[True] * 3] + 4 * [[False, True, True]] + 7 * [[False, False, True]]
    assert found[NAMES[0], "terms"]["worst"][0] == {
        "term": "acetyltransferase", "count": 1,
        "pieces": ["ace", "##ty", "##lt", "##ran", "##sf", "##eras", "##e"]}
