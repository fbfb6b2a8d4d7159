"""Special tokens and templates, in memory and as transformers reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer, BertTokenizer

from bmtools.vocab.encoding import SafeSplitter, encode
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.special_tokens import SCHEMES
from bmtools.vocab.tokenizer import fingerprint, load_tokenizer, save_tokenizer
from bmtools.vocab.trainers import TRAINERS, train_tokenizer

TEXTS = ["La mobilità è ridotta dall'artrosi.", "L'artrosi riduce la mobilità: perché 10 mg?"] * 30
SPECIAL = {"bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
           "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
           "modernbert": ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]}
TEMPLATES = {"bert": ("[CLS] A [SEP]", "[CLS] A [SEP] B [SEP]", [0, 0, 0, 1, 1]),
             "roberta": ("<s> A </s>", "<s> A </s> </s> B </s>", [0] * 6),
             "modernbert": ("[CLS] A [SEP]", "[CLS] A [SEP] B [SEP]", [0, 0, 0, 1, 1])}


def learned(tokenizer_type: str, special_tokens: Any = None, **choices: Any) -> Any:
    return train_tokenizer(TEXTS + ["A B"] * 9, VocabularyConfig(
        size=400, allow_fewer=True, tokenizer_type=tokenizer_type, special_tokens=special_tokens,
        **choices))


@pytest.mark.parametrize("special_tokens", SCHEMES)
@pytest.mark.parametrize("tokenizer_type", TRAINERS)
def test_each_type_takes_each_style(tokenizer_type: str, special_tokens: str) -> None:
    tokenizer = learned(tokenizer_type, special_tokens)
    vocabulary = tokenizer.get_vocab()
    assert [vocabulary[token] for token in SPECIAL[special_tokens]] == [0, 1, 2, 3, 4]
    assert sorted(vocabulary.values()) == list(range(len(vocabulary)))
    padding = {"bert": 0, "roberta": 1, "modernbert": 3}
    assert tokenizer.pad_token == SPECIAL[special_tokens][padding[special_tokens]]
    assert {tokenizer.unk_token, tokenizer.cls_token, tokenizer.sep_token, tokenizer.mask_token,
            tokenizer.pad_token} == set(SPECIAL[special_tokens])
    assert (tokenizer.bos_token, tokenizer.eos_token) == \
        (("<s>", "</s>") if special_tokens == "roberta" else (None, None))
    single, pair, types = TEMPLATES[special_tokens]
    assert shown(tokenizer, "A") == single
    assert shown(tokenizer, "A", "B") == pair
    given = tokenizer("A", "B", return_token_type_ids=True)
    assert [number for number, token in zip(given["token_type_ids"], given.tokens(), strict=True)
            if token != "\u2581"] == types
    assert ("token_type_ids" in tokenizer("A")) == (special_tokens == "bert")


def shown(tokenizer: Any, *texts: str) -> str:
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(*texts)["input_ids"])
    return " ".join(filter(None, (token.strip("\u2581") for token in tokens)))


def test_the_mask_takes_the_space_before_it_where_models_expect_that() -> None:
    for special_tokens, spaces in (("roberta", 0), ("modernbert", 0), ("bert", 1)):
        tokenizer = learned("bpe", special_tokens)
        ids = tokenizer(f"la {tokenizer.mask_token}", add_special_tokens=False)["input_ids"]
        assert ids[-1] == tokenizer.mask_token_id
        assert tokenizer.convert_ids_to_tokens(ids[:-1]).count("Ġ") == spaces


@pytest.mark.parametrize("choices", [
    {}, {"unicode": "none"}, {"uncased": True, "unicode": "none"},
    {"uncased": True, "strip_accents": True}, {"split_digits": True},
    {"spell_greek": True, "unicode": "nfkc"}], ids=str)
@pytest.mark.parametrize(("tokenizer_type", "special_tokens"), [
    ("wordpiece", "bert"), ("wordpiece", "roberta"), ("bpe", "roberta"), ("bpe", "modernbert"),
    ("unigram", "roberta"), ("unigram", "bert")])
def test_what_is_saved_gives_the_same_ids_everywhere(
        tmp_path: Path, tokenizer_type: str, special_tokens: str, choices: dict[str, Any]) -> None:
    tokenizer = learned(tokenizer_type, special_tokens, **choices)
    save_tokenizer(tokenizer, tmp_path)
    text = "Perche\u0301 l'artrosi RIDUCE la mobilità? 10 mg, \u03b1"
    expected = tokenizer(text, "B")
    assert fingerprint(load_tokenizer(tmp_path)) == fingerprint(tokenizer)
    assert SafeSplitter(tokenizer.backend_tokenizer).enabled
    [ours] = encode(load_tokenizer(tmp_path), [text])
    assert ours.ids.tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]
    for model in ("", "bert", "roberta", "modernbert"):
        if model:
            (tmp_path / "config.json").write_text(json.dumps({"model_type": model}))
        plain = AutoTokenizer.from_pretrained(tmp_path)
        assert plain(text, "B")["input_ids"] == expected["input_ids"]
        # ModernBERT takes no token types, whatever the tokenizer.
        assert model == "modernbert" or plain(text, "B") == expected
        assert plain.special_tokens_map == tokenizer.special_tokens_map
    stated = json.loads((tmp_path / "tokenizer_config.json").read_text())["do_lower_case"]
    assert stated == choices.get("uncased", False)
    assert (tmp_path / "vocab.txt").exists() == (tokenizer_type == "wordpiece")


def test_berts_own_class_is_taken_where_it_does_the_same() -> None:
    assert type(learned("wordpiece", unicode="none")) is BertTokenizer
    assert type(learned("wordpiece")) is not BertTokenizer


@pytest.mark.parametrize("tokenizer_type", TRAINERS)
def test_digits_are_split_and_nothing_else(tokenizer_type: str) -> None:
    tokenizer = learned(tokenizer_type, split_digits=True)
    whole = learned(tokenizer_type)
    assert [token.strip("Ġ▁#") for token in tokenizer.tokenize("10 10")][-2:] == ["1", "0"]
    if tokenizer_type != "unigram":  # which learns no "10" from so little
        assert [token.strip("Ġ▁#") for token in whole.tokenize("10 10")][-1] == "10"
    text = "mobilità è perché \u03b2\u00b2"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == \
        whole.decode(whole(text, add_special_tokens=False)["input_ids"])
