from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bmtools.tasks.windows import WindowedText, cut_into_windows, pad_windows

ACCENTED = "Caffe\u0301, 🧬🧬 e  l'asma (PKU)."


def cut(tokenizer: Any, text: str, max_length: int = 512) -> WindowedText:
    return next(cut_into_windows(tokenizer, [text], max_length))


def words(document: WindowedText, text: str) -> list[str]:
    return [text[start:end] for start, end in document.words]


def assert_whole(document: WindowedText, tokenizer: Any, text: str, max_length: int) -> None:
    """Every token is in one window; every word has one first token, its own."""
    encoding = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
    seen = [number for window in document.windows for number in window.ids]
    assert seen == encoding.ids
    indices, before = [], 0
    for window in document.windows:
        assert 0 < len(window.ids) <= max_length - 2
        assert all(0 <= first < len(window.ids) for first in window.firsts)
        indices += [before + int(first) for first in window.firsts]
        before += len(window.ids)
    assert indices == sorted(set(indices))
    assert len(indices) == len(document.words)
    for (start, end), index in zip(document.words, indices, strict=True):
        first, last = encoding.offsets[index]
        assert first < end and last > start


def test_words_of_every_family(tokenizer: Any) -> None:
    document = cut(tokenizer, ACCENTED)
    found = words(document, ACCENTED)
    assert found[:2] == ["Caffe\u0301", ","]
    assert "".join(found) == ACCENTED.replace(" ", "")
    # Brackets are left out: a vocabulary may hold `(PKU)` as one piece, which no border can cut.
    assert {"l", "'", "asma"} <= set(found)


def test_accents_that_a_normalizer_drops_stay_with_their_word(tokenizers: dict[str, Any]) -> None:
    encoding = tokenizers["uncased"].backend_tokenizer.encode(
        "Caffe\u0301", add_special_tokens=False)
    assert max(end for _, end in encoding.offsets) == 5, "the accent is not in any offset"
    assert cut(tokenizers["uncased"], "Caffe\u0301").words.tolist() == [[0, 6]]


def test_signs_are_words_where_metaspace_has_none(tokenizers: dict[str, Any]) -> None:
    text = "diabete mellito, [asma]."
    encoding = tokenizers["metaspace"].backend_tokenizer.encode(text, add_special_tokens=False)
    assert len({*encoding.word_ids}) == 3
    assert words(cut(tokenizers["metaspace"], text), text) == \
        ["diabete", "mellito", ",", "[", "asma", "]", "."]


@pytest.mark.parametrize("family", ["wordpiece", "metaspace"])
def test_unspaced_scripts_have_words(tokenizers: dict[str, Any], family: str) -> None:
    text = "患者は糖尿病です。"
    assert len(cut(tokenizers[family], text).words) >= 6


def test_spaces_belong_to_no_word(tokenizer: Any) -> None:
    text = " \n  asma \t\u00a0 \n e \u200b zero  "
    for start, end in cut(tokenizer, text).words:
        assert text[start:end] == text[start:end].strip()
    assert cut(tokenizer, " \n ").words.shape == (0, 2)


def test_an_empty_text_has_no_windows(tokenizer: Any) -> None:
    document = cut(tokenizer, "")
    assert document.windows == () and document.words.shape == (0, 2)


@pytest.mark.parametrize("max_length", [8, 13, 40, 512])
def test_every_token_is_seen_once(tokenizer: Any, max_length: int) -> None:
    texts = [ACCENTED * 7, "Due casi di E. coli! 患者は糖尿病です。" * 6, "x" * 90, "", "a " * 50]
    for text, document in zip(texts, cut_into_windows(tokenizer, texts, max_length), strict=True):
        assert_whole(document, tokenizer, text, max_length)


def test_no_word_is_cut_that_fits(tokenizers: dict[str, Any]) -> None:
    tokenizer = tokenizers["wordpiece"]
    text = "ipertensione arteriosa fenilchetonuria " * 8
    document = cut(tokenizer, text, 30)
    encoding = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
    before = 0
    for window in document.windows[:-1]:
        before += len(window.ids)
        assert encoding.word_ids[before] != encoding.word_ids[before - 1]


def starts(tokenizer: Any, text: str, max_length: int) -> list[str]:
    """The text of each window's first word."""
    document = cut(tokenizer, text, max_length)
    found, before = [], 0
    for window in document.windows:
        found.append(words(document, text)[before])
        before += len(window.firsts)
    return found


def test_windows_begin_with_sentences(tokenizers: dict[str, Any]) -> None:
    text = "Un caso. " * 3 + "Dose 3.5 di E. coli (due casi.) " * 6
    assert set(starts(tokenizers["wordpiece"], text, 50)) <= {"Un", "Dose"}


def test_a_line_ends_a_sentence(tokenizers: dict[str, Any]) -> None:
    assert set(starts(tokenizers["wordpiece"], "caso di due mg\n" * 12, 40)) == {"caso"}


def test_windows_are_padded_between_special_tokens(tokenizer: Any) -> None:
    windows = [cut(tokenizer, text).windows[0] for text in ("asma", "ipertensione arteriosa e")]
    batch = pad_windows(windows, tokenizer)
    ids, attention_mask = batch["input_ids"], batch["attention_mask"] == 1
    assert ids.shape[1] == max(len(window.ids) for window in windows) + 2
    for row, seen, window in zip(ids, attention_mask, windows, strict=True):
        assert row[seen].tolist() == [tokenizer.cls_token_id, *window.ids,
                                      tokenizer.sep_token_id]
        assert np.all(row[~seen] == tokenizer.pad_token_id)


@pytest.mark.data
def test_real_documents_lose_nothing(data: Path, tokenizer: Any) -> None:
    with (data / "it/corpus/native-clinical.jsonl").open(encoding="utf-8") as lines:
        texts = [json.loads(next(lines))["text"] for _ in range(30)]
    for text, document in zip(texts, cut_into_windows(tokenizer, texts, 64), strict=True):
        assert_whole(document, tokenizer, text, 64)
        for start, end in document.words:
            assert text[start:end] == text[start:end].strip()
