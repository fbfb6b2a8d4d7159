"""Distillation as a plain loop around transformers: all logits of both models, then the losses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

TEMPERATURE = 2.0
WEIGHTS = {"mlm": 5.0, "kl": 2.0, "cosine": 1.0}


def losses(student: Any, teacher: Any, projection: nn.Module, batch: Mapping[str, Tensor],
           positions: str) -> dict[str, Tensor]:
    """Return the means of the three losses; KL at masked positions or at all tokens."""
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"].long(),
              "output_hidden_states": True}
    with torch.no_grad():
        taught = teacher(**inputs)
    learnt = student(**inputs, labels=batch["labels"])
    present = batch["attention_mask"]
    compared = batch["labels"] != -100 if positions == "masked" else present
    kl = functional.kl_div(
        functional.log_softmax(learnt.logits[compared] / TEMPERATURE, dim=-1),
        functional.softmax(taught.logits[compared] / TEMPERATURE, dim=-1),
        reduction="batchmean") * TEMPERATURE**2
    cosine = 1 - functional.cosine_similarity(projection(learnt.hidden_states[-1][present]),
                                              taught.hidden_states[-1][present], dim=-1)
    return {"mlm": learnt.loss, "kl": kl, "cosine": cosine.mean()}


def train(student: Any, teacher: Any, batches: Iterable[Mapping[str, Tensor]], positions: str,
          learning_rate: float) -> Iterable[dict[str, float]]:
    """Update once per batch with AdamW, and yield the losses."""
    torch.manual_seed(0)
    widths = student.config.hidden_size, teacher.config.hidden_size
    projection = nn.Linear(*widths) if widths[0] != widths[1] else nn.Identity()
    weights = [*student.parameters(), *projection.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=learning_rate, eps=1e-6, weight_decay=0.01)
    student.train()
    teacher.eval()
    for batch in batches:
        terms = losses(student, teacher, projection, batch, positions)
        sum(WEIGHTS[name] * term for name, term in terms.items()).backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        yield {name: term.item() for name, term in terms.items()}
