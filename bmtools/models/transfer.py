"""A model with a new vocabulary: what it keeps of the old one, and a start for the rest."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bmtools.errors import CheckpointError
from bmtools.models.architectures import (
    adopt_vocabulary,
    build_model,
    build_outline,
    first_position,
)
from bmtools.models.checkpoint import Checkpoint
from bmtools.models.contexts import Contexts, gather, sample_sentences
from bmtools.models.settings import TransferSettings

_INNER = "##"
_ROLES = ("pad", "unk", "cls", "sep", "mask")


@dataclass(frozen=True)
class Origins:
    """Where the tokens of a new vocabulary come from.

    Args:
        shared: old id of each new token that the old vocabulary has too.
        pieces: old ids that each other new token breaks into.
    """

    shared: dict[int, int]
    pieces: dict[int, list[int]]


@dataclass(frozen=True)
class Transfer:
    """A model with its new vocabulary, and how many tokens got their embedding in which way."""

    model: Any
    report: dict[str, int]


def transfer(base: Checkpoint, tokenizer: Any, settings: TransferSettings,
             sentences: Iterable[str] = ()) -> Transfer:
    """Move a model to a new vocabulary.

    Tokens that both vocabularies have keep their embedding and bias, special tokens by their
    role. A new token gets a random embedding, the mean of its pieces' embeddings (section 4,
    "BM averaged"), or the mean of the states that the model has for those pieces in sampled
    sentences (section 3); a token found in no sentence falls back to the mean of its pieces.
    Output biases are the means of the pieces' biases, or 0 beside random embeddings: the paper
    does not say.

    Source: Pavlova and Makhlouf 2023 (BIOptimus), sections 3 and 4.

    Args:
        base: the model and its old vocabulary.
        tokenizer: the new vocabulary.
        settings: the method and its sample.
        sentences: where contexts are sampled from; read by the contextual method only.

    Raises:
        CheckpointError: vocabularies of two kinds, such as WordPiece and BPE.
    """
    origins = trace(base.tokenizer, tokenizer)
    contexts = Contexts({}, 0)
    if settings.method == "contextual":
        wanted = np.zeros(len(tokenizer), dtype=bool)
        wanted[list(origins.pieces)] = True
        rng = np.random.default_rng(settings.seed)
        occurrences = sample_sentences(tokenizer, wanted, sentences, settings.max_sentences, rng)
        contexts = gather(base, occurrences, settings.batch_tokens)
    vectors = _rescaled(contexts.vectors, base.model) if settings.rescale else contexts.vectors
    config = copy.deepcopy(base.model.config)
    adopt_vocabulary(config, tokenizer)
    hanging = _vocabulary_tensors(config)
    model = _rebuilt(base.model, config, hanging, settings.seed)
    _fill(base.model, model, hanging, origins, settings.method, vectors)
    fresh, found = len(origins.pieces), len(contexts.vectors)
    by_pieces = 0 if settings.method == "random" else fresh - found
    return Transfer(model, {
        "tokens": len(tokenizer), "copied": len(origins.shared), "contextual": found,
        "averaged": by_pieces, "random": fresh - found - by_pieces,
        "sentences": contexts.sentences})


def _rescaled(vectors: dict[int, Tensor], base: Any) -> dict[int, Tensor]:
    """Bring vectors to the mean length of a model's embeddings; their proportions stay."""
    if not vectors:
        return vectors
    wanted = base.get_input_embeddings().weight.detach().norm(dim=1).mean().cpu()
    found = torch.stack(list(vectors.values())).norm(dim=1).mean()
    return {token: vector * (wanted / found) for token, vector in vectors.items()}


