"""A model with a new vocabulary: what it keeps of the old one, and a start for the rest."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bmtools.errors import BmtoolsError
from bmtools.models.architectures import (
    build_model,
    build_on_meta,
    first_position,
    set_vocabulary,
)
from bmtools.models.checkpoint import Checkpoint
from bmtools.models.context_embeddings import Located, Sentence, gather, locate, sample_sentences
from bmtools.models.focus import focus_embeddings
from bmtools.models.settings import (
    FocusConfig,
    TokenDistillationConfig,
    TransferConfig,
    parse_layers,
)
from bmtools.models.token_distillation import fit_embeddings
from bmtools.models.vocab_overlap import VocabOverlap, find_overlap
from bmtools.models.weighted_rows import WeightedRows


@dataclass(frozen=True)
class Transfer:
    """A model with its new vocabulary.

    Args:
        model: whole.
        origins: where its tokens come from.
        report: how many tokens got their embedding in which way, and how long embeddings are.
    """

    model: Any
    origins: VocabOverlap
    report: dict[str, Any]


@dataclass(frozen=True)
class _Start:
    """What a method found for new tokens, beside the mean of their pieces.

    Args:
        mixtures: of old rows, which every table that hangs on the vocabulary follows.
        tokens: (vectors,) int64, new ids.
        vectors: (vectors, width) input embeddings.
        report: what there is to tell.
    """

    mixtures: WeightedRows = field(default_factory=lambda: WeightedRows.means({}))
    tokens: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    vectors: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    report: dict[str, Any] = field(default_factory=dict)


def transfer(base: Checkpoint, tokenizer: Any, settings: TransferConfig,
             sentences: Iterable[Sentence] = (), focus: FocusConfig | None = None,
             distil: TokenDistillationConfig | None = None) -> Transfer:
    """Move a model to a new vocabulary.

    Tokens that both vocabularies have keep their embedding and bias, special tokens by their
    role; what is known in another spelling (`find_overlap` says when) takes the mean of those. A
    new token gets a random embedding, the mean of its pieces' embeddings (section 4, "BM
    averaged"), the mean of the states that the model has for those pieces in sampled sentences
    (section 3), a mixture of known tokens (`focus`), or one fitted to sampled sentences
    (`token_distillation`). A token of which there are too few sentences falls back to the mean of
    its pieces.

    Output weights of their own, and biases, are mixed as embeddings are in a mixture, are 0 beside
    random embeddings, and else the mean of the pieces': the paper does not say.

    Source: Pavlova and Makhlouf 2023 (BIOptimus), sections 3 and 4.

    Args:
        base: the model and its old vocabulary.
        tokenizer: the new vocabulary.
        settings: the method and its sample.
        sentences: the corpus; read by methods in `READING` only.
        focus: of the static vectors.
        distil: of the fit.

    Raises:
        CheckpointError: vocabularies of two kinds, such as WordPiece and BPE.
        BmtoolsError: a layer that the base lacks, or fewer positions than it has.
    """
    origins = find_overlap(base.tokenizer, tokenizer)
    config = copy.deepcopy(base.model.config)
    set_vocabulary(config, tokenizer)
    _extend_positions(base.model.config, config, settings.max_positions)
    _check_layers(base.model.config, settings.layers)
    start = _find_start(base, tokenizer, origins, settings, sentences,
                        focus or FocusConfig(), distil or TokenDistillationConfig())
    hanging = _vocabulary_tensors(config)
    model = _rebuilt(base.model, config, hanging, settings.seed)
    _fill(base.model, model, hanging, origins, start, settings.method == "random")
    return Transfer(model, origins, _reported(base.model, model, origins, settings, start))


def _find_start(base: Checkpoint, tokenizer: Any, origins: VocabOverlap, settings: TransferConfig,
                sentences: Iterable[Sentence], focus: FocusConfig,
                distil: TokenDistillationConfig) -> _Start:
    """Find what the method has for new tokens."""
    if settings.method == "focus":
        mixtures = focus_embeddings(tokenizer, origins, (one.text for one in sentences), focus,
                                    settings.seed)
        return _Start(mixtures, report={"focus": len(mixtures.tokens)})
    if settings.method not in ("contextual", "distil"):
        return _Start()
    located = _sampled(base, tokenizer, origins, settings, sentences)
    told: dict[str, Any] = {"sentences": len(located.ids)}
    if settings.method == "contextual":
        found = gather(base, located, settings.layers, settings.batch_tokens)
        tokens, vectors = found.tokens, found.vectors
    else:
        fitted = fit_embeddings(base, located, _averages(base.model, origins, len(tokenizer)),
                                settings.layers, settings.batch_tokens, distil,
                                np.random.default_rng(settings.seed))
        tokens, vectors = fitted.tokens, fitted.vectors
        told |= {"loss_before": _rounded(fitted.before), "loss_after": _rounded(fitted.after)}
    if settings.rescale:
        vectors = _rescaled(vectors, base.model)
    return _Start(tokens=tokens, vectors=vectors, report={settings.method: len(tokens), **told})


def _sampled(base: Checkpoint, tokenizer: Any, origins: VocabOverlap, settings: TransferConfig,
             sentences: Iterable[Sentence]) -> Located:
    wanted = np.zeros(len(tokenizer), dtype=bool)
    wanted[list(origins.pieces)] = True
    rng = np.random.default_rng(settings.seed)
    return locate(base, sample_sentences(tokenizer, wanted, sentences, settings.max_sentences,
                                         rng))


def _averages(model: Any, origins: VocabOverlap, tokens: int) -> Tensor:
    """Mean of the pieces' embeddings, (tokens, width); 0 for tokens that have none."""
    table = model.get_input_embeddings().weight.detach().cpu()
    averages = torch.zeros(tokens, table.shape[1])
    WeightedRows.means(origins.pieces).fill(averages, table)
    return averages


