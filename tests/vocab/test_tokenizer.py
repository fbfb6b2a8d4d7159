"""Contents of tokenizers, and their files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, BertTokenizer

from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.tokenizer import (
    fingerprint,
    is_uncased,
    model_name,
    save_tokenizer,
    token_texts,
)

CASED = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Cuore", "cuore", "##re", "è"]


def blank(**settings: bool) -> BertTokenizer:
    return BertTokenizer(vocab={token: n for n, token in enumerate(CASED)}, **settings)


@pytest.mark.parametrize("lower", [True, False])
def test_casing_is_saved_and_loaded(tmp_path: Path, lower: bool) -> None:
    tokenizer = blank(do_lower_case=lower, strip_accents=False)
    save_tokenizer(tokenizer, tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["do_lower_case"] is lower
    again = load_tokenizer(tmp_path)
    assert is_uncased(again) is lower
    assert fingerprint(again) == fingerprint(tokenizer)
    assert AutoTokenizer.from_pretrained(tmp_path).tokenize("Cuore è") == [
        "cuore" if lower else "Cuore", "è"]
    assert (tmp_path / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1] == CASED


def byte_level(tokens: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>"])
    return tokenizer


def test_token_texts_are_equal_for_all_types() -> None:
    bert = BertTokenizer(vocab={token: number for number, token in enumerate(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused7]", "lymph", "##oma", "è", "["])})
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁lymph", -1.0), ("oma", -1.0),
                                        ("▁è", -1.0), ("▁[", -1.0)], unk_id=0))
    unigram.add_special_tokens(["<unk>"])
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    expected = {" lymph", "oma", " è", " ["}
    assert set(token_texts(bert.backend_tokenizer).values()) == expected
    assert set(token_texts(byte_level(["<s>", "Ġlymph", "oma", "ĠÃ¨", "Ġ["])).values()) == expected
    assert set(token_texts(unigram).values()) == expected
    assert [model_name(one) for one in (bert.backend_tokenizer, byte_level(["a"]), unigram)] \
        == ["WordPiece", "byte-level BPE", "Unigram"]


def test_every_byte_is_decoded() -> None:
    """The library's decoder is the reference."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = byte_level(alphabet)
    found = token_texts(tokenizer)
    decoder = decoders.ByteLevel()
    for number, letter in enumerate(alphabet):
        theirs = decoder.decode([letter])
        assert found[number] == theirs or (theirs == "\ufffd" and found[number][:2] == "\\x")
    assert len(set(found.values())) == 256