def trace(old: Any, new: Any) -> Origins:
    """Find each new token in the old vocabulary, whole or in pieces.

    Raises:
        CheckpointError: vocabularies of two kinds.
    """
    kinds = [json.loads(t.backend_tokenizer.to_str())["model"]["type"] for t in (old, new)]
    if kinds[0] != kinds[1]:
        raise CheckpointError(f"the base has a {kinds[0]} vocabulary, the tokenizer a {kinds[1]} "
                              "one; expected two of a kind")
    known = old.get_vocab()
    roles = {getattr(new, f"{role}_token_id"): getattr(old, f"{role}_token_id")
             for role in _ROLES}
    roles = {ours: theirs for ours, theirs in roles.items()
             if ours is not None and theirs is not None}
    shared, pieces = dict(roles), {}
    for token, number in new.get_vocab().items():
        if number in shared:
            continue
        if token in known:
            shared[number] = known[token]
        else:
            pieces[number] = _pieces(token, old, known, kinds[0])
    return Origins(shared, pieces)


def _pieces(token: str, old: Any, known: dict[str, int], kind: str) -> list[int]:
    """Break a token the way the old vocabulary would; inside a word if it stands inside one."""
    if kind != "WordPiece":
        return [piece.id for piece in old.backend_tokenizer.model.tokenize(token)] \
            or [old.unk_token_id]
    inner = token.startswith(_INNER) and token != _INNER
    surface = token.removeprefix(_INNER) if inner else token
    normalizer = old.backend_tokenizer.normalizer
    if normalizer is not None:
        surface = normalizer.normalize_str(surface)
    found: list[int] = []
    start = 0
    while start < len(surface):
        prefix = _INNER if inner or start else ""
        end = next((end for end in range(len(surface), start, -1)
                    if prefix + surface[start:end] in known), None)
        if end is None:
            return [old.unk_token_id]
        found.append(known[prefix + surface[start:end]])
        start = end
    return found or [old.unk_token_id]


def _rebuilt(model: Any, config: Any, hanging: set[str], seed: int) -> Any:
    """Build the architecture anew around the vocabulary and copy all that does not hang on it."""
    torch.manual_seed(seed)
    old_first, new_first = (first_position(one) for one in (model.config, config))
    if old_first != new_first:
        config.max_position_embeddings += new_first - old_first
    rebuilt = build_model(config).eval()
    kept = {name: tensor for name, tensor in model.state_dict().items() if name not in hanging}
    if old_first != new_first:
        _move_positions(kept, rebuilt, old_first, new_first)
    rebuilt.load_state_dict(kept, strict=False)
    return rebuilt


def _move_positions(kept: dict[str, Tensor], rebuilt: Any, old_first: int, new_first: int) -> None:
    """Let positions stand behind the new padding id, as RoBERTa's do behind the old one."""
    table = rebuilt.base_model.embeddings.position_embeddings.weight
    name = next(name for name, weight in rebuilt.named_parameters() if weight is table)
    learned = kept[name][old_first:]
    kept[name] = torch.cat([torch.zeros(new_first, learned.shape[1]), learned])


def _vocabulary_tensors(config: Any) -> set[str]:
    """Name the weights whose shape follows the vocabulary: those that change when it grows."""
    shapes = []
    for extra in (0, 1):
        sized = copy.deepcopy(config)
        sized.vocab_size += extra
        shapes.append({name: tensor.shape
                       for name, tensor in build_outline(sized).state_dict().items()})
    return {name for name in shapes[0] if shapes[0][name] != shapes[1][name]}


@torch.no_grad()
def _fill(old: Any, new: Any, hanging: set[str], origins: Origins, method: str,
          vectors: dict[int, Tensor]) -> None:
    """Fill every weight that hangs on the vocabulary, in place; tied ones are one weight."""
    entrance = new.get_input_embeddings().weight
    before, after = old.state_dict(), new.state_dict()
    ours, theirs = map(list, zip(*origins.shared.items(), strict=True))
    done: set[int] = set()
    for name in sorted(hanging):
        target, rows = after[name], before[name]
        if target.data_ptr() in done:
            continue
        done.add(target.data_ptr())
        target[ours] = rows[theirs]
        if method == "random":
            if target.ndim == 1:
                target[list(origins.pieces)] = 0.0
            continue
        for number, pieces in origins.pieces.items():
            target[number] = rows[pieces].mean(dim=0)
        if target.data_ptr() == entrance.data_ptr():
            for number, vector in vectors.items():
                target[number] = vector
