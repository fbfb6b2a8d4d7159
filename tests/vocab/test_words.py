"""Words that are the same for every tokenizer, and their fragmentation by each type."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import BertTokenizer

from bmtools.vocab import words
from bmtools.vocab.loading import load_vocabulary
from bmtools.vocab.words import (
    ChunkWords,
    Fragmentation,
    WordCounter,
    count_words_of,
    encode_words,
    find_words,
    fragmentation,
)


@pytest.mark.parametrize(("text", "words"), [
    ("The beta-blocker (50mg) didn't help.", "The beta blocker 50mg didn t help"),
    ("CYP2D6, IL-2 and H1N1", "CYP2D6 IL 2 and H1N1"),
    ("l'asma: 0,5 ml/kg", "l asma 0 5 ml kg"),
    ("snake_case <b>TNF-\u03b1</b> x² µg", "snake case b TNF \u03b1 b x² µg"),
    ("Größe naïve cafe\u0301", "Größe naïve cafe\u0301"),
    ("मधुमेह रोग है।", "मधुमेह रोग है"),
    ("مرض السكري، نوع ٢", "مرض السكري نوع ٢"),
    ("می\u200cشود \u200fسیب\u200f", "می\u200cشود سیب"),
    ("東京 のどの 病院。心臓", "東 京 のどの 病 院 心 臓"),
    ("\ufeffone\u00a0two\u2003three\u200bfour", "one two three four"),
    ("co\u00adoperate \u00ad - \u0301 … ❤️ ++", "co\u00adoperate"),
    ("", ""),
])
def test_words_of_many_scripts_are_found(text: str, words: str) -> None:
    assert find_words(text) == words.split(" ") if words else find_words(text) == []


def test_every_letter_and_number_is_in_a_word() -> None:
    """Compare every character with its Unicode category."""
    for code in range(0x20000):
        character = chr(code)
        if unicodedata.category(character)[0] in "LN":
            assert find_words(f"a {character} b") == ["a", character, "b"], hex(code)
        elif unicodedata.category(character)[0] in "PSZC" and not "\ud800" <= character <= "\udfff":
            assert "".join(find_words(f"({character})")) == "", hex(code)


def test_word_counter_equals_find_words() -> None:
    texts = ["a b-c a", "c. a,b", "\tb\n", ""]
    expected = Counter(word for text in texts for word in find_words(text))
    assert count_words_of(dict.fromkeys(texts, 2)) == expected + expected
    assert expected == {"a": 3, "b": 3, "c": 2}
    counter = WordCounter()
    for text in texts:
        counter.add([text])
    assert counter.words() == expected


def test_a_segmenter_finds_words_without_spaces() -> None:
    def starts(text: str) -> list[int]:
        return [0, *(number for number in range(1, len(text)) if number % 2 == 0)]

    assert find_words("心臓病院。東", starts) == ["心臓", "病院", "東"]
    assert count_words_of({"心臓病院": 1, "心臓": 1}, starts) == {"心臓": 2, "病院": 1}
    assert count_words_of({"心臓病院": 1}) == {"心": 1, "臓": 1, "病": 1, "院": 1}
    counter = WordCounter(starts)
    counter.add(["心臓病院。東"])
    assert counter.words() == {"心臓": 1, "病院": 1, "東": 1}


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
         "cuore", "cu", "##or", "##e", "l", "##ym", "##ph", "##oma", "dna"]
PLAIN = "il cuore batte nel petto del paziente e il paziente ha il diabete mellito " \
        "la mobilità è ridotta perché 42 naïve"


def wordpiece() -> Tokenizer:
    return BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)},
                         do_lower_case=True).backend_tokenizer


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([f" {PLAIN[:60]}"] * 5, trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>"], show_progress=False))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def metaspace(prepend: str = "always") -> Tokenizer:
    pieces = sorted(set(PLAIN) - {" "})
    scores = [("<unk>", 0.0), ("▁", -2.0), ("▁il", -1.0), ("▁paziente", -1.0), ("cuor", -1.5),
              *((piece, -4.0) for piece in pieces if piece not in "42")]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend)
    return tokenizer


def prepended() -> Tokenizer:
    """Return a tokenizer like Llama's: normalizers write spaces, and texts are not split."""
    tokenizer = metaspace()
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return tokenizer


