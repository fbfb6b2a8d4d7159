"""Real sets for races of fine-tuning and prediction, as records, and models for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from bmtools.corpus.formats.sets.conll import conll_records
from bmtools.corpus.formats.sets.ddi import ddi_records
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.checkpoint import save_checkpoint
from bmtools.tasks.entity_pairs import find_candidates, label_candidates, mark
from bmtools.tasks.settings import RelationsConfig
from bmtools.vocab.tokenizer import fingerprint

Records = list[dict[str, Any]]
_VOCABULARY = "vocab/bert-base-uncased.txt"
MAX_LENGTH = {"ner": 128, "classification": 128, "relations": 128}


def _sentences(data: Path) -> Iterator[Mapping[str, Any]]:
    """Yield NCBI-disease, one type."""
    yield from conll_records([str(data / "en/ner/NCBI-disease/train.tsv")])


def _gad(data: Path) -> Iterator[Mapping[str, Any]]:
    """Yield GAD's sentences, with two labels."""
    lines = (data / "en/re/GAD/train.tsv").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        text, _, label = line.rpartition("\t")
        yield {"id": str(number), "text": text, "label": label}


def _interactions(data: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the sentences of MedLine in DDI-2013 that have candidate pairs."""
    files = sorted((data / "en/re/DDI-2013/test-medline-xml").glob("*.xml"))
    yield from (record for record in ddi_records(map(str, files)) if len(record["entities"]) > 1)


_SETS: Mapping[str, Callable[[Path], Iterator[Mapping[str, Any]]]] = {
    "ner": _sentences, "classification": _gad, "relations": _interactions}


def read_set(data: Path, task: str, size: int) -> Records:
    """Read the first records of a task's set."""
    return [dict(record) for record in islice(_SETS[task](data), size)]


def as_pairs(records: Records) -> Records:
    """Make a labelled text of each candidate pair, the peer's form of relations.

    The text already contains placeholders, so the task is classification.
    """
    config, found = RelationsConfig(), []
    for record in records:
        candidates = find_candidates(record, record["entities"], config)
        labels = label_candidates(candidates, record["relations"], config)[0]
        found += [{"text": mark(record["text"], candidate, config).text, "label": label}
                  for candidate, label in zip(candidates, labels, strict=True)]
    return found


def build_bert(data: Path, directory: Path, layers: int, width: int) -> Path:
    """Save a random BERT with the vocabulary of bert-base-uncased."""
    lines = (data / _VOCABULARY).read_text(encoding="utf-8").splitlines()
    tokenizer = BertTokenizer(vocab={token: number for number, token in enumerate(lines)},
                              do_lower_case=True)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertForMaskedLM(BertConfig(
            vocab_size=len(tokenizer), hidden_size=width, num_hidden_layers=layers,
            num_attention_heads=width // 64, intermediate_size=4 * width)).eval()
    save_checkpoint(directory, model, tokenizer, Manifest("bench", {}, fingerprint(tokenizer)))
    return directory
