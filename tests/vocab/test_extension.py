"""Extension of a model's vocabulary."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models
from toy_tokenizers import train_tokenizer
from transformers import AutoTokenizer, BertTokenizer, PreTrainedTokenizerFast

from bmtools.errors import CheckpointError, DataError
from bmtools.vocab.extension import extend_tokenizer
from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint, save_tokenizer

TYPES = ("wordpiece", "bpe")
SYLLABLES = [f"{a}{b}{c}{d}" for a in "bcdfghlmnprstvz" for b in "aeiou" for c in "bcfglmnrst"
             for d in "aeio"]
OLD = ["il cuore batte e il sangue scorre nelle arterie del paziente",
       "la mobilità del ginocchio è ridotta: perché, e poi?"] * 20 + [" ".join(SYLLABLES)] * 3
NEW = ["la gonartrosi e la coxartrosi del paziente", "gonartrosi bilaterale, β-bloccanti",
       "linfoma e linfoma, gonartrosi", "la terapia chirurgica e la chemioterapia",
       "diabete mellito, ipertensione arteriosa, osteoporosi", "il glaucoma e la cataratta",
       "nevralgia del trigemino, fibromialgia", "insufficienza mitralica"] * 20
PROGRAM = """
import sys
from pathlib import Path
sys.path[:0] = map(str, Path(sys.argv[1]).parents[:2])
from test_extension import NEW, learned
from bmtools.vocab.extension import extend_tokenizer
from bmtools.vocab.settings import VocabularyConfig
old = learned(sys.argv[2])
config = VocabularyConfig(size=len(old) + 30, allow_fewer=True)
print(extend_tokenizer(old, NEW, config, "old")[0].backend_tokenizer.to_str())
"""


def learned(tokenizer_type: str, **choices: Any) -> Any:
    return train_tokenizer(OLD, VocabularyConfig(tokenizer_type=tokenizer_type, size=340,
                                                 allow_fewer=True, **choices))


def grown(old: Any, more: int, **choices: Any) -> tuple[Any, dict[str, int]]:
    return extend_tokenizer(old, NEW, VocabularyConfig(size=len(old) + more, **choices), "old")


@pytest.mark.parametrize("tokenizer_type", TYPES)
def test_old_ids_are_kept_and_new_ids_follow(tokenizer_type: str) -> None:
    old = learned(tokenizer_type)
    found, figures = grown(old, 12)
    before, after = old.get_vocab(), found.get_vocab()
    assert {token: after[token] for token in before} == before
    assert sorted(after.values()) == list(range(len(old) + 12))
    assert (figures["kept_tokens"], figures["added_tokens"]) == (len(old), 12)
    assert found.special_tokens_map == old.special_tokens_map
    assert found.all_special_ids == old.all_special_ids
    assert found("la", "la").keys() == old("la", "la").keys()


@pytest.mark.parametrize("tokenizer_type", TYPES)
def test_words_without_new_pieces_keep_their_ids(tokenizer_type: str) -> None:
    old = learned(tokenizer_type)
    new = grown(old, 40, allow_fewer=True)[0]
    words = sorted({word for text in [*OLD, *NEW] for word in text.split()})
    same = changed = 0
    for word in words:
        before, after = (tokenizer(f"la {word}")["input_ids"] for tokenizer in (old, new))
        if max(after) < len(old):
            same += 1
            assert after == before
        else:
            changed += 1
    assert same > 5 and changed > 2


@pytest.mark.parametrize("tokenizer_type", TYPES)
def test_frequent_words_become_one_token(tokenizer_type: str) -> None:
    old = learned(tokenizer_type)
    found, figures = grown(old, 250, allow_fewer=True)
    for word in ("gonartrosi", "linfoma"):
        assert len(old.tokenize(f"la {word}")) > 2
        tokens = found.tokenize(f"la {word}")
        assert tokens[-1].strip("Ġ▁") == word
    spent = [sum(len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in NEW)
             for tokenizer in (old, found)]
    assert spent[1] < 0.6 * spent[0]
    if tokenizer_type == "wordpiece":  # the other types may include the space between words
        assert spent == [figures["text_tokens_before"], figures["text_tokens_after"]]


def test_missing_characters_are_added_first() -> None:
    old = learned("wordpiece")
    assert "[UNK]" in old.tokenize("β")
    found = grown(old, 12)[0]
    assert "β" in found.convert_ids_to_tokens(range(len(old), len(old) + 6))
    assert "[UNK]" not in found.tokenize("β")


@pytest.mark.slow
@pytest.mark.parametrize("tokenizer_type", TYPES)
def test_same_text_same_bytes_at_any_number_of_threads(tokenizer_type: str) -> None:
    found = {
        subprocess.run([sys.executable, "-c", PROGRAM, __file__, tokenizer_type],
                       capture_output=True,
                       check=True, env={**os.environ, "RAYON_NUM_THREADS": threads,
                                        "TOKENIZERS_PARALLELISM": "true"}).stdout
        for threads in ("1", "4")}
    assert len(found) == 1


def unused_pieces(old: Any, new: Any, texts: list[str]) -> list[str]:
    """Return new pieces of several characters that are not used in the text, except BPE steps."""
    model = new.backend_tokenizer.model
    used = {number for text in texts for number in new(text)["input_ids"]}
    unused = [token for token, number in new.get_vocab().items()
              if number >= len(old) and number not in used and len(token.removeprefix("##")) > 1]
    if isinstance(model, models.BPE):
        return [token for token in unused if len(model.tokenize(token)) > 1]
    return unused


@pytest.mark.parametrize("tokenizer_type", TYPES)
def test_every_new_piece_is_used(tokenizer_type: str) -> None:
    """Letters are random, so parts of a piece are often more frequent than the piece."""
    rng = random.Random(0)
    texts = [" ".join("".join(rng.choices("abcdefghij", weights=range(1, 11), k=rng.randint(1, 9)))
                      for _ in range(8)) for _ in range(300)]
    old = train_tokenizer(texts[:100], VocabularyConfig(
        tokenizer_type=tokenizer_type, size=300 if tokenizer_type == "bpe" else 100))
    new = extend_tokenizer(old, texts, VocabularyConfig(size=len(old) + 100), "old")[0]
    assert not unused_pieces(old, new, texts)


@pytest.mark.parametrize(("tokenizer_type", "special_tokens", "choices"), [
    ("wordpiece", "bert", {"unicode": "none", "uncased": True}), ("wordpiece", "bert", {}),
    ("bpe", "modernbert", {}), ("bpe", "roberta", {"uncased": True})])
def test_an_extended_tokenizer_is_unchanged_after_loading(tmp_path: Path, tokenizer_type: str,
                                                          special_tokens: str,
                                                          choices: dict[str, Any]) -> None:
    old = learned(tokenizer_type, special_tokens=special_tokens, **choices)
    made = grown(old, 20)[0]
    assert type(made) is type(old)
    save_tokenizer(made, tmp_path)
    assert fingerprint(load_tokenizer(tmp_path)) == fingerprint(made)
    text = "La Gonartrosi bilaterale, linfoma"
    assert AutoTokenizer.from_pretrained(tmp_path)(text, "B") == made(text, "B")
    assert made.tokenize("GONARTROSI") == made.tokenize("gonartrosi") \
        or not choices.get("uncased")


@pytest.mark.data
def test_a_general_vocabulary_gets_medical_words(data: Path) -> None:
    lines = (data / "vocab/bert-base-uncased.txt").read_text(encoding="utf-8").splitlines()
    bert = BertTokenizer(vocab={token: number for number, token in enumerate(lines)},
                         do_lower_case=True)
    records = (data / "it/corpus/native-clinical.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(record)["text"] for record in records[:300]]
    found, figures = extend_tokenizer(bert, texts, VocabularyConfig(size=32_000), "bert")
    assert type(found) is BertTokenizer
    by_id = sorted(found.get_vocab(), key=found.get_vocab().get)
    assert by_id[:30_522] == lines
    assert figures["text_tokens_after"] < 0.7 * figures["text_tokens_before"]
    assert found.tokenize("paziente terapia") == ["paziente", "terapia"]


@pytest.mark.parametrize(("model", "name"), [
    (models.WordLevel({"<unk>": 0, "il": 1}, unk_token="<unk>"), "WordLevel"),
    (models.Unigram(), "Unigram"),
    (models.BPE({"a": 0, "a</w>": 1}, [], end_of_word_suffix="</w>"), "BPE that marks the inside")])
def test_a_tokenizer_of_another_family_is_an_error(model: Any, name: str) -> None:
    old = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(model))
    with pytest.raises(CheckpointError, match=f"old: found a tokenizer of the type {name}"):
        extend_tokenizer(old, NEW, VocabularyConfig(size=100), "old")


def test_sizes_that_are_too_small_or_too_large_are_errors() -> None:
    old = learned("bpe")
    with pytest.raises(DataError, match=f"found {len(old)}, but old already has {len(old)} tokens"):
        grown(old, 0)
    with pytest.raises(DataError, match=r"text supports \d+ tokens, including those of old; set"):
        grown(old, 5_000)
    with pytest.raises(DataError, match="no words"):
        extend_tokenizer(old, [""], VocabularyConfig(size=900), "old")


def test_added_tokens_keep_their_ids() -> None:
    """In T5 and DeBERTa, added tokens follow the model's tokens."""
    for tokenizer_type in TYPES:
        old = learned(tokenizer_type)
        old.add_tokens(["<drug>", "<gene>"])
        found, figures = grown(old, 12)
        assert (figures["kept_tokens"], figures["added_tokens"]) == (len(old), 12)
        before, after = old.get_vocab(), found.get_vocab()
        assert {token: after[token] for token in before} == before
        assert before["<gene>"] in found("la <gene> x")["input_ids"]
