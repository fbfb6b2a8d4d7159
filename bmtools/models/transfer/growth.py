"""Larger models made from smaller ones: more layers, tiled weights."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from bmtools.errors import BmtoolsError, CheckpointError, setting
from bmtools.models.architectures import build_model
from bmtools.models.next_sentence import NextSentenceHead
from bmtools.models.sizes import parse_size
from bmtools.models.transfer.plan import fill, layer_number, layer_sources

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_FAMILIES = ("bert", "camembert", "megatron-bert", "modernbert", "roberta", "xlm-roberta")
# Fused matrices: several matrices, one below the other.
_FUSED = {"attn.Wqkv": 3, "mlp.Wi": 2}
# Modules whose outputs are heads, and modules whose inputs are heads.
_MAKE_HEADS = ("self.query", "self.key", "self.value", "attn.Wqkv")
_READ_HEADS = ("attention.output.dense", "attn.Wo")
# Modules whose outputs are added to the layer's input.
_WRITE_SUMS = ("output.dense", "attn.Wo", "mlp.Wo")
# The norm before the output matrix, which cannot be scaled if it is tied to the input embeddings.
_BEFORE_TIED_TABLE = ("cls.predictions.transform.LayerNorm.", "lm_head.layer_norm.", "head.norm.")
_GLOBAL_EVERY = 3  # transformers' default, for a ModernBERT with few layers
_LEAST_SHARE = 0.5  # each of two copies gets a quarter to three quarters


@torch.no_grad()
def grow(model: PreTrainedModel, size: str, seed: int = 0) -> PreTrainedModel:
    """Make a model with more layers, wider layers or both from the weights of a base.

    Wider: each new axis contains the smaller axis in its middle and repeats it, wrapped around, on
    both sides. Heads are tiled as units, fused matrices part by part. If a unit has several copies,
    the weights that read it are divided among the copies at random. So the sum and the output do
    not change, but the copies get different gradients and become different units. If the width is a
    multiple of the base's width, the outputs equal the base's outputs. Otherwise layer norms count
    some units twice in their means and variances.

    Deeper: copies follow each layer. At first they do not change the states, because their output
    matrices are 0. So the output does not change, or changes little in BERT and RoBERTa, whose
    norms follow the sums. ModernBERT's global layers are copies of global layers, and its local
    layers are copies of local layers.

    Source: Warner et al. 2024 (ModernBERT), appendix A.3: center tiling, as in Phi, and repeated
    layers, as in Rae et al. 2021 (Gopher). In that paper units and layers are copied unchanged. The
    division among copies is from Net2Net (Chen et al. 2016, section 3.1), with uneven shares
    instead of noise. Matrices of 0 are from Wu et al. 2024 (LLaMA Pro), section 3.2.

    Args:
        model: BERT, RoBERTa, XLM-R, CamemBERT, Megatron-BERT or ModernBERT.
        size: LAYERSxWIDTH or a named architecture of the same family.
        seed: seed of the shares.

    Raises:
        BmtoolsError: the model is of another family, or the base does not fit into the size.
    """
    config = grown_config(model.config, size)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        grown = build_model(config).eval()
    sources, targets = (dict(one.named_parameters()) for one in (model, grown))
    every = _global_every(model.config)
    places = _places(model.config.num_hidden_layers, config.num_hidden_layers, every)
    layers: list[int] = []
    for number in range(config.num_hidden_layers):
        layers.append(places[number] if number in places else
                      layers[number - (every if number >= every else 1)])
    tables = {module.weight for module in grown.modules() if isinstance(module, nn.Embedding)}
    shared = _BEFORE_TIED_TABLE if config.tie_word_embeddings else ()
    head_size = model.config.hidden_size // model.config.num_attention_heads
    rng = torch.Generator().manual_seed(seed)
    fill(targets, {name: (source, partial(_grown_weight, name, head_size, rng,
                                          targets[name] in tables, name.startswith(shared)))
                   for name, source in layer_sources(targets, layers).items()
                   if source in sources}, sources)
    for name, weight in targets.items():
        if layer_number(name) not in (None, *places) \
                and name.rpartition(".")[0].endswith(_WRITE_SUMS):
            weight.zero_()
    return grown


def grow_head(head: NextSentenceHead, hidden_size: int, seed: int = 0) -> NextSentenceHead:
    """Make the head of sentence pairs for a grown model; see `grow`."""
    grown = NextSentenceHead(hidden_size)
    rng = torch.Generator().manual_seed(seed)
    fill(grown.state_dict(), {name: (name, partial(_grown_weight, name, 1, rng, False, False))
                              for name in head.state_dict()}, head.state_dict())
    return grown


def grown_config(config: PretrainedConfig, size: str) -> PretrainedConfig:
    """Make the configuration of a larger model of the same family.

    Raises:
        BmtoolsError: see `grow`.
    """
    family, found = config.model_type, f"{setting('grow')}: found {size}"
    if family not in _FAMILIES:
        raise CheckpointError(f"{setting('grow')}: the base is of the family {family}, expected "
                              f"one of {', '.join(_FAMILIES)}")
    named, target = parse_size(size)
    if named and named != family:
        raise BmtoolsError(f"{found}, but the base is of the family {family}; expected "
                           "LAYERSxWIDTH or an architecture of that family")
    width, layers = target.hidden_size, target.num_hidden_layers
    own = f"{config.num_hidden_layers}x{config.hidden_size}"
    if width < config.hidden_size or layers < config.num_hidden_layers \
            or (width, layers) == (config.hidden_size, config.num_hidden_layers):
        raise BmtoolsError(f"{found}, but the base is {own}; expected more layers or greater "
                           "width, and neither reduced")
    head_size = config.hidden_size // config.num_attention_heads
    heads = target.num_attention_heads or width // head_size
    if heads * head_size != width:
        raise BmtoolsError(f"{found}, but the base has heads of {head_size}; expected a width that "
                           "is a multiple of it")
    intermediate = target.intermediate_size \
        or config.intermediate_size * width // config.hidden_size
    grown = copy.deepcopy(config)
    grown.num_hidden_layers, grown.hidden_size, grown.num_attention_heads = layers, width, heads
    grown.intermediate_size = intermediate
    if getattr(config, "layer_types", None):
        every = _global_every(config)
        grown.layer_types = ["sliding_attention" if number % every else "full_attention"
                             for number in range(layers)]
    return grown


def _global_every(config: PretrainedConfig) -> int:
    """Count the layers from one global layer to the next; 1 if all layers are global."""
    types = getattr(config, "layer_types", None)
    if not types:
        return 1
    return 1 + (types[1:].index(types[0]) if types[0] in types[1:] else _GLOBAL_EVERY - 1)


def _places(count: int, new_count: int, every: int) -> dict[int, int]:
    """Spread layers over a deeper model; return each new number with the old one.

    The layers keep their order. Copies fill the gaps between groups of `every` layers, so that
    ModernBERT's local and global layers keep their kind.
    """
    groups, rooms = -(-count // every), (new_count - count) // every
    return {layer + layer // every * (rooms + 1) // groups * every: layer for layer in range(count)}


def _grown_weight(name: str, head_size: int, rng: torch.Generator, is_table: bool, is_shared: bool,
                  source: Tensor, target: Tensor) -> Tensor:
    """Tile a weight to the shape of a larger one.

    Args:
        name: name of the larger weight.
        head_size: size of an attention head.
        rng: source of random shares.
        is_table: the weight is looked up, not multiplied, so its rows are outputs.
        is_shared: no later matrix can divide weights among the copies of this vector's units.
        source: weight of the smaller model.
        target: weight of the larger model.
    """
    module, wide = name.rpartition(".")[0], source
    if len(source) != len(target):
        parts = next((count for end, count in _FUSED.items() if module.endswith(end)), 1)
        units = _tile(len(source) // parts, len(target) // parts,
                      head_size if module.endswith(_MAKE_HEADS) else 1)
        wide = torch.cat([part[units] for part in source.chunk(parts)])
        if is_shared:
            wide = wide * _shares(units, 1, rng)[0]
    if source.ndim == 2 and source.shape[1] != target.shape[1]:
        units = _tile(source.shape[1], target.shape[1],
                      head_size if module.endswith(_READ_HEADS) else 1)
        wide = wide[:, units]
        if not is_table:
            wide = wide * _shares(units, len(wide), rng)
    return wide


def _tile(size: int, new_size: int, unit: int = 1) -> Tensor:
    """Return the old position of each new one: the old axis in the middle, wrapped, in units."""
    count, new_count = size // unit, new_size // unit
    units = (torch.arange(new_count) - (new_count - count) // 2) % count
    return (units[:, None] * unit + torch.arange(unit)).flatten()


def _shares(units: Tensor, rows: int, rng: torch.Generator) -> Tensor:
    """Divide each old unit's weight among its copies, (rows, new units)."""
    parts = torch.rand(rows, len(units), generator=rng) + _LEAST_SHARE
    totals = torch.zeros(rows, int(units.max()) + 1).index_add_(1, units, parts)
    return parts / totals[:, units]
