"""What tokens of different kinds of tokenizers spell."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import BertTokenizer

from bmtools.vocab.tokenizer_json import model_name, token_texts


def byte_level(tokens: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>"])
    return tokenizer


def test_one_spelling_for_all_kinds() -> None:
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


def test_every_byte_comes_back() -> None:
    """The library's own decoder is the judge."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = byte_level(alphabet)
    found = token_texts(tokenizer)
    decoder = decoders.ByteLevel()
    for number, letter in enumerate(alphabet):
        theirs = decoder.decode([letter])
        assert found[number] == theirs or (theirs == "\ufffd" and found[number][:2] == "\\x")
    assert len(set(found.values())) == 256
