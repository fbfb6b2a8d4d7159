"""Word starts, for each family of tokenizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from bmtools.vocab.encoding import encode
from bmtools.vocab.settings import WordPieceSettings
from bmtools.vocab.wordpiece import learn

TEXTS = ["La broncocostrizione riduce il respiro.", "Il cuore pompa il sangue ossigenato."] * 20
SENTENCE = "La broncodilatazione riduce il cuore."
WORDS = ["La", "broncodilatazione", "riduce", "il", "cuore", "."]


def wordpiece() -> Any:
    return learn(TEXTS, WordPieceSettings(size=100))


def byte_bpe(processor: str) -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "</s>", "<mask>", "<pad>", "<unk>"]
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=320, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if processor == "roberta":
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    else:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="<mask>",
                                   pad_token="<pad>", cls_token="<s>", sep_token="</s>")


def unigram() -> Any:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
    tokenizer.train_from_iterator(TEXTS, trainers.UnigramTrainer(
        vocab_size=90, special_tokens=["<s>", "</s>", "<mask>", "<pad>", "<unk>"],
        unk_token="<unk>", show_progress=False))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="<mask>")


FAMILIES: dict[str, Callable[[], Any]] = {
    "WordPiece": wordpiece,
    "byte BPE, RobertaProcessing": lambda: byte_bpe("roberta"),
    "byte BPE, TemplateProcessing": lambda: byte_bpe("template"),
    "Unigram": unigram,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_words_are_the_sentence_s_words(family: str) -> None:
    tokenizer = FAMILIES[family]()
    [encoded] = encode(tokenizer, [SENTENCE])
    assert len(encoded.ids) > len(WORDS), "the long word must be in pieces for this to tell"
    pieces = tokenizer.convert_ids_to_tokens(encoded.ids.tolist())
    words: list[str] = []
    for piece, start in zip(pieces, encoded.starts, strict=True):
        bare = piece.removeprefix("##").lstrip("Ġ▁")
        words = [*words, bare] if start else [*words[:-1], words[-1] + bare]
    assert words == WORDS


def test_texts_keep_their_order_and_empty_ones_stay() -> None:
    tokenizer = wordpiece()
    found = list(encode(tokenizer, ["cuore", "", "La"]))
    assert [len(item.ids) for item in found][1] == 0
    assert [tokenizer.decode(item.ids.tolist()) for item in found] == ["cuore", "", "La"]
