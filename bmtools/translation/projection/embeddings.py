"""Projection by comparing hidden states of an encoder that reads both languages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch

from bmtools.errors import CheckpointError, require
from bmtools.models.checkpoint import load_checkpoint
from bmtools.models.families import positions
from bmtools.models.hardware import resolve_device
from bmtools.models.model_files import read_config
from bmtools.translation.engines.model_files import Subwords, check_translation_model
from bmtools.translation.engines.transformers_engine import batches_by_length, load_model, pad
from bmtools.translation.projection.links import linked_place, softmax_links, word_spans
from bmtools.translation.projection.pairs import Places, SentencePair, Span
from bmtools.translation.settings import EngineConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_USUAL_LAYER = 8
_NO_LIMIT = 1 << 30


class TokenizedSentence(NamedTuple):
    """A sentence as input ids.

    Args:
        ids: ids including special tokens.
        owners: word number of each id; -1 for special tokens.
        words: start and end of each word in the sentence.
    """

    ids: list[int]
    owners: np.ndarray
    words: list[Span]


class WordTokenizer:
    """Tokenizer that keeps track of words by encoding each word separately, after a blank.

    Args:
        tokenizer: tokenizer of the model.
        before: ids of the special tokens at the start of a sentence.
        after: id of the special token at its end.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, before: list[int], after: int) -> None:
        self._tokenizer, self._before, self._after = tokenizer, before, after
        self._known: dict[str, list[int]] = {}

    def __call__(self, sentence: str) -> TokenizedSentence:
        """Tokenize a sentence."""
        words = word_spans(sentence)
        pieces = [self._pieces(sentence[start:end]) for start, end in words]
        owners = [number for number, own in enumerate(pieces) for _ in own]
        return TokenizedSentence(
            [*self._before, *(piece for own in pieces for piece in own), self._after],
            np.array([*(-1 for _ in self._before), *owners, -1], int), words)

    def _pieces(self, word: str) -> list[int]:
        if word not in self._known:
            self._known[word] = list(self._tokenizer(
                f" {word}", add_special_tokens=False, verbose=False)["input_ids"])
        return self._known[word]


@dataclass(eq=False)
class EmbeddingsProjector:
    """Projector that links words by their hidden states.

    Args:
        encoder: encoder that returns hidden states for input ids and attention mask.
        tokenizers: tokenizers of the source and target language.
        layer: layer of the states to compare; 0 for the embeddings.
        pad_id: id of the padding token.
        max_length: tokens that the encoder accepts; a pair with a longer sentence gets no links.
        batch_tokens: tokens of one batch, including padding.
    """

    encoder: PreTrainedModel
    tokenizers: tuple[WordTokenizer, WordTokenizer]
    layer: int
    pad_id: int
    max_length: int
    batch_tokens: int = EngineConfig.batch_tokens

    @classmethod
    def load(cls, directory: Path, source: str, target: str,
             layer: int | None = None) -> EmbeddingsProjector:
        """Load an encoder that reads both languages, or the encoder of a translation model.

        Source: Dou and Neubig 2021 (awesome-align); for translation models Ebing and Glavaš 2025
        (TransAlign, arXiv 2510.27337). Here the models are not fine-tuned.

        Args:
            directory: directory of its checkpoint, as transformers saves it.
            source: ISO 639-1 code.
            target: ISO 639-1 code.
            layer: layer of the states to compare. Default: the last layer of a translation model,
                and the eighth of another encoder, or its last if it has fewer.

        Raises:
            CheckpointError: there is no such model, or it reads only the source language.
            ValueError: the encoder does not have this layer.
        """
        if read_config(directory).get("is_encoder_decoder"):
            check_translation_model(directory, "transformers")
            left, right = (Subwords(EngineConfig("transformers", *languages, model=directory))
                           for languages in ((source, target), (target, source)))
            if not (left.target_token or "".join(left.prefix).startswith("<2")):
                raise CheckpointError(
                    f"{directory}: has no language tokens, so its encoder reads only {source!r}; "
                    "expected a model that reads both languages; use for example "
                    "NLLB, M2M-100 or MADLAD-400")
            encoder = load_model(directory, "auto").get_encoder()
            tokenizer, max_length = left.tokenizer, left.max_length
            sides = [WordTokenizer(one.tokenizer, [one.vocabulary[token] for token in one.prefix],
                                   one.tokenizer.eos_token_id) for one in (left, right)]
            usual = _NO_LIMIT
        else:
            # A class with a new head uses the encoder's names for the weights, and has no pooler.
            loaded = load_checkpoint(directory, resolve_device("auto"),
                                     "AutoModelForTokenClassification", new_head=True)
            encoder = cast("PreTrainedModel", loaded.model.base_model)
            tokenizer = loaded.tokenizer
            max_length = positions(encoder.config.to_dict()) or _NO_LIMIT
            sides = [WordTokenizer(tokenizer, [tokenizer.cls_token_id], tokenizer.sep_token_id)] * 2
            usual = _USUAL_LAYER
        last = int(encoder.config.num_hidden_layers)
        layer = min(last, usual) if layer is None else layer
        require(0 <= layer <= last, "layer", layer, f"0 to {last}, the encoder's last layer")
        return cls(encoder, (sides[0], sides[1]), layer, tokenizer.pad_token_id, max_length)

    def project(self, pairs: Sequence[SentencePair]) -> Places:
        """Find each span of each pair through the links of its words."""
        found: Places = [[None] * len(pair.spans) for pair in pairs]
        sides = {at: (self.tokenizers[0](pair.source), self.tokenizers[1](pair.target))
                 for at, pair in enumerate(pairs) if pair.spans}
        fitting = [at for at, both in sides.items()
                   if max(len(side.ids) for side in both) <= self.max_length]
        lengths = [sum(len(side.ids) for side in sides[at]) for at in fitting]
        for batch in batches_by_length(lengths, self.batch_tokens):
            places = [fitting[number] for number in batch]
            states = self._states([side.ids for at in places for side in sides[at]])
            for number, at in enumerate(places):
                links = self._word_links(sides[at], states[2 * number:2 * number + 2])
                words = [side.words for side in sides[at]]
                found[at] = [linked_place(links, words[0], words[1], span)
                             for span in pairs[at].spans]
        return found

    @torch.inference_mode()
    def _states(self, sequences: Sequence[list[int]]) -> list[np.ndarray]:
        """Return the hidden states for sequences of ids, without padding."""
        inputs, mask = pad(sequences, self.pad_id, next(self.encoder.parameters()).device)
        output = self.encoder(input_ids=inputs, attention_mask=mask, output_hidden_states=True)
        states = output.hidden_states[self.layer].float().cpu().numpy()
        return [one[:len(ids)] for one, ids in zip(states, sequences, strict=True)]

    def _word_links(self, sides: Sequence[TokenizedSentence],
                    states: Sequence[np.ndarray]) -> np.ndarray:
        """Return the links of words: the strongest link between their tokens."""
        left, right = (side.owners >= 0 for side in sides)
        links = np.zeros((len(sides[0].words), len(sides[1].words)))
        if left.any() and right.any():
            owners = np.ix_(sides[0].owners[left], sides[1].owners[right])
            np.maximum.at(links, owners, softmax_links(states[0][left], states[1][right]))
        return links
