"""Which tokenizers let text be cut at spaces."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from bmtools.vocab.safe_split import SafeSplitter


def tokenizer(splitter: Any = None, normalizer: Any = None, model: Any = None,
              added: tuple[Any, ...] = ()) -> Any:
    made = Tokenizer(model or models.BPE())
    made.normalizer, made.pre_tokenizer = normalizer, splitter
    made.add_tokens(list(added))
    return made


def dropping(share: float) -> Any:
    return tokenizer(pre_tokenizers.ByteLevel(), model=models.BPE(dropout=share))


def truncating() -> Any:
    made = tokenizer(pre_tokenizers.ByteLevel())
    made.enable_truncation(8)
    return made


LLAMA = pre_tokenizers.Sequence([
    pre_tokenizers.Split(Regex(r"\p{L}+|\s+"), "isolated"),
    pre_tokenizers.ByteLevel(use_regex=False)])
REFUSED = {
    "no splitter": tokenizer(),
    "byte level without its expression": tokenizer(LLAMA),
    "spaces become letters": tokenizer(
        pre_tokenizers.Split(" ", "merged_with_previous"), normalizers.Replace(" ", "▁")),
    "Metaspace that does not split": tokenizer(pre_tokenizers.Metaspace(split=False)),
    "something is put before every text": tokenizer(
        pre_tokenizers.Metaspace(), normalizers.Prepend("▁")),
    "the space ahead is stripped": tokenizer(pre_tokenizers.Metaspace(), normalizers.Strip()),
    "an unknown replacement": tokenizer(
        pre_tokenizers.BertPreTokenizer(), normalizers.Replace(Regex("a b"), "c")),
    "dropout": dropping(0.1),
    "truncation": truncating(),
    "an added token of two words": tokenizer(
        pre_tokenizers.ByteLevel(), added=(AddedToken("il cuore"),)),
    "a normalized one": tokenizer(
        pre_tokenizers.ByteLevel(), normalizers.NFKC(), added=(AddedToken("il\u00a0cuore"),)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_text_stays_whole(reason: str) -> None:
    assert not SafeSplitter(REFUSED[reason]).enabled


def test_pieces_hold_their_space_and_join_to_the_text() -> None:
    splitter = SafeSplitter(tokenizer(pre_tokenizers.ByteLevel()))
    assert splitter.split("il cuore  pompa") == ["il", " cuore", " ", " pompa"]
    for text in ("", " ", " il", "il \0 cuore", "il\ncuore "):
        assert "".join(splitter.split(text)) == text


def test_runs_of_white_space_are_joined_again() -> None:
    splitter = SafeSplitter(tokenizer(pre_tokenizers.ByteLevel()))
    assert splitter.merge_unsafe(splitter.split("il cuore  pompa\n il ")) == [
        "il", " cuore", "  pompa\n il", " "]


def test_what_a_normalizer_turns_into_space_counts_as_space() -> None:
    splitter = SafeSplitter(tokenizer(pre_tokenizers.Metaspace(), normalizers.NFKC()))
    assert splitter.merge_unsafe(["il\u00a0", " cuore", " \u00a8", " a"]) == ["il\u00a0 cuore",
                                                                              " \u00a8",
                                                                              " a"]
    plain = SafeSplitter(tokenizer(pre_tokenizers.Metaspace(), normalizers.StripAccents()))
    assert plain.merge_unsafe(["il", " \u0301", " cuore"]) == ["il", " \u0301 cuore"]


def test_added_tokens_are_found_before_and_after_normalizing() -> None:
    splitter = SafeSplitter(tokenizer(pre_tokenizers.ByteLevel(), normalizers.Lowercase(),
                                      added=(AddedToken("ODD", normalized=True),
                                             AddedToken("[MASK]", normalized=False))))
    pieces = ["odd", " Odd!", " [MASK]", " [mask]", " cuore"]
    assert splitter.with_added_tokens(pieces) == {"odd", " Odd!", " [MASK]"}


def test_tokens_tell_words_apart_only_where_no_word_can_begin_like_them() -> None:
    def inner(splitter: Any, **options: Any) -> str:
        model = models.WordPiece(unk_token="[UNK]", **options)
        return SafeSplitter(tokenizer(splitter, model=model, added=added)).inner_prefix

    added: tuple[Any, ...] = ()
    assert inner(pre_tokenizers.BertPreTokenizer()) == "##"
    assert inner(pre_tokenizers.WhitespaceSplit()) == "", "a word may begin with ##"
    assert inner(pre_tokenizers.BertPreTokenizer(), continuing_subword_prefix="in") == ""
    added = (AddedToken("##odd"),)
    assert inner(pre_tokenizers.BertPreTokenizer()) == ""


@pytest.mark.parametrize(("found", "content", "allowed"), [
    ("\u03b2", "beta", True), (Regex(r"\s+"), " ", True),
    (Regex("[\u00b5\u03bc](?=[A-Za-z])"), "u", True), ("\u03b2", " beta", False),
    ("\u03b2", "", False), (" ", "_", False), ("ab", "c", False)])
def test_signs_may_be_spelled_out_one_by_one(found: Any, content: str, allowed: bool) -> None:
    made = tokenizer(pre_tokenizers.ByteLevel(), normalizers.Replace(found, content))
    assert SafeSplitter(made).enabled == allowed