def test_fragmentation_of_a_hand_worked_example() -> None:
    words = {"Cuore": 3, "cuor": 2, "lymphoma": 4, "DNA": 5, "東": 1, "xyz": 2}
    found = fragmentation(wordpiece(), words)
    assert found == Fragmentation(words=17, pieces=3 * 1 + 2 * 2 + 4 * 4 + 5 + 1 + 2,
                                  whole=3 + 5, unknown=1 + 2)
    assert found.shares() == {"pieces_per_word": round(31 / 17, 4),
                              "whole_share": round(8 / 17, 4), "unknown_share": round(3 / 17, 4)}


@pytest.mark.parametrize("make", [wordpiece, byte_level, metaspace, lambda: metaspace("first"),
                                  lambda: metaspace("never"), prepended],
                         ids=["WordPiece", "byte-level BPE", "Metaspace", "Metaspace first",
                              "Metaspace never", "prepended by normalizers"])
def test_encoded_words_equal_the_encoded_text(make: Callable[[], Any]) -> None:
    """Compare with a text of words and spaces that is encoded after a first word."""
    tokenizer = make()
    first = tokenizer.encode("il", add_special_tokens=False).ids
    whole = tokenizer.encode(f"il {PLAIN}", add_special_tokens=False).ids[len(first):]
    apart = [number for ids in encode_words(tokenizer, PLAIN.split()) for number in ids]
    assert apart == whole
    assert fragmentation(tokenizer, dict.fromkeys(PLAIN.split(), 1)).pieces \
        == sum(map(len, encode_words(tokenizer, dict.fromkeys(PLAIN.split()))))


def test_tokens_across_words_are_counted_once() -> None:
    tokenizer = Tokenizer(models.BPE(
        {"a": 0, "▁": 1, "c": 2, "▁c": 3, "a▁c": 4, "o": 5}, [("▁", "c"), ("a", "▁c")]))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    assert tokenizer.encode("a co").tokens == ["a▁c", "o"]
    [ids] = encode_words(tokenizer, ["co"])
    assert [tokenizer.id_to_token(number) for number in ids] == ["▁c", "o"]


@pytest.mark.data
def test_examples_of_the_papers(data: Any) -> None:
    """Gu et al. 2021, section 3.2; Pavlova and Makhlouf 2023, figure 2."""
    def pieces(name: str, word: str) -> list[str]:
        backend = load_vocabulary(data / "vocab" / name).backend
        return [backend.id_to_token(number) for number in next(encode_words(backend, [word]))]

    general, own = "bert-base-uncased.txt", "covid-electra-50k-uncased.txt"
    assert pieces(general, "lymphoma") == ["l", "##ym", "##ph", "##oma"]
    assert pieces(general, "acetyltransferase") == ["ace", "##ty", "##lt", "##ran", "##sf",
                                                    "##eras", "##e"]
    assert len(pieces(general, "bronchoconstriction")) == 6
    for word in ("lymphoma", "acetyltransferase", "bronchoconstriction"):
        assert pieces(own, word) == [word]


TEXTS = ("L'asma (grave), x-ray 0.5\u00a0mg", "Tosse\tasma\nH\u2082O 日本語", "", " - ")


@pytest.mark.parametrize("most_chunks", [0, 2, 100])
def test_chunk_words_equal_words_of_complete_texts(most_chunks: int,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_MOST_CHUNKS", most_chunks)
    chunks = ChunkWords()
    assert [chunks.number(text) for text in TEXTS] == [len(find_words(text)) for text in TEXTS]
    assert chunks.frequencies(TEXTS) == Counter(
        word for text in TEXTS for word in find_words(text))
    assert len(chunks) <= most_chunks
