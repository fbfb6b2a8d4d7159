"""Training of each type of tokenizer."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from toy_tokenizers import train_tokenizer
from transformers import AutoTokenizer

from bmtools.errors import DataError
from bmtools.vocab.encoding import encode
from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.pretokens import SafeSplitter
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint, save_tokenizer
from bmtools.vocab.trainers import SCHEMES, make_pipeline, train_backend

TYPES = ("wordpiece", "bpe", "unigram")
WORDS = [f"{a}{b}{c}" for a in "bcdf" for b in "aeio" for c in "lmnr"]
TEXTS = [" ".join(WORDS[start:] + WORDS[:start]) for start in range(len(WORDS))]
ITALIAN = ["La mobilità è ridotta dall'artrosi.", "L'artrosi riduce la mobilità: perché?"] * 30
PROGRAM = """
import sys
from bmtools.vocab.trainers import train_backend
from bmtools.vocab.settings import VocabularyConfig
words = [f"{a}{b}{c}" for a in "bcdf" for b in "aeio" for c in "lmnr"]
texts = [" ".join(words[i:] + words[:i]) for i in range(len(words))]
made = train_backend(texts, VocabularyConfig(
    tokenizer_type=sys.argv[1], size=int(sys.argv[2]), allow_fewer=True))
print(made.backend_tokenizer.to_str())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("tokenizer_type", "size"),
                         [("wordpiece", 150), ("bpe", 350), ("unigram", 100)])
def test_same_text_same_bytes_at_any_number_of_threads(tokenizer_type: str, size: int) -> None:
    """Every merge here ties with others; in this case the library's trainers are random."""
    found = {
        subprocess.run([sys.executable, "-c", PROGRAM, tokenizer_type, str(size)],
                       capture_output=True,
                       check=True, env={**os.environ, "RAYON_NUM_THREADS": threads,
                                        "OMP_NUM_THREADS": threads,
                                        "TOKENIZERS_PARALLELISM": "true"}).stdout
        for threads in ("1", "2", "4")}
    assert len(found) == 1
    assert len(json.loads(found.pop())["model"]["vocab"]) > 30


@pytest.mark.parametrize("tokenizer_type", TYPES)
def test_the_order_of_texts_does_not_matter(tokenizer_type: str) -> None:
    settings = VocabularyConfig(tokenizer_type=tokenizer_type, size=300, allow_fewer=True)
    shuffled = random.Random(1).sample(TEXTS, len(TEXTS))
    assert fingerprint(train_tokenizer(shuffled, settings)) == \
        fingerprint(train_tokenizer(TEXTS, settings))


