"""Special tokens of BERT, RoBERTa and ModernBERT, and what stands around a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Tokenizer, processors
from transformers import BertTokenizer, PreTrainedTokenizerFast

_INPUTS = ("input_ids", "attention_mask")


@dataclass(frozen=True)
class SpecialTokensLayout:
    """Names of special tokens in the order of their ids, from 0, and their use.

    Args:
        tokens: names by id.
        roles: transformers' attributes and the token of each.
        single: frame of one text, as a template with token types.
        pair: frame of two.
        mask_takes_space: the mask stands for a word together with the space before it.
        inputs: what a model is given.
    """

    tokens: tuple[str, ...]
    roles: Mapping[str, str]
    single: str
    pair: str
    mask_takes_space: bool
    inputs: tuple[str, ...] = _INPUTS


_BERT_ROLES = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]",
               "sep_token": "[SEP]", "mask_token": "[MASK]"}
_BERT_FRAMES = ("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1")
LAYOUTS: Mapping[str, SpecialTokensLayout] = {
    "bert": SpecialTokensLayout(
        ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), _BERT_ROLES, *_BERT_FRAMES,
        mask_takes_space=False, inputs=("input_ids", "token_type_ids", "attention_mask")),
    # Positions of RoBERTa models count from the id of padding, which is 1.
    "roberta": SpecialTokensLayout(
        ("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
        {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>",
         "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"},
        "<s>:0 $A:0 </s>:0", "<s>:0 $A:0 </s>:0 </s>:0 $B:0 </s>:0", mask_takes_space=True),
    "modernbert": SpecialTokensLayout(
        ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"), _BERT_ROLES, *_BERT_FRAMES,
        mask_takes_space=True),
}


def frame(backend: Tokenizer, layout: SpecialTokensLayout) -> Any:
    """Give a tokenizer its special tokens and frames, and wrap it for transformers.

    transformers builds the steps of its class BertTokenizer from `tokenizer_config.json`, not from
    `tokenizer.json`. So that class is taken only where it comes to the same steps, and the generic
    one, which reads them as they are, elsewhere.

    Args:
        backend: holds the special tokens at their ids; gets their frame.
        layout: which they are.
    """
    mask = layout.roles["mask_token"]
    special = [AddedToken(token, special=True, normalized=False,
                          lstrip=token == mask and layout.mask_takes_space)
               for token in layout.tokens]
    backend.add_special_tokens(special)
    numbers = [(token, backend.token_to_id(token)) for token in layout.tokens]
    backend.post_processor = _trimming(backend, layout) or processors.TemplateProcessing(
        single=layout.single, pair=layout.pair,
        special_tokens=[pair for pair in numbers if pair[0] in layout.pair])
    if (known := _as_bert(backend, layout)) is not None:
        return known
    named = {**layout.roles, "mask_token": special[layout.tokens.index(mask)]}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, model_input_names=list(layout.inputs), **named)


def _trimming(backend: Tokenizer, layout: SpecialTokensLayout) -> Any:
    """RoBERTa's own step, which makes the same frame and leaves the space before a word out of its
    offsets; None for other layouts, and where spaces are no bytes."""
    if layout is not LAYOUTS["roberta"] or type(backend.model).__name__ != "BPE":
        return None
    return processors.RobertaProcessing(
        ("</s>", layout.tokens.index("</s>")), ("<s>", layout.tokens.index("<s>")),
        trim_offsets=True, add_prefix_space=False)


def _as_bert(backend: Tokenizer, layout: SpecialTokensLayout) -> Any:
    """The same tokenizer as transformers' BertTokenizer, or None where that would differ."""
    if type(backend.model).__name__ != "WordPiece" or layout is not LAYOUTS["bert"]:
        return None
    normalizer = backend.normalizer
    made = BertTokenizer(vocab=backend.get_vocab(),
                         do_lower_case=getattr(normalizer, "lowercase", False),
                         strip_accents=getattr(normalizer, "strip_accents", False))
    return made if _steps(made.backend_tokenizer) == _steps(backend) else None


def _steps(backend: Tokenizer) -> tuple[bytes, ...]:
    return tuple(step.__getstate__() for step in (backend.normalizer, backend.pre_tokenizer))
