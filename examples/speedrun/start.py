"""Initial weights from counts: co-occurrence vectors as embeddings, frequencies as output biases.

    python start.py SHARDS... --tokenizer DIR --architecture bert-2x256 -o CHECKPOINT

The embeddings of a new model are replaced by vectors from counts. The counts are the positive
pointwise mutual information of a token with its neighbours before and after it, as two halves of
one table. A singular value decomposition reduces the table to the model's width. Rare words, which
few training steps update, then start near similar words. The output biases become the logarithms of
token frequencies. All other weights are initialised as by `bmtools pretrain`.

Source: Levy, Goldberg and Dagan 2015, sections 3.1 and 7. As there, contexts are weighted by
1 / distance, context frequencies are raised to the power of 0.75, and the square root of the
singular values is used.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bmtools.data.shards import Corpus
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import save_checkpoint
from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.tokenizer import fingerprint

WINDOW_TOKENS = 4
SMOOTHING = 0.75
_OVERSAMPLED = 16
_ITERATIONS = 3
# Evenly spaced rates would repeat after 64 positions; these rates do not repeat within 256.
_SPREAD = 1.2
_SHARPNESS = 1.5


def token_stream(corpora: Sequence[Corpus], gap: int) -> np.ndarray:
    """Concatenate all documents, with `gap` positions of -1 between them."""
    parts = []
    for corpus in corpora:
        for shard in corpus.shards:
            documents = np.repeat(np.arange(len(shard.borders) - 1), np.diff(shard.borders))
            padded = np.full(len(shard.ids) + gap * len(shard.borders), -1, dtype=np.int64)
            padded[np.arange(len(shard.ids)) + gap * documents] = shard.ids
            parts.append(padded)
    return np.concatenate(parts)


def count_cooccurrences(ids: np.ndarray, size: int, window: int) -> torch.Tensor:
    """Count co-occurrences of tokens within a window, weighted by 1 / distance.

    Args:
        ids: (tokens,) int64, -1 between documents.
        size: size of the vocabulary.
        window: maximum distance.

    Returns:
        (size, size) sparse, float32; the token of the row precedes the token of the column.
    """
    codes, weights = [], []
    for distance in range(1, window + 1):
        first, then = ids[:-distance], ids[distance:]
        both = (first >= 0) & (then >= 0)
        found, counts = np.unique(first[both] * size + then[both], return_counts=True)
        codes.append(found)
        weights.append(counts / distance)
    code = torch.from_numpy(np.concatenate(codes))
    return torch.sparse_coo_tensor(torch.stack([code // size, code % size]),
                                   torch.from_numpy(np.concatenate(weights)).float(),
                                   (size, size), check_invariants=False).coalesce()


def positive_information(counts: torch.Tensor) -> torch.Tensor:
    """Convert counts, (rows, contexts) sparse, to positive pointwise mutual information."""
    rows = torch.sparse.sum(counts, 1).to_dense()
    contexts = torch.sparse.sum(counts, 0).to_dense() ** SMOOTHING
    row, context = counts.indices()
    shares = contexts[context] / contexts.sum()
    information = (counts.values() / rows[row] / shares).log().clamp(min=0)
    return torch.sparse_coo_tensor(counts.indices(), information, counts.shape,
                                   check_invariants=False).coalesce()


def cooccurrence_vectors(counts: torch.Tensor, width: int, seed: int) -> torch.Tensor:
    """Reduce the counts before and after each token to (size, width) vectors of length 1.

    A token without neighbours gets zeros.
    """
    after = positive_information(counts)
    before = positive_information(counts.t().coalesce())
    table = torch.cat([before, after], dim=1).coalesce()
    torch.manual_seed(seed)
    left, values, _ = torch.svd_lowrank(table, q=width + _OVERSAMPLED, niter=_ITERATIONS)
    vectors = left[:, :width] * values[:width].sqrt()
    return torch.nn.functional.normalize(vectors)


@torch.no_grad()
def set_embeddings(model: Any, vectors: torch.Tensor, first: int) -> None:
    """Replace embeddings, starting with column `first`, by vectors with the same mean norm.

    Tokens without a vector keep their random embedding.
    """
    embeddings = model.get_input_embeddings().weight[:len(vectors), first:]
    known = vectors.norm(dim=1) > 0
    embeddings[known] = vectors[known] * embeddings.norm(dim=1).mean()


@torch.no_grad()
def set_output_biases(model: Any, frequencies: np.ndarray) -> None:
    """Set the output biases to the logarithms of token frequencies."""
    shares = torch.from_numpy((frequencies + 0.1) / (frequencies + 0.1).sum()).float()
    model.get_output_embeddings().bias[:len(shares)] = shares.log() - shares.log().mean()


@torch.no_grad()
def initialise_by_width(model: Any) -> None:
    """Initialise matrices with a deviation of 1 / sqrt(inputs), which preserves the variance.

    BERT's 0.02 fits a width of 768. In narrow models it makes the layers so weak that they hardly
    change the residual stream, and training learns only word frequencies for a long time.
    """
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and not name.endswith("decoder"):
            module.weight.normal_(0, module.in_features ** -0.5)


@torch.no_grad()
def attend_to_neighbours(model: Any, width: int) -> None:
    """Initialise each head of the first layer to attend to one neighbour.

    The first `width` columns of the residual stream are for positions; word embeddings are zero
    there initially. The columns contain sinusoids of many rates. Their product is large if two
    positions are equal, and small otherwise. The queries of a head are rotated by the distance to
    which the head attends: -1, +1, -2 and +2 for 4 heads. Afterwards these weights are trained like
    all other weights.
    """
    encoder = model.base_model
    positions = encoder.embeddings.position_embeddings.weight
    heads = model.config.num_attention_heads
    rates = torch.pi * ((torch.arange(width // 2) + 0.5) / (width // 2)) ** _SPREAD
    angles = torch.arange(len(positions))[:, None] * rates
    scale = model.config.initializer_range * 2**0.5
    positions.zero_()
    positions[:, :width:2], positions[:, 1:width:2] = angles.sin() * scale, angles.cos() * scale
    encoder.embeddings.word_embeddings.weight[:, :width] = 0
    encoder.embeddings.token_type_embeddings.weight.zero_()
    attention = encoder.encoder.layer[0].attention.self
    for head in range(heads):
        rotation = rates * ((head // 2 + 1) * (1 if head % 2 else -1))
        queries, keys = (part.weight.view(heads, -1, part.in_features)[head]
                         for part in (attention.query, attention.key))
        queries.zero_(), keys.zero_()
        for pair in range(min(width, len(queries)) // 2):
            sine, cosine = 2 * pair, 2 * pair + 1
            keys[sine, sine] = keys[cosine, cosine] = _SHARPNESS
            queries[sine, sine] = queries[cosine, cosine] = rotation[pair].cos()
            queries[sine, cosine] = rotation[pair].sin()
            queries[cosine, sine] = -rotation[pair].sin()


def main() -> None:
    """Write the checkpoint."""
    started = time.monotonic()
    parser = argparse.ArgumentParser(description="Initialise a model from counts.")
    parser.add_argument("shards", nargs="+", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--architecture", required=True)
    parser.add_argument("--heads", type=int, default=0, help="0: as in the architecture")
    parser.add_argument("--position-width", type=int, default=0,
                        help="columns for positions; heads then initially attend to neighbours")
    parser.add_argument("--vectors", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--scale", type=float, default=0.05, help="deviation of embeddings")
    parser.add_argument("--max-length", type=int, default=0, help="longest sequence")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    tokenizer = load_tokenizer(given.tokenizer)
    config = build_config(given.architecture, tokenizer, given.max_length)
    config.num_attention_heads = given.heads or config.num_attention_heads
    config.initializer_range = given.scale
    torch.manual_seed(given.seed)
    model = build_model(config)
    initialise_by_width(model)
    if given.position_width:
        attend_to_neighbours(model, given.position_width)
    ids = token_stream([Corpus.open(directory) for directory in given.shards], WINDOW_TOKENS)
    size = len(tokenizer)
    if given.vectors:
        counts = count_cooccurrences(ids, size, WINDOW_TOKENS)
        vectors = cooccurrence_vectors(counts, config.hidden_size - given.position_width,
                                       given.seed)
        set_embeddings(model, vectors, given.position_width)
    set_output_biases(model, np.bincount(ids[ids >= 0], minlength=size).astype(float))
    settings = {"architecture": given.architecture, "window_tokens": WINDOW_TOKENS,
                "smoothing": SMOOTHING, "seed": given.seed}
    save_checkpoint(given.output, model, tokenizer,
                    Manifest("examples/speedrun/start.py", settings,
                             vocabulary=fingerprint(tokenizer)))
    print(json.dumps({"output": str(given.output), "seconds": time.monotonic() - started}))


if __name__ == "__main__":
    main()
