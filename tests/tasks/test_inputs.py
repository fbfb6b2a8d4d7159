from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from unicodedata import combining

import pytest

from bmtools.tasks.inputs import PairEncoder, Window, cut_into_windows, longest_first

ACCENTED = "Caffe\u0301, 🧬🧬 e  l'asma (PKU)."


def cut(tokenizer: Any, text: str,
        max_length: int = 512) -> tuple[list[list[int]], list[Window]]:
    [(words, windows)] = cut_into_windows(tokenizer, [text], max_length)
    return words.tolist(), windows


def words_of(tokenizer: Any, text: str) -> list[str]:
    return [text[start:end] for start, end in cut(tokenizer, text)[0]]


def assert_whole(words: Any, windows: list[Window], tokenizer: Any, text: str,
                 max_length: int) -> None:
    """Every token is in one window, and every word has its own first token."""
    encoding = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
    assert [number for window in windows for number in window.ids] == encoding.ids
    indices, before = [], 0
    for window in windows:
        assert 0 < len(window.ids) <= max_length - 2
        assert all(0 <= first < len(window.ids) for first in window.firsts)
        indices += [before + int(first) for first in window.firsts]
        before += len(window.ids)
    assert indices == sorted(set(indices))
    assert len(indices) == len(words)
    for (start, end), index in zip(words, indices, strict=True):
        first, last = encoding.offsets[index]
        assert first < end and last > start


def test_words_are_found_by_every_family(tokenizer: Any) -> None:
    found = words_of(tokenizer, ACCENTED)
    assert found[:2] == ["Caffe\u0301", ","]
    assert "".join(found) == ACCENTED.replace(" ", "")
    # Brackets are not compared, because `(PKU)` may be one token that cannot be split.
    assert {"l", "'", "asma"} <= set(found)


def test_dropped_accents_stay_with_their_word(tokenizers: dict[str, Any]) -> None:
    encoding = tokenizers["uncased"].backend_tokenizer.encode(
        "Caffe\u0301", add_special_tokens=False)
    assert max(end for _, end in encoding.offsets) == 5, "the accent is not in any offset"
    assert cut(tokenizers["uncased"], "Caffe\u0301")[0] == [[0, 6]]


def test_metaspace_words_are_split_at_punctuation(tokenizers: dict[str, Any]) -> None:
    text = "diabete mellito, [asma]."
    encoding = tokenizers["metaspace"].backend_tokenizer.encode(text, add_special_tokens=False)
    assert len({*encoding.word_ids}) == 3
    assert words_of(tokenizers["metaspace"], text) == \
        ["diabete", "mellito", ",", "[", "asma", "]", "."]


@pytest.mark.parametrize("family", ["wordpiece", "metaspace"])
def test_unspaced_scripts_are_split_into_words(tokenizers: dict[str, Any], family: str) -> None:
    text = "患者は糖尿病です。"
    assert len(words_of(tokenizers[family], text)) >= 6


def test_words_do_not_contain_spaces(tokenizer: Any) -> None:
    text = " \n  asma \t\u00a0 \n e \u200b zero  "
    for word in words_of(tokenizer, text):
        assert word == word.strip()
    assert cut(tokenizer, " \n ")[0] == []


@pytest.mark.parametrize("max_length", [8, 13, 40, 512])
def test_every_token_is_in_one_window(tokenizer: Any, max_length: int) -> None:
    texts = [ACCENTED * 7, "Due casi di E. coli! 患者は糖尿病です。" * 6, "x" * 90, "", "a " * 50]
    for text, found in zip(texts, cut_into_windows(tokenizer, texts, max_length), strict=True):
        assert_whole(*found, tokenizer, text, max_length)


