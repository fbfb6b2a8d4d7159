"""The other side in scoring: `scoring_peer.py minicons|fill-mask CHECKPOINT RECORDS`.

Both programs score sentence by sentence: minicons in its fastest way, and fill-mask as BioBIT's
authors did. A JSON list with a number for each record is printed to stdout.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline


def minicons(directory: str, records: list[dict[str, Any]]) -> Iterator[float]:
    """Yield sums of log probabilities; transformers 5 no longer has `batch_encode_plus`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from minicons.scorer import MaskedLMScorer

    model, tokenizer = load(directory)

    class Readable(type(tokenizer)):  # type: ignore[misc]
        def batch_encode_plus(self, *args: Any, **settings: Any) -> Any:
            return self(*args, **settings)

    tokenizer.__class__ = Readable
    device = "cuda" if torch.cuda.is_available() else "cpu"
    peer = MaskedLMScorer(model, device, tokenizer=tokenizer, PLL_metric="original")
    for record in records:
        yield peer.sequence_score([record["text"]], reduction=lambda x: x.sum(0).item(),
                                  PLL_metric="original")[0]


def fill_mask(directory: str, records: list[dict[str, Any]]) -> Iterator[float]:
    """Yield reciprocal ranks of targets among five proposals."""
    model, tokenizer = load(directory)
    fill = pipeline("fill-mask", model=model, tokenizer=tokenizer, top_k=5)
    for record in records:
        words = [found["token_str"] for found in fill(record["text"])]
        yield 1 / (1 + words.index(record["target"])) if record["target"] in words else 0.0


def load(directory: str) -> tuple[Any, Any]:
    model = AutoModelForMaskedLM.from_pretrained(directory, dtype=torch.float32)
    return model.eval(), AutoTokenizer.from_pretrained(directory)


if __name__ == "__main__":
    kind, checkpoint, source = sys.argv[1:4]
    lines = Path(source).read_text(encoding="utf-8").splitlines()
    score = {"minicons": minicons, "fill-mask": fill_mask}[kind]
    print(json.dumps(list(score(checkpoint, [json.loads(line) for line in lines]))))
