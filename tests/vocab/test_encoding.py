"""Ids and word starts, for each family of tokenizers."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from toy_tokenizers import train_tokenizer
from transformers import PreTrainedTokenizerFast

from bmtools.vocab.encoding import Encoder, encode
from bmtools.vocab.pretokens import SafeSplitter
from bmtools.vocab.settings import VocabularyConfig

TEXTS = ["La broncocostrizione riduce il respiro.", "Il cuore pompa il sangue ossigenato."] * 20
SENTENCE = "La broncodilatazione riduce il cuore."
WORDS = ["La", "broncodilatazione", "riduce", "il", "cuore", "."]
SPECIAL = ["<s>", "</s>", "<mask>", "<pad>", "<unk>"]
NASTY = [
    "", " ", "   ", "\n", " \n ", "Il cuore", " Il cuore", "   Il  cuore   pompa ", "Il\tcuore\n",
    "Il \n cuore", "Il\n\n  cuore", "Il\u00a0cuore pompa\u00a0 il", "Il\u3000cuore\u2003 il",
    "Il\u200bcuore \u200b il \u200b", "Il \ufeff cuore\ufeff il", "cuore\u00ad il", "a\x0bb\x0c c",
    "Il\x1c cuore \x1f il", "Il\0cuore \0 il", "\x7f Il \x85 cuore", "Il [MASK] pompa",
    "<mask> il [SEP]cuore</s> <odd>pompa <odd> il", "unità cm³ ½ ㎎ ﬁne", "e\u0301 \u0301e \u0308",
    "👩\u200d👩\u200d👧 il 🇮🇹 cuore", "日本語の文。 次の文、です",
    "dell'arteria don't we'll 12,5 mg/kg",
    "10\u2076 UI, 10\u207b\u00b9\u00b2 M  2\u00bd cuore \u00bd",
    "##il #cuore ▁il Ġcuore", "'' `` \"il\"", "İSTANBUL ΟΔΟΣ straße", "\ufffd \U000e0001 il",
]


def wordpiece(uncased: bool = False) -> Any:
    return train_tokenizer(TEXTS, VocabularyConfig(size=100, allow_fewer=True, uncased=uncased,
                                                   strip_accents=uncased))


def byte_bpe(processor: str, normalizer: Any = None, added: Sequence[Any] = ()) -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=320, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if processor == "roberta":
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    else:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    tokenizer.add_tokens(list(added))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="<mask>",
                                   pad_token="<pad>", cls_token="<s>", sep_token="</s>")


def unigram(splitter: Any = None, normalizer: Any = None, added: Sequence[Any] = ()) -> Any:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter or pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
    tokenizer.train_from_iterator(TEXTS, trainers.UnigramTrainer(
        vocab_size=90, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False))
    tokenizer.add_tokens(list(added))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="<mask>")


def odd() -> list[AddedToken]:
    """Return a tokenizer whose added tokens include spaces, or match after normalization."""
    return [AddedToken("<odd>", lstrip=True, rstrip=True), AddedToken("ossigeno", single_word=True)]


def modern_bert() -> Any:
    runs = [AddedToken(" " * length, normalized=True) for length in (2, 3)]
    return byte_bpe("template", normalizers.NFC(), [*runs, *odd()])


def deberta() -> Any:
    steps = [normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "), normalizers.NFC(),
             normalizers.Strip(left=False, right=True)]
    return unigram(pre_tokenizers.Metaspace(), normalizers.Sequence(steps), odd())


def xlm_roberta() -> Any:
    return unigram(pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="first")]),
                   normalizers.NFKC(), odd())


def xlm_roberta_now() -> Any:
    """Return a tokenizer as converted by transformers, which writes several spaces as one sign."""
    steps = [normalizers.Nmt(), normalizers.NFKC(), normalizers.Strip(left=False, right=True),
             normalizers.Replace(Regex(" {2,}"), "▁")]
    return unigram(pre_tokenizers.Metaspace(prepend_scheme="first"), normalizers.Sequence(steps))


FAMILIES: dict[str, Callable[[], Any]] = {
    "WordPiece": wordpiece,
    "WordPiece, uncased": lambda: wordpiece(uncased=True),
    "byte BPE, RobertaProcessing": lambda: byte_bpe("roberta"),
    "byte BPE, TemplateProcessing": lambda: byte_bpe("template"),
    "byte BPE, ModernBERT": modern_bert,
    "Unigram": unigram,
    "Unigram, first piece differs": lambda: unigram(
        pre_tokenizers.Metaspace(prepend_scheme="first"),
        normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])),
    **{f"{kind}, NFKC": lambda kind=kind: train_tokenizer(TEXTS, VocabularyConfig(
        size=300, allow_fewer=True, tokenizer_type=kind, unicode="nfkc"))
       for kind in ("wordpiece", "bpe", "unigram")},
    "Unigram, DeBERTa": deberta,
    "Unigram, XLM-R": xlm_roberta,
    "Unigram, XLM-R now": xlm_roberta_now,
}


@pytest.fixture(scope="module", params=FAMILIES)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return FAMILIES[request.param]()


def by_library(tokenizer: Any, texts: Sequence[str]) -> Iterator[tuple[list[int], list[bool]]]:
    """Encode each text with the library, and find words by plain loops over characters.

    Special tokens in a text are text. Unigram has them as pieces, so a rare letter hides them.
    """
    backend = tokenizer.backend_tokenizer
    backend.encode_special_tokens = True
    hidden = SPECIAL if type(backend.model).__name__ == "Unigram" else []
    for text in texts:
        shown = text
        for token in hidden:
            shown = shown.replace(token, "\U00010380" * len(token))
        found = backend.encode(shown, add_special_tokens=False)
        offsets = found.offsets
        if type(backend.model).__name__ == "WordPiece":  # words that the tokens spell
            text, offsets = "", []
            for token in found.tokens:
                text += token.removeprefix("##") if token.startswith("##") else f" {token}"
                offsets.append((offsets[-1][1] if offsets else 0, len(text)))
        yield found.ids, plain_starts(backend, text, found.ids, offsets)


def plain_starts(backend: Tokenizer, text: str, ids: list[int],
                 offsets: list[tuple[int, int]]) -> list[bool]:
    """Number the words of a text character by character (brute force)."""
    words: list[int] = []
    kind = "space"
    for character in text:
        is_new = True
        if character.isspace():
            kind = "space"
        elif unicodedata.category(character)[0] == "M" or character in "\u00ad\u200d\u200c\ufeff":
            is_new, kind = kind == "space", "letter" if kind == "space" else kind
        elif unicodedata.category(character)[0] in "LN" and not "\u4e00" <= character <= "\u9fff":
            is_new, kind = kind != "letter", "letter"
        else:
            kind = "sign"
        words.append((words[-1] if words else 0) + is_new)
    starts: list[bool] = []
    seen, space_before = 0, False
    for number, (begin, end) in zip(ids, offsets, strict=True):
        token = backend.id_to_token(number)
        place = next((n for n in range(begin, end) if not text[n].isspace()), None)
        first = begin if place is None else place
        is_start = first >= seen or begin == end
        if place is not None:
            is_start &= place == 0 or words[place] != words[place - 1]
            is_start &= not (space_before and token[0] not in "▁Ġ")
        starts.append(is_start or not starts)
        seen, space_before = max(seen, end), place is None and token in ("▁", "Ġ")
    return starts


def as_lists(tokenizer: Any, texts: Sequence[str]) -> list[tuple[list[int], list[bool]]]:
    return [(one.ids.tolist(), one.word_starts.tolist()) for one in encode(tokenizer, texts)]


def test_difficult_texts_are_encoded_as_by_the_library(tokenizer: Any) -> None:
    assert Encoder(tokenizer.backend_tokenizer).encode(TEXTS).in_chunks, "nothing would be tested"
    expected = list(by_library(tokenizer, NASTY))
    assert as_lists(tokenizer, [TEXTS[0], *NASTY])[1:] == expected
    for text, one in zip(NASTY, expected, strict=True):  # the check cannot compare another text
        assert as_lists(tokenizer, [TEXTS[0], text])[1] == one


def test_random_texts_are_encoded_as_by_the_library(tokenizer: Any) -> None:
    rng = random.Random(0)
    bits = [*" ".join(NASTY).split(" "), *[" "] * 40, "\n", "\u00a0", "  ", *SENTENCE.split()]
    texts = ["".join(rng.choices(bits, k=rng.randrange(12))) for _ in range(600)]
    found = Encoder(tokenizer.backend_tokenizer).encode([TEXTS[0], *texts])
    assert found.in_chunks
    assert as_lists(tokenizer, [TEXTS[0], *texts])[1:] == list(by_library(tokenizer, texts))


@pytest.mark.slow
@pytest.mark.data
def test_real_text_is_encoded_as_by_the_library(tokenizer: Any, data: Path) -> None:
    texts = list(real_texts(data))
    assert Encoder(tokenizer.backend_tokenizer).encode(texts).in_chunks
    assert as_lists(tokenizer, texts) == list(by_library(tokenizer, texts))


def real_texts(data: Path) -> Iterator[str]:
    with gzip.open(data / "en/corpus/pubmed-drug-reviews.jsonl.gz", "rt", "utf-8") as stream:
        for line in itertools.islice(stream, 100):
            record = json.loads(line)
            yield f"{record['title']}\n{record['text']}"
    with gzip.open(data / "it/corpus/native-leaflets.jsonl.gz", "rt", "utf-8") as stream:
        yield from (json.loads(line)["text"] for line in itertools.islice(stream, 10))
    with (data / "it/corpus/native-clinical.jsonl").open(encoding="utf-8") as stream:
        yield from (json.loads(line)["text"] for line in itertools.islice(stream, 50))
    with (data / "ja/corpus/general-gsd.txt").open(encoding="utf-8") as stream:
        yield from itertools.islice(stream, 200)


def test_special_tokens_in_a_text_are_read_as_text(tokenizer: Any) -> None:
    texts = ["Il </s>cuore <mask> pompa[SEP] <s> [MASK]", *TEXTS]
    found, *_ = encode(tokenizer, texts)
    special = {*tokenizer.all_special_ids} - {tokenizer.backend_tokenizer.token_to_id("<unk>"),
                                              tokenizer.unk_token_id}
    assert len(special) >= 1 and not special & {*found.ids.tolist()}


@pytest.mark.parametrize("family", ["WordPiece", "byte BPE, RobertaProcessing", "Unigram"])
def test_texts_with_a_wrong_split_are_encoded_without_chunks(
        family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_words(self: SafeSplitter, text: str) -> list[str]:
        return [text[:5], text[5:]]

    tokenizer = FAMILIES[family]()
    monkeypatch.setattr(SafeSplitter, "split", in_words)
    found = Encoder(tokenizer.backend_tokenizer).encode([SENTENCE, TEXTS[0]])
    assert not found.in_chunks
    expected = [ids for ids, _ in by_library(tokenizer, [SENTENCE, TEXTS[0]])]
    assert found.ids.tolist() == expected[0] + expected[1]


def test_offsets_find_the_token_that_begins_there() -> None:
    text = "La sera.  Il\ncuore.La"
    #       0  3     10  13    19
    points = [0, 3, 10, 13, 19, 99]
    for make in FAMILIES.values():
        tokenizer = make()
        found = Encoder(tokenizer.backend_tokenizer).encode([text, SENTENCE], [points, [0]])
        [encoded] = tokenizer.backend_tokenizer.encode_batch([text], add_special_tokens=False)
        for point, place in list(zip(points, found.tokens_at[0], strict=True))[:-1]:
            begin, end = encoded.offsets[place]
            assert text[min(begin, point):point].strip() == "" and end > point - 1, (point, place)
        assert found.tokens_at[0][-1] == len(encoded.ids)
        assert found.tokens_at[1] == [0]


def test_a_segmenter_determines_word_starts() -> None:
    seen = []

    def segment(text: str) -> list[int]:
        seen.append(text)
        return [place for place in range(0, len(text), 2) if not text[place].isspace()]

    tokenizer = wordpiece()
    found = Encoder(tokenizer.backend_tokenizer, segment).encode([SENTENCE, ""])
    [expected] = tokenizer.backend_tokenizer.encode_batch([SENTENCE], add_special_tokens=False)
    assert found.ids.tolist() == expected.ids
    assert found.word_starts.tolist() == [begin % 2 == 0 for begin, _ in expected.offsets]
    assert seen == [SENTENCE, ""]


def made_of(splitter: Any = None, normalizer: Any = None, model: Any = None,
            added: tuple[Any, ...] = ()) -> Any:
    made = Tokenizer(model or models.BPE())
    made.normalizer, made.pre_tokenizer = normalizer, splitter
    made.add_tokens(list(added))
    return made


def dropping(share: float) -> Any:
    return made_of(pre_tokenizers.ByteLevel(), model=models.BPE(dropout=share))


def truncating() -> Any:
    made = made_of(pre_tokenizers.ByteLevel())
    made.enable_truncation(8)
    return made


LLAMA = pre_tokenizers.Sequence([
    pre_tokenizers.Split(Regex(r"\p{L}+|\s+"), "isolated"),
    pre_tokenizers.ByteLevel(use_regex=False)])
REFUSED = {
    "no splitter": made_of(),
    "byte level without its expression": made_of(LLAMA),
    "spaces become letters": made_of(
        pre_tokenizers.Split(" ", "merged_with_previous"), normalizers.Replace(" ", "▁")),
    "Metaspace that does not split": made_of(pre_tokenizers.Metaspace(split=False)),
    "something is put before every text": made_of(
        pre_tokenizers.Metaspace(), normalizers.Prepend("▁")),
    "the space ahead is stripped": made_of(pre_tokenizers.Metaspace(), normalizers.Strip()),
    "spaces become a sign that no longer splits": made_of(
        pre_tokenizers.WhitespaceSplit(), normalizers.Replace(Regex(" {2,}"), "▁")),
    "an unknown replacement": made_of(
        pre_tokenizers.BertPreTokenizer(), normalizers.Replace(Regex("a b"), "c")),
    "dropout": dropping(0.1),
    "truncation": truncating(),
    "an added token of two words": made_of(
        pre_tokenizers.ByteLevel(), added=(AddedToken("il cuore"),)),
    "a normalized one": made_of(
        pre_tokenizers.ByteLevel(), normalizers.NFKC(), added=(AddedToken("il\u00a0cuore"),)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_chunks_joined_are_the_text(reason: str) -> None:
    assert not SafeSplitter(REFUSED[reason]).enabled