@pytest.mark.parametrize("max_length", [8, 13, 512])
def test_tokens_can_be_tagged_like_words(tokenizer: Any, max_length: int) -> None:
    """Tokens that do not share a character have their own labels; the windows stay the same."""
    for text in (ACCENTED * 5, "Due casi di E. coli! 患者は糖尿病です。" * 4, "x" * 40, ""):
        [(words, windows)] = cut_into_windows(tokenizer, [text], max_length)
        [(tokens, others)] = cut_into_windows(tokenizer, [text], max_length, by_token=True)
        assert_whole(tokens, others, tokenizer, text, max_length)
        assert [window.ids.tolist() for window in others] == [w.ids.tolist() for w in windows]
        assert {*words[:, 0]} <= {*tokens[:, 0]} and {*words[:, 1]} <= {*tokens[:, 1]}
        encoding = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
        offsets = [(end - len(text[start:end].lstrip()), end) for start, end in encoding.offsets
                   if text[start:end].strip()]
        assert {*tokens[:, 0]} == {start for start, _ in offsets if not combining(text[start])
                                   and not any(one < start < end for one, end in offsets)}


def test_words_are_not_split_if_they_fit(tokenizers: dict[str, Any]) -> None:
    tokenizer = tokenizers["wordpiece"]
    text = "ipertensione arteriosa fenilchetonuria " * 8
    _, windows = cut(tokenizer, text, 30)
    encoding = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
    before = 0
    for window in windows[:-1]:
        before += len(window.ids)
        assert encoding.word_ids[before] != encoding.word_ids[before - 1]


