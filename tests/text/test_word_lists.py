"""Words to search for, from files and vocabularies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from bmtools.errors import DataError
from bmtools.text.case_folding import CASELESS, EXACT
from bmtools.text.word_lists import WordList, new_words, read_word_list


def wordpiece(*tokens: str, lowercase: bool = True) -> Tokenizer:
    special = ["[PAD]", "[UNK]", "[unused0]"]
    backend = Tokenizer(models.WordPiece(
        vocab={token: number for number, token in enumerate([*special, *tokens])},
        unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.add_special_tokens(special[:2])
    return backend


def test_words_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("Lymphoma\n\n TNF-alpha \r\nlymphoma\nmyocardial  infarction\n2\n")
    exact = read_word_list(str(path), EXACT)
    assert exact.words == ("Lymphoma", "TNF-alpha", "lymphoma", "myocardial  infarction", "2")
    assert exact.folded[3] == "myocardial infarction"
    assert read_word_list(str(path), CASELESS) == WordList(
        ("Lymphoma", "TNF-alpha", "myocardial  infarction", "2"),
        ("lymphoma", "tnf-alpha", "myocardial infarction", "2"), CASELESS)


@pytest.mark.parametrize(("content", "message"), [
    ("", r"words.txt: found no words, expected one per line"),
    (" \n\n", r"words.txt: found no words, expected one per line"),
    ("asma\n+++\n", r"words.txt:2: found '\+\+\+', which contains no letter or digit"),
    ("\u00ad\n", r"words.txt:1: found '\\xad', which contains no letter")])
def test_files_without_words_are_errors(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "words.txt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_word_list(str(path), EXACT)


def test_new_words_begin_a_word_and_contain_a_letter() -> None:
    new = wordpiece("asma", "##oma", "linfoma", "12", "b12", ".", "[MASK]x")
    assert new_words(new, None).words == ("asma", "linfoma", "b12", "[MASK]x")
    found = new_words(new, wordpiece("asma", "oma", "##linfoma"))
    assert found.words == ("linfoma", "b12", "[MASK]x")
    assert json.loads(found.rule)["type"] == "BertNormalizer"
    with pytest.raises(DataError, match="found no word in tokenizer that is missing in base"):
        new_words(new, new)


def test_words_of_byte_level_vocabularies_are_decoded() -> None:
    backend = Tokenizer(models.BPE(
        vocab={token: number for number, token in enumerate(
            ["a", "Ġlymph", "oma", "Ġperché".replace("é", "Ã©"), "Ġ12"])}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert new_words(backend, None) == WordList(("lymph", "perché"), ("lymph", "perché"), "null")
    assert new_words(backend, wordpiece("lymph")).words == ("perché",)
