"""Tokens found in an old vocabulary of each type; weighted rows and neighbours against a loop."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import BertTokenizer, PreTrainedTokenizerFast

from bmtools.models.transfer.vocab_overlap import (
    WeightedRows,
    find_overlap,
)

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROLES = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]",
         "mask_token": "[MASK]"}


def word_pieces(*tokens: str, uncased: bool = False) -> Any:
    listed = [*SPECIAL, *tokens]
    return BertTokenizer(vocab={token: n for n, token in enumerate(listed)},
                         do_lower_case=uncased)


def byte_pairs(*words: str, uncased: bool = False) -> Any:
    """Byte-level BPE with these words and all their prefixes; a space is spelled Ġ."""
    merges = [(word[:end], word[end]) for word in words for end in range(1, len(word))]
    letters = sorted({letter for word in words for letter in word})
    tokens = list(dict.fromkeys([*SPECIAL, *letters, *("".join(pair) for pair in merges)]))
    backend = Tokenizer(models.BPE(vocab={token: n for n, token in enumerate(tokens)},
                                   merges=list(dict.fromkeys(merges))))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    if uncased:
        backend.normalizer = normalizers.Lowercase()
    return PreTrainedTokenizerFast(tokenizer_object=backend, **ROLES)


def unigrams(*tokens: str) -> Any:
    backend = Tokenizer(models.Unigram(
        [(token, 0.0) for token in SPECIAL] + [(token, -float(n)) for n, token in
                                               enumerate(tokens)], unk_id=1))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, **ROLES)


def traced(old: Any, new: Any, token: str) -> Any:
    """Return the way a token was found, and the tokens found."""
    origins, number = find_overlap(old, new), new.get_vocab()[token]
    names = old.convert_ids_to_tokens
    if number in origins.shared:
        return "shared", names(origins.shared[number])
    how = "folded" if number in origins.folded else "pieces"
    return how, names(getattr(origins, how)[number])


def test_pieces_inside_words_differ_from_beginnings() -> None:
    old = word_pieces("lym", "oma", "##oma", "##ph")
    new = word_pieces("lymphoma", "oma", "##oma", "##phoma", "##lym")
    assert traced(old, new, "lymphoma") == ("pieces", ["lym", "##ph", "##oma"])
    assert traced(old, new, "oma") == ("shared", "oma")
    assert traced(old, new, "##oma") == ("shared", "##oma")
    assert traced(old, new, "##phoma") == ("pieces", ["##ph", "##oma"])
    assert traced(old, new, "##lym") == ("pieces", ["[UNK]"])


def test_an_uncased_base_folds_a_cased_token() -> None:
    old = word_pieces("alzheimer", "us", "re", "##ne", "##e", uncased=True)
    new = word_pieces("Alzheimer", "us", "US", "Rene", "R\u00e9n\u00e9", "##NE")
    assert traced(old, new, "Alzheimer") == ("folded", ["alzheimer"])
    assert traced(old, new, "us") == ("shared", "us")
    assert traced(old, new, "US") == ("folded", ["us"])
    assert traced(old, new, "R\u00e9n\u00e9") == ("pieces", ["re", "##ne"])
    assert traced(old, new, "##NE") == ("folded", ["##ne"])


def test_an_uncased_token_averages_all_cased_spellings() -> None:
    old = word_pieces("aids", "AIDS", "Alzheimer", "ALZHEIMER", "##A", "a", "##l")
    new = word_pieces("aids", "alzheimer", "##a", "al", uncased=True)
    assert traced(old, new, "aids") == ("shared", "aids")
    assert traced(old, new, "alzheimer") == ("folded", ["Alzheimer", "ALZHEIMER"])
    assert traced(old, new, "##a") == ("folded", ["##A"])
    assert traced(old, new, "al") == ("pieces", ["a", "##l"])


def test_special_tokens_are_matched_by_role() -> None:
    renamed = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordPiece(
            vocab={token: n for n, token in enumerate(["<mask>", "<s>", "</s>", "<pad>", "<unk>",
                                                       "a"])}, unk_token="<unk>")),
        pad_token="<pad>", unk_token="<unk>", cls_token="<s>", sep_token="</s>",
        mask_token="<mask>")
    old = word_pieces("a")
    for ours, theirs in (("<mask>", "[MASK]"), ("<s>", "[CLS]"), ("</s>", "[SEP]"),
                         ("<pad>", "[PAD]"), ("<unk>", "[UNK]"), ("a", "a")):
        assert traced(old, renamed, ours) == ("shared", theirs)


def test_a_space_is_part_of_a_byte_level_token() -> None:
    old, new = byte_pairs("\u0120lym", "lym", "pho"), byte_pairs("\u0120lympho", "lympho")
    assert traced(old, new, "\u0120lympho") == ("pieces", ["\u0120lym", "pho"])
    assert traced(old, new, "lympho") == ("pieces", ["lym", "pho"])
    assert traced(old, new, "\u0120lym") == ("shared", "\u0120lym")


def test_byte_level_tokens_fold_as_text() -> None:
    """\u00c9 is two bytes; half of it is no text and stays as it is."""
    small, large = "\u0120\u00c3\u00a9t", "\u0120\u00c3\u012bt"  # of " \u00e9t" and " \u00c9t"
    old, new = byte_pairs(small, uncased=True), byte_pairs(large)
    assert traced(old, new, large) == ("folded", [small])
    assert traced(old, new, "\u0120\u00c3") == ("shared", "\u0120\u00c3")
    assert traced(byte_pairs(large), byte_pairs(small, uncased=True), small) == ("folded", [large])


def test_a_space_is_part_of_a_unigram() -> None:
    old = unigrams("\u2581lym", "lym", "pho", "\u2581")
    new = unigrams("\u2581lympho", "lympho", "lym")
    assert traced(old, new, "\u2581lympho") == ("pieces", ["\u2581lym", "pho"])
    assert traced(old, new, "lympho") == ("pieces", ["lym", "pho"])
    assert traced(old, new, "lym") == ("shared", "lym")


def test_means_of_rows_equal_a_loop() -> None:
    table = torch.randn(30, 7, generator=torch.Generator().manual_seed(0))
    members = {5: [1, 2, 29], 0: [4], 9: [3, 3, 8, 1]}
    target = torch.zeros(12, 7)
    means = WeightedRows.means(members)
    target[means.tokens] = means.sum_rows(table)
    for row in range(12):
        expected = table[members[row]].mean(dim=0) if row in members else torch.zeros(7)
        torch.testing.assert_close(target[row], expected, atol=1e-6, rtol=0)