@pytest.mark.parametrize(("max_length", "stride"), [(13, 4), (24, 11), (24, 128), (60, 16)])
def test_words_are_tagged_in_the_window_with_the_most_context(tokenizer: Any, max_length: int,
                                                              stride: int) -> None:
    text = "Due casi di E. coli! Dose 3.5 mg, ipertensione arteriosa fenilchetonuria. " * 6
    [(words, windows)] = cut_into_windows(tokenizer, [text], max_length, stride=stride)
    ids = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids
    overlap = min(stride, (max_length - 2) // 2) // 2 * 2
    found, spans, done = [], [], 0
    for window in windows:
        start = max(done - overlap // 2, 0)
        assert window.ids.tolist() == ids[start:start + len(window)]
        found += [start + int(first) for first in window.firsts]
        spans.append((start, start + len(window)))
        done = start + window.after
    assert done == len(ids) and len(found) == len(words) and found == sorted(set(found))
    assert all(end - start <= max_length - 2 for start, end in spans)
    assert {before[1] - after[0] for before, after in pairwise(spans)} == {overlap}
    owners = [number for number, window in enumerate(windows) for _ in window.firsts]
    for token, owner in zip(found, owners, strict=True):
        contexts = [min(token - start, end - 1 - token) if start <= token < end else -1
                    for start, end in spans]
        sides = [contexts[number] for number in (owner - 1, owner + 1)
                 if 0 <= number < len(spans)]
        assert all(contexts[owner] >= side - 1 for side in sides)


def test_short_texts_are_one_window_for_any_stride(tokenizer: Any) -> None:
    texts = [ACCENTED, "Due casi. " * 3, ""]
    size = max(len(tokenizer(text).input_ids) for text in texts) + 2
    for (_, plain), (_, overlapping) in zip(
            cut_into_windows(tokenizer, texts, size),
            cut_into_windows(tokenizer, texts, size, stride=size), strict=True):
        assert [window.ids.tolist() for window in plain] == \
            [window.ids.tolist() for window in overlapping]
        assert len(plain) <= 1


def starts(tokenizer: Any, text: str, max_length: int) -> list[str]:
    """Return the first word of each window."""
    words, windows = cut(tokenizer, text, max_length)
    found, before = [], 0
    for window in windows:
        start, end = words[before]
        found.append(text[start:end])
        before += len(window.firsts)
    return found


def test_windows_begin_with_sentences(tokenizers: dict[str, Any]) -> None:
    text = "Un caso. " * 3 + "Dose 3.5 di E. coli (due casi.) " * 6
    assert set(starts(tokenizers["wordpiece"], text, 50)) <= {"Un", "Dose"}


def test_line_breaks_end_sentences(tokenizers: dict[str, Any]) -> None:
    assert set(starts(tokenizers["wordpiece"], "caso di due mg\n" * 12, 40)) == {"caso"}


def test_white_space_tokens_are_listed(tokenizers: dict[str, Any]) -> None:
    text = "asma  (PKU)   e \n DNA " * 4
    blank = 0
    for tokenizer in tokenizers.values():
        encoding = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
        expected = [not text[start:end].strip() for start, end in encoding.offsets]
        [(_, windows)] = cut_into_windows(tokenizer, [text], 12)
        found = [number in window.blanks for window in windows for number in range(len(window))]
        assert found == expected and len(windows) > 1
        blank += sum(expected)
    assert blank


TEXTS = ["il paziente ha l'asma", "", "due casi di febbre e dolore, con ipertensione arteriosa.",
         "diabete mellito " * 12]


@pytest.fixture(params=["bert", "roberta", "modernbert"])
def own(request: pytest.FixtureRequest, pair_tokenizers: dict[str, Any]) -> Any:
    """A tokenizer with a post-processor for pairs."""
    return pair_tokenizers[request.param]


def encoder(tokenizer: Any, max_length: int, segments: int = 2) -> PairEncoder:
    config: Any = SimpleNamespace(type_vocab_size=segments)
    return PairEncoder(tokenizer, config, max_length)


@pytest.mark.parametrize("max_length", [8, 9, 16, 23, 512])
def test_inputs_equal_the_tokenizers_encoding(own: Any, max_length: int) -> None:
    pairs = [(first, second or None) for first in TEXTS for second in TEXTS]
    encoded = list(encoder(own, max_length).encode(pairs))
    for (first, second), found in zip(pairs, encoded, strict=True):
        expected = own(first, second, truncation="longest_first", max_length=max_length)
        assert found.ids.tolist() == expected["input_ids"]
        whole = own(first, second)["input_ids"]
        assert found.truncated == len(whole) - len(expected["input_ids"])
        if "token_type_ids" in expected:
            assert found.token_type_ids.tolist() == expected["token_type_ids"]
    own.backend_tokenizer.no_truncation()


def test_special_tokens_in_a_text_are_read_as_text(tokenizer: Any) -> None:
    special = {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}
    plain, found = encoder(tokenizer, 64).encode([
        ("asma", "asma"), (f"asma {' '.join(tokenizer.all_special_tokens)}", "asma [SEP] e</s>")])
    assert [number for number in found.ids.tolist() if number in special] == \
        [number for number in plain.ids.tolist() if number in special]
    _, [window] = cut(tokenizer, "asma [SEP] e [MASK]")
    assert not special & {*window.ids.tolist()}


def test_default_format_is_berts(tokenizers: dict[str, Any]) -> None:
    tokenizer = tokenizers["metaspace"]
    [found] = encoder(tokenizer, 64).encode([("asma", "asma")])
    part = tokenizer.backend_tokenizer.encode("asma", add_special_tokens=False).ids
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    assert found.ids.tolist() == [cls, *part, sep, *part, sep]
    assert found.token_type_ids.tolist() == [0] * (len(part) + 2) + [1] * (len(part) + 1)


@pytest.mark.parametrize(("lengths", "size", "expected"), [
    ((3, 4), 9, (3, 4)), ((3, 9), 9, (3, 6)), ((9, 3), 9, (6, 3)), ((9, 9), 9, (4, 5)),
    ((9, 8), 9, (5, 4)), ((0, 9), 4, (0, 4)), ((9, 0), 4, (4, 0))])
def test_the_longer_text_is_truncated_first(lengths: tuple[int, int], size: int,
                                            expected: tuple[int, int]) -> None:
    assert longest_first(*lengths, size) == expected


@pytest.mark.parametrize("segments", [1, 2])
def test_batches_are_padded_and_have_segments_if_needed(own: Any, segments: int) -> None:
    pairs = encoder(own, 32, segments=segments)
    inputs = list(pairs.encode([("asma", None), ("due", "casi di febbre")]))
    batch = pairs.collate(inputs)
    assert ("token_type_ids" in batch) == (segments > 1)
    assert all(value.shape == (2, len(inputs[1])) for value in batch.values())
    assert batch["attention_mask"].sum(axis=1).tolist() == [len(item) for item in inputs]
    assert (batch["input_ids"][0, len(inputs[0]):] == own.pad_token_id).all()
