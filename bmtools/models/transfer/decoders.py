"""Encoders made from decoders: the same weights, with attention in both directions."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import AddedToken, processors

from bmtools.errors import BmtoolsWarning, CheckpointError
from bmtools.io.failures import reading
from bmtools.models.architectures import set_vocabulary
from bmtools.models.checkpoint import Checkpoint, silence_transformers
from bmtools.models.inference_files import require_finite
from bmtools.records import JsonObject
from bmtools.status import set_status
from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.tokenizer import fingerprint

if TYPE_CHECKING:
    from transformers import EuroBertConfig, PreTrainedModel, PreTrainedTokenizerFast


def load_decoder(directory: Path) -> Checkpoint:
    """Load a Llama, Mistral or Qwen2 as EuroBERT, which has their layers without causal masks.

    Weights keep their names and values. Biases that only EuroBERT has are 0; for Qwen2 this is the
    bias of attention's output. Special tokens of an encoder that are missing from the tokenizer are
    added, with a warning. They start as the mean of all tokens' embeddings.

    Source: Boizard et al. 2025 (EuroBERT), section 2.1.

    Raises:
        CheckpointError: the weights or the tokenizer cannot be used.
    """
    set_status(f"loading {directory}")
    tokenizer = load_tokenizer(directory)
    from transformers import EuroBertForMaskedLM

    silence_transformers()
    with reading(directory, "no model could be loaded", "expected safetensors weights"):
        loaded: Any = EuroBertForMaskedLM.from_pretrained(
            directory, config=_encoder_config(directory), dtype=torch.float32, use_safetensors=True,
            local_files_only=True, trust_remote_code=False, output_loading_info=True)
    model, report = loaded
    require_finite(directory, model.state_dict())
    missing = sorted(name for name in report["missing_keys"] if not name.endswith(".bias"))
    if missing:
        raise CheckpointError(f"{directory}: no fitting weights for {missing[0]}, need a complete "
                              "decoder with its head")
    known = len(tokenizer)
    complete, added = _add_special_tokens(tokenizer)
    if added:
        _add_rows(model, min(known, model.config.vocab_size), len(complete))
        warnings.warn(BmtoolsWarning(
            f"{directory}: the tokenizer of this decoder has no {', '.join(added)}; added these "
            "tokens, which an encoder needs, as the mean of all tokens"), stacklevel=2)
    size = model.config.vocab_size
    set_vocabulary(model.config, complete)
    model.config.vocab_size = size  # often larger than the tokenizer
    return Checkpoint(directory, model.eval(), complete, fingerprint(complete))


def _encoder_config(directory: Path) -> EuroBertConfig:
    """Make the configuration of an encoder with a decoder's weights."""
    from transformers import AutoConfig, EuroBertConfig

    decoder = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    found: JsonObject = {name: getattr(decoder, name, None)
                         for name in EuroBertConfig.__annotations__ if "_token" not in name}
    if decoder.model_type == "qwen2":
        found["attention_bias"] = True
    if window := getattr(decoder, "sliding_window", None):
        # For texts up to the window's length, attention in a window is attention to all tokens.
        found["max_position_embeddings"] = min(window, found["max_position_embeddings"])
    return EuroBertConfig(**{name: value for name, value in found.items() if value is not None},
                          pad_token_id=None, bos_token_id=None, eos_token_id=None)


def _add_special_tokens(
        tokenizer: PreTrainedTokenizerFast) -> tuple[PreTrainedTokenizerFast, list[str]]:
    """Complete a decoder's special tokens, and make the tokenizer add cls and sep to each text.

    Existing tokens for the start and end of a text are used as cls and sep. Padding must be a
    separate token, because the embedding of padding is never trained.

    Returns:
        the tokenizer, and the names of the added tokens.
    """
    from transformers import PreTrainedTokenizerFast

    roles = {"cls": tokenizer.cls_token or tokenizer.bos_token,
             "sep": tokenizer.sep_token or tokenizer.eos_token,
             "pad": tokenizer.pad_token, "mask": tokenizer.mask_token}
    if roles["pad"] in (roles["cls"], roles["sep"], tokenizer.unk_token):
        roles["pad"] = None
    added = [f"<|{role}|>" for role, token in roles.items() if token is None]
    roles = {role: token or f"<|{role}|>" for role, token in roles.items()}
    backend = tokenizer.backend_tokenizer
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False,
                                           lstrip=token == roles["mask"]) for token in added])
    cls, sep = roles["cls"], roles["sep"]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0", pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(token, backend.token_to_id(token)) for token in (cls, sep)])
    others = {token.content for token in backend.get_added_tokens_decoder().values()
              if token.special} - {*roles.values(), tokenizer.unk_token}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, model_input_names=["input_ids", "attention_mask"],
        extra_special_tokens=sorted(others), unk_token=tokenizer.unk_token,
        **{f"{role}_token": token for role, token in roles.items()}), added


@torch.no_grad()
def _add_rows(model: PreTrainedModel, known: int, tokens: int) -> None:
    """Set the embeddings of new tokens, at `known` and above, to the mean of the known tokens."""
    if tokens > model.config.vocab_size:
        model.resize_token_embeddings(tokens, mean_resizing=False)
    for table in (model.get_input_embeddings(), model.get_output_embeddings()):
        weight: Any = table.weight
        weight[known:tokens] = weight[:known].mean(dim=0)
