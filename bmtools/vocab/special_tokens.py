"""Special tokens and sequence templates of BERT, RoBERTa and ModernBERT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tokenizers import AddedToken, Tokenizer, processors
from transformers import BertTokenizer, PreTrainedTokenizerFast

from bmtools.vocab.settings import SpecialTokenStyle


@dataclass(frozen=True)
class SpecialTokenScheme:
    """Special tokens of a model family and the template that puts them around a text.

    Args:
        tokens: names in the order of their ids, from 0.
        roles: token by transformers' attribute (`mask_token` ...).
        single: template of one text, with token type ids.
        pair: template of two.
        mask_takes_space: the mask replaces a word together with the space before it.
        model_inputs: names of the tensors that the model takes.
    """

    tokens: tuple[str, ...]
    roles: Mapping[str, str]
    single: str
    pair: str
    mask_takes_space: bool
    model_inputs: tuple[str, ...] = ("input_ids", "attention_mask")


_BERT_ROLES = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]",
               "sep_token": "[SEP]", "mask_token": "[MASK]"}
_BERT_TEMPLATES = ("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1")
SCHEMES: Mapping[SpecialTokenStyle, SpecialTokenScheme] = {
    "bert": SpecialTokenScheme(
        ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), _BERT_ROLES, *_BERT_TEMPLATES,
        mask_takes_space=False, model_inputs=("input_ids", "token_type_ids", "attention_mask")),
    # Positions of RoBERTa models count from the id of padding, which is 1.
    "roberta": SpecialTokenScheme(
        ("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
        {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>",
         "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"},
        "<s>:0 $A:0 </s>:0", "<s>:0 $A:0 </s>:0 </s>:0 $B:0 </s>:0", mask_takes_space=True),
    "modernbert": SpecialTokenScheme(
        ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"), _BERT_ROLES, *_BERT_TEMPLATES,
        mask_takes_space=True),
}


def add_special_tokens(backend: Tokenizer, scheme: SpecialTokenScheme) -> PreTrainedTokenizerFast:
    """Add special tokens and templates to a tokenizer and wrap it for transformers.

    transformers builds the pipeline of its class BertTokenizer from `tokenizer_config.json`, not
    from `tokenizer.json`. So that class is used only where it comes to the same pipeline, and the
    generic one, which reads the pipeline as it is, elsewhere.

    Args:
        backend: has the special tokens at their ids; gets the templates.
        scheme: the special tokens.
    """
    mask = scheme.roles["mask_token"]
    special = [AddedToken(token, special=True, normalized=False,
                          lstrip=token == mask and scheme.mask_takes_space)
               for token in scheme.tokens]
    backend.add_special_tokens(special)
    model = type(backend.model).__name__
    if scheme is SCHEMES["roberta"] and model == "BPE":
        # The same template, which also leaves the space before a word out of its offsets.
        backend.post_processor = processors.RobertaProcessing(
            ("</s>", scheme.tokens.index("</s>")), ("<s>", scheme.tokens.index("<s>")),
            trim_offsets=True, add_prefix_space=False)
    else:
        backend.post_processor = processors.TemplateProcessing(
            single=scheme.single, pair=scheme.pair,
            special_tokens=[(token, number) for number, token in enumerate(scheme.tokens)
                            if token in scheme.pair])
    if scheme is SCHEMES["bert"] and model == "WordPiece":
        normalizer = backend.normalizer
        bert = BertTokenizer(vocab=backend.get_vocab(),
                             do_lower_case=getattr(normalizer, "lowercase", False),
                             strip_accents=getattr(normalizer, "strip_accents", False))
        theirs = bert.backend_tokenizer
        if (theirs.normalizer.__getstate__() == normalizer.__getstate__()
            and theirs.pre_tokenizer.__getstate__() == backend.pre_tokenizer.__getstate__()):
            return bert
    roles = {**scheme.roles, "mask_token": special[scheme.tokens.index(mask)]}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, model_input_names=list(scheme.model_inputs), **roles)
