"""Which old tokens a new one lies nearest to."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from bmtools.models.vocab_overlap import VocabOverlap, surface
from bmtools.vocab.tokenizer_json import model_name

_DIGITS = 3


@torch.no_grad()
def nearest_tokens(old: Any, new: Any, model: Any, origins: VocabOverlap, sample: int, seed: int,
                   nearest: int = 5) -> list[dict[str, Any]]:
    """Tell, for a sample of new tokens, the old ones nearest by the cosine of input embeddings.

    Args:
        old: the base's tokenizer.
        new: the new one.
        model: with the new vocabulary.
        origins: of its tokens; old ones are those it shares.
        sample: tokens to draw, from those longer than two letters where there are enough.
        seed: of the draw: one seed draws the same tokens from the same vocabularies.
        nearest: old tokens to tell.
    """
    names = {number: token for token, number in new.get_vocab().items()}
    kind = model_name(new.backend_tokenizer)
    special = {*new.all_special_ids}
    known = np.array([token for token in origins.shared if token not in special])
    fresh = sorted(origins.pieces)
    telling = [token for token in fresh if len(surface(names[token], kind)) > 2] or fresh
    if not telling or not len(known):
        return []
    drawn = np.random.default_rng(seed).permutation(telling)[:sample]
    table = torch.nn.functional.normalize(model.get_input_embeddings().weight.float(), dim=1)
    cosines, places = (table[drawn] @ table[known].T).topk(min(nearest, len(known)), dim=1)
    return [{"token": surface(names[token], kind),
             "neighbours": [surface(names[known[place]], kind) for place in near.tolist()],
             "cosines": [round(cosine, _DIGITS) for cosine in alike.tolist()]}
            for token, alike, near in zip(drawn.tolist(), cosines, places, strict=True)]