def _rescaled(vectors: Tensor, base: Any) -> Tensor:
    """Bring vectors to the mean length of a model's embeddings; their proportions stay."""
    if not len(vectors):
        return vectors
    return vectors * (_mean_length(base.get_input_embeddings().weight) / _mean_length(vectors))


def _mean_length(rows: Tensor) -> float:
    return float(rows.detach().norm(dim=1).mean()) if len(rows) else 0.0


def _extend_positions(old: Any, config: Any, most: int) -> None:
    """Write into a configuration how many positions there will be; none get lost.

    RoBERTa's begin behind the padding token, whose id may have changed.
    """
    before = old.max_position_embeddings - first_position(old)
    if most and most < before:
        raise BmtoolsError(f"--max-positions: found {most}, but the base has {before} positions; "
                           "expected more, or 0 to leave them as they are")
    config.max_position_embeddings = max(before, most) + first_position(config)


def _check_layers(config: Any, layers: str) -> None:
    most = config.num_hidden_layers
    for number in parse_layers(layers) or ():
        if not -most - 1 <= number <= most:
            raise BmtoolsError(f"--layers: found {number}, but the base has layers 1 to {most}, "
                               "and 0 for its embeddings")


def _rebuilt(model: Any, config: Any, hanging: set[str], seed: int) -> Any:
    """Build the architecture anew around the vocabulary and copy all that does not hang on it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        rebuilt = build_model(config).eval()
    kept = {name: tensor for name, tensor in model.state_dict().items() if name not in hanging}
    _lay_positions(kept, model.config, rebuilt)
    rebuilt.load_state_dict(kept, strict=False)
    return rebuilt


def _lay_positions(kept: dict[str, Tensor], old: Any, rebuilt: Any) -> None:
    """Let learned positions stand where the rebuilt model looks for them, and be enough.

    RoBERTa's stand behind the padding id. New ones are copies of the old ones from the first on:
    attention to near neighbours, which differences of positions carry, is there from the start.

    Source: Beltagy et al. 2020 (Longformer), section 5.
    """
    embeddings = getattr(rebuilt.base_model, "embeddings", None)
    layer = getattr(embeddings, "position_embeddings", None)
    if layer is None:
        return
    name = next(name for name, weight in rebuilt.named_parameters() if weight is layer.weight)
    learned, before = kept[name][first_position(old):], first_position(rebuilt.config)
    wanted = len(layer.weight) - before
    repeated = learned.repeat(-(-wanted // len(learned)), 1)[:wanted]
    kept[name] = torch.cat([torch.zeros(before, learned.shape[1]), repeated])


def _vocabulary_tensors(config: Any) -> set[str]:
    """Name the weights whose shape follows the vocabulary: those that change when it grows."""
    shapes = []
    for extra in (0, 1):
        sized = copy.deepcopy(config)
        sized.vocab_size += extra
        shapes.append({name: tensor.shape
                       for name, tensor in build_on_meta(sized).state_dict().items()})
    return {name for name in shapes[0] if shapes[0][name] != shapes[1][name]}


@torch.no_grad()
def _fill(old: Any, new: Any, hanging: set[str], origins: VocabOverlap, start: _Start,
          at_random: bool) -> None:
    """Fill every weight that hangs on the vocabulary, in place; tied ones are one weight."""
    entrance = new.get_input_embeddings().weight
    before, after = old.state_dict(), new.state_dict()
    ours, theirs = map(list, zip(*origins.shared.items(), strict=True))
    folded = WeightedRows.means(origins.folded)
    averaged = WeightedRows.means({} if at_random else origins.pieces)
    done: set[int] = set()
    for name in sorted(hanging):
        target, rows = after[name], before[name].cpu()
        if target.data_ptr() in done:
            continue
        done.add(target.data_ptr())
        target[ours] = rows[theirs]
        if at_random and target.ndim == 1:
            target[list(origins.pieces)] = 0.0
        for mixtures in (folded, averaged, start.mixtures):
            mixtures.fill(target, rows)
        if target.data_ptr() == entrance.data_ptr() and len(start.tokens):
            target[start.tokens] = start.vectors


def _reported(old: Any, new: Any, origins: VocabOverlap, settings: TransferConfig,
              start: _Start) -> dict[str, Any]:
    fresh = len(origins.pieces)
    told = {"contextual": 0, "focus": 0, "distil": 0, "sentences": 0, **start.report}
    found = told["contextual"] + told["focus"] + told["distil"]
    by_pieces = 0 if settings.method == "random" else fresh - found
    table = new.get_input_embeddings().weight
    return {"tokens": len(origins.shared) + len(origins.folded) + fresh,
            "copied": len(origins.shared), "folded": len(origins.folded), **told,
            "averaged": by_pieces, "random": fresh - found - by_pieces,
            "old_length": _rounded(_mean_length(old.get_input_embeddings().weight)),
            "new_length": _rounded(_mean_length(table[list(origins.pieces)]))}


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")