@pytest.fixture(scope="module")
def clinical(data: Path) -> list[str]:
    lines = (data / "it/corpus/native-clinical.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines[:300]]


@pytest.mark.data
def test_bpe_equals_the_library(clinical: list[str]) -> None:
    bare = Tokenizer(models.BPE())
    bare.normalizer = normalizers.NFC()
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.train_from_iterator(clinical, trainers.BpeTrainer(
        vocab_size=1_500, min_frequency=2, show_progress=False,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    ours = train_tokenizer(clinical, VocabularyConfig(tokenizer_type="bpe", size=1_500))
    assert model_of(ours.backend_tokenizer) == model_of(bare)


@pytest.mark.data
def test_wordpiece_needs_the_same_number_of_tokens_as_the_library(clinical: list[str]) -> None:
    """The merges are the same except for ties, which the library breaks at random."""
    bare = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    bare.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    bare.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    bare.train_from_iterator(clinical, trainers.WordPieceTrainer(
        vocab_size=1_500, min_frequency=2, special_tokens=["[UNK]"], show_progress=False))
    ours = train_tokenizer(clinical, VocabularyConfig(size=1_504, unicode="none"))
    shared = set(ours.get_vocab()) & set(bare.get_vocab())
    assert len(shared) > 0.97 * 1_500


@pytest.mark.data
def test_unigram_is_as_good_as_in_the_library(clinical: list[str]) -> None:
    bare = Tokenizer(models.Unigram())
    bare.pre_tokenizer = pre_tokenizers.Metaspace()
    bare.train_from_iterator(clinical[:200], trainers.UnigramTrainer(
        vocab_size=1_500, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False))
    ours = train_tokenizer(clinical[:200], VocabularyConfig(tokenizer_type="unigram", size=1_504))
    spent = [sum(len(one.ids) for one in backend.encode_batch(clinical[200:],
                                                              add_special_tokens=False))
             for backend in (ours.backend_tokenizer, bare)]
    assert spent[0] < 1.1 * spent[1]
    scores = dict(map(tuple, model_of(ours.backend_tokenizer)["vocab"]))
    assert scores["\u2581di"] > scores["\u2581paziente"] > scores["x"]


def model_of(backend: Any) -> Any:
    return json.loads(backend.to_str())["model"]


@pytest.mark.parametrize("tokenizer_type", TYPES)
def test_a_size_too_large_for_the_text_is_an_error_with_the_possible_size(
        tokenizer_type: str) -> None:
    most = train_tokenizer(TEXTS, VocabularyConfig(tokenizer_type=tokenizer_type, size=9_000,
                                                   allow_fewer=True))
    assert 30 < len(most) < 500
    with pytest.raises(DataError, match=(
            f"size: found 9000, but the text supports {len(most)} tokens; set size {len(most)} "
            "or less, add text, or set allow_fewer to accept fewer")):
        train_tokenizer(TEXTS, VocabularyConfig(tokenizer_type=tokenizer_type, size=9_000))
    if len(most) > 100:
        exact = VocabularyConfig(tokenizer_type=tokenizer_type, size=len(most))
        assert len(train_tokenizer(TEXTS, exact)) == len(most)


@pytest.mark.parametrize("tokenizer_type", TYPES)
def test_a_size_smaller_than_the_alphabet_is_an_error(tokenizer_type: str) -> None:
    texts = ["".join(map(chr, range(0x4E00, 0x4E00 + 300)))] * 3
    with pytest.raises(DataError, match=r"there are (305|601|261|306) special tokens and"):
        train_tokenizer(texts, VocabularyConfig(tokenizer_type=tokenizer_type, size=150))


def test_rare_characters_become_unknown_in_unigram_and_bytes_in_bpe() -> None:
    texts = [*TEXTS, "q\u4e2d"]
    unigram = train_tokenizer(texts, VocabularyConfig(
        tokenizer_type="unigram", size=100, max_alphabet=13, allow_fewer=True))
    assert unigram.unk_token_id in unigram("\u4e2d")["input_ids"]
    bpe = train_tokenizer(texts, VocabularyConfig(tokenizer_type="bpe", size=300))
    assert bpe.decode(bpe("\u4e2d", add_special_tokens=False)["input_ids"]) == "\u4e2d"


def wordpiece(texts: list[str], size: int, **choices: Any) -> Any:
    return train_tokenizer(texts, VocabularyConfig(size=size, allow_fewer=True, **choices))


@pytest.mark.parametrize(("choices", "expected"), [
    ({}, ["La", "mobilità"]), ({"uncased": True}, ["la", "mobilità"]),
    ({"uncased": True, "strip_accents": True}, ["la", "mobilita"])], ids=str)
def test_case_and_accents_are_separate_settings(choices: dict[str, bool],
                                                expected: list[str]) -> None:
    assert wordpiece(ITALIAN, 400, **choices).tokenize("La mobilità") == expected


@pytest.mark.parametrize("tokenizer_type", TYPES)
@pytest.mark.parametrize(("choices", "text", "expected"), [
    ({}, "perche\u0301 \ufb01bra", "perch\u00e9 \ufb01bra"),
    ({"unicode": "none"}, "perche\u0301", "perche\u0301"),
    ({"unicode": "nfkc"}, "\ufb01bra m\u00b2 \uff21", "fibra m2 A"),
    ({"unicode": "nfkc"},
     "\uff11\uff10\u2076 UI, 10\u207b\u00b9\u00b2 M, 2\u00bd mg, CO\u2082, (a)\u00b2",
     "10^6 UI, 10^\u221212 M, 2 1\u20442 mg, CO2, (a)^2"),
    ({}, "10\u2076 UI, 2\u00bd mg, CO\u2082", "10\u2076 UI, 2\u00bd mg, CO\u2082"),
    ({"uncased": True}, "Perch\u00c9", "perch\u00e9"),
    ({"strip_accents": True}, "Perch\u00e9", "Perche"),
    ({"uncased": True, "strip_accents": True}, "PERCH\u00c9", "perche"),
])
def test_normalizers_follow_the_settings(tokenizer_type: str, choices: dict[str, Any],
                                         text: str, expected: str) -> None:
    step = make_pipeline(VocabularyConfig(tokenizer_type=tokenizer_type, **choices)).normalizer
    assert (text if step is None else step.normalize_str(text)) == expected


def test_korean_is_recomposed_if_accents_are_dropped() -> None:
    pipeline = make_pipeline(VocabularyConfig(tokenizer_type="bpe", strip_accents=True))
    assert pipeline.normalizer.normalize_str("\ud55c\uad6d") == "\ud55c\uad6d"


ITALIAN_TEXTS = ["La mobilità è ridotta dall'artrosi.",
                 "L'artrosi riduce la mobilità: perché 10 mg?"] * 30
SPECIAL = {"bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
           "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
           "modernbert": ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]}
TEMPLATES = {"bert": ("[CLS] A [SEP]", "[CLS] A [SEP] B [SEP]", [0, 0, 0, 1, 1]),
             "roberta": ("<s> A </s>", "<s> A </s> </s> B </s>", [0] * 6),
             "modernbert": ("[CLS] A [SEP]", "[CLS] A [SEP] B [SEP]", [0, 0, 0, 1, 1])}


def learned(tokenizer_type: str, special_tokens: Any = None, **choices: Any) -> Any:
    return learned_backend(tokenizer_type, special_tokens, **choices).loaded()


def learned_backend(tokenizer_type: str, special_tokens: Any, **choices: Any) -> Any:
    return train_backend(ITALIAN_TEXTS + ["A B"] * 9, VocabularyConfig(
        size=400, allow_fewer=True, tokenizer_type=tokenizer_type, special_tokens=special_tokens,
        **choices))


@pytest.mark.parametrize("special_tokens", SCHEMES)
@pytest.mark.parametrize("tokenizer_type", TYPES)
def test_each_type_supports_each_style(tokenizer_type: str, special_tokens: str) -> None:
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


@pytest.mark.parametrize("choices", [
    {}, {"unicode": "none"}, {"uncased": True, "unicode": "none"},
    {"uncased": True, "strip_accents": True}, {"split_digits": True},
    {"unicode": "nfkc"}], ids=str)
@pytest.mark.parametrize(("tokenizer_type", "special_tokens"), [
    ("wordpiece", "bert"), ("wordpiece", "roberta"), ("bpe", "roberta"), ("bpe", "modernbert"),
    ("unigram", "roberta"), ("unigram", "bert")])
def test_saved_tokenizers_encode_to_the_same_ids(tmp_path: Path, tokenizer_type: str,
                                                 special_tokens: str,
                                                 choices: dict[str, Any]) -> None:
    made: Any = learned_backend(tokenizer_type, special_tokens, **choices)
    tokenizer = made.loaded()
    save_tokenizer(tokenizer, tmp_path)
    written = tmp_path / "written"
    written.mkdir()
    save_tokenizer(made, written)
    assert [(path.name, path.read_bytes()) for path in sorted(written.iterdir())] == \
        [(path.name, path.read_bytes()) for path in sorted(tmp_path.iterdir()) if path.is_file()]
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
        # ModernBERT does not use token types with any tokenizer.
        assert model == "modernbert" or plain(text, "B") == expected
        assert plain.special_tokens_map == tokenizer.special_tokens_map
    stated = json.loads((tmp_path / "tokenizer_config.json").read_text())["do_lower_case"]
    assert stated == choices.get("uncased", False)
    assert (tmp_path / "vocab.txt").exists() == (tokenizer_type == "wordpiece")


@pytest.mark.parametrize("tokenizer_type", TYPES)
def test_only_digits_are_split(tokenizer_type: str) -> None:
    tokenizer = learned(tokenizer_type, split_digits=True)
    whole = learned(tokenizer_type)
    assert [token.strip("Ġ▁#") for token in tokenizer.tokenize("10 10")][-2:] == ["1", "0"]
    if tokenizer_type != "unigram":  # which does not learn "10" from little text
        assert [token.strip("Ġ▁#") for token in whole.tokenize("10 10")][-1] == "10"
    text = "mobilità è perché \u03b2\u00b2"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == \
        whole.decode(whole(text, add_special_tokens=False)["input_ids"])
