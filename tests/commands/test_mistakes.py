"""Mistakes in files and settings are reported before torch is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

PRETRAIN = ("pretrain", "CORPUS", "--model", "MODEL", "-o", "out", "--max-length", "16")
NEW = ("pretrain", "CORPUS", "--tokenizer", "TOKENIZER", "-o", "out")
DISTILL = ("distill", "CORPUS", "--teacher", "MODEL", "--architecture", "bert-1x64", "-o", "out")
NO_MODEL = ("TOKENIZER: no config.json, expected a checkpoint directory; it contains only a "
            "tokenizer; to train a model, run: bmtools pretrain FILE --architecture bert-small "
            "--tokenizer TOKENIZER -o DIR")
HUB = "to get a model from the Hugging Face Hub, run: hf download bert-base-uncased --local-dir"
TUNED = "TAGGER: found a model that was fine-tuned (ner), expected a masked language model"
OWN_CODE = "foreign: found model_type 'neobert', whose code comes with the model and is never run"
NO_GPU = "--device: found 'cuda', which cannot be used here ("

MISTAKES = [
    (("pretrain", "CORPUS", "--model", "MODEL", "-o", "full"), 1, "full is not empty; give"),
    ((*PRETRAIN, "--max-length", "33"), 1,
     "--max-length: found 33, but the model has 32 positions; expected that or less"),
    ((*PRETRAIN, "--batch-size", "9", "--processes", "2"), 1,
     "phase 'main': --batch-size: found 9, expected a multiple of the 2 processes that share it"),
    ((*PRETRAIN, "--processes", "2", "--shard", "--set", "l2_sp=0.1"), 1,
     "--set l2_sp: found 0.1, which needs complete initial weights and does not work with sharded "
     "weights; leave --shard out"),
    ((*PRETRAIN, "--set", "frozen_layers=2"), 1,
     "--set frozen_layers: found 2, but the model has 1 layers"),
    ((*PRETRAIN, "--precision", "fp16"), 1,
     "--precision: found fp16, which a CPU cannot train in; expected bf16 or no"),
    ((*PRETRAIN, "--masking", "terms"), 1,
     "--masking terms: found no terms, expected --terms as well"),
    ((*PRETRAIN, "--segmenter", "klingon"), 1,
     "--segmenter: found klingon, expected tokenizer or japanese or chinese or thai"),
    (("pretrain", "-", "--model", "MODEL", "-o", "out", "--processes", "2"), 2,
     "several processes cannot share stdin; name the files instead"),
    (("pretrain", "MODEL", "--model", "MODEL", "-o", "out"), 1,
     "MODEL: found a directory without shards, expected files of records or the output of bmtools "
     "tokenize; it contains a checkpoint, for options such as --model"),
    ((*NEW, "--architecture", "bert-bsae"), 1, "did you mean 'bert-base'?"),
    (("pretrain", "CORPUS", "--model", "TOKENIZER", "-o", "out"), 1, NO_MODEL),
    (("pretrain", "CORPUS", "--model", "CORPUS", "-o", "out"), 2,
     "'CORPUS' is a file of records, expected the directory of a checkpoint or tokenizer"),
    (("pretrain", "CORPUS", "--model", "TAGGER", "-o", "out"), 1, TUNED),
    ((*DISTILL, "--max-length", "33"), 1,
     "--max-length: found 33, but the teacher has 32 positions; expected that or less"),
    (("distill", "CORPUS", "--teacher", "bert-base-uncased", "--architecture", "bert-1x64", "-o",
      "out"), 2, HUB),
    (("predict", "CORPUS", "--model", "MODEL", "--task", "ner"), 1,
     "MODEL: found a model that was never fine-tuned (BertForMaskedLM), expected one that bmtools "
     "finetune wrote: bmtools finetune ner --model MODEL --train FILE --dev FILE -o DIR"),
    (("predict", "CORPUS", "--model", "TAGGER", "--into", "text"), 2, "--into: found 'text'"),
    (("score-pppl", "CORPUS", "--model", "MODEL", "--device", "cuda"), 1, NO_GPU),
    (("score-pppl", "CORPUS", "--model", "MODEL", "--device", "abacus"), 1,
     "--device: found 'abacus', which cannot be used here (no kind of device)"),
    (("score-pppl", "MODEL", "--model", "MODEL"), 2,
     "found the directory 'MODEL', expected files; it contains a checkpoint, for options such as "
     "--model"),
    (("score-mrr", "CORPUS", "--model", "TAGGER", "--device", "cpu"), 1, TUNED),
    *(((name, "CORPUS", "--model", "foreign"), 1, OWN_CODE) for name in (
        "score-pppl", "score-mrr", "score-masking", "score-space", "predict")),
    (("pretrain", "CORPUS", "--model", "foreign", "-o", "out"), 1, OWN_CODE),
    (("tokenize", "CORPUS", "--tokenizer", "full", "-o", "out"), 1,
     "full: no tokenizer could be loaded, expected tokenizer.json or vocab.txt"),
    (("translate", "CORPUS", "--source-lang", "it", "--target-lang", "en", "--engine",
      "transformers", "--model", "MODEL"), 1,
     "MODEL: found no translation model (it is a BertForMaskedLM); expected one that writes text, "
     "such as MarianMTModel. Run: hf download Helsinki-NLP/opus-mt-en-it --local-dir "
     "opus-mt-en-it"),
    (("translate", "CORPUS", "--source-lang", "it", "--target-lang", "en", "--engine",
      "transformers", "--model", "Helsinki-NLP/opus-mt-it-en"), 2,
     "hf download Helsinki-NLP/opus-mt-it-en --local-dir opus-mt-it-en"),
]
CODE = """
import sys
from bmtools.cli.main import main
try:
    main(sys.argv[1:])
finally:
    loaded = {"torch", "transformers"} & set(sys.modules)
    assert not loaded, loaded
"""


@pytest.fixture(scope="module")
def tagger(make_tagger: Callable[[Path], Path], tiny_checkpoint: Path) -> Path:
    return make_tagger(tiny_checkpoint)


@pytest.mark.parametrize(("arguments", "code", "message"), MISTAKES)
@pytest.mark.skipif(torch.cuda.is_available(), reason="the CPU's messages are meant")
def test_mistakes_are_reported_before_torch_is_imported(
        arguments: tuple[str, ...], code: int, message: str, tmp_path: Path, tiny_checkpoint: Path,
        tiny_tokenizer: Path, tagger: Path, corpus_records: list[dict[str, Any]],
) -> None:
    (tmp_path / "corpus.jsonl").write_text("".join(
        json.dumps(record) + "\n" for record in corpus_records))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "config.json").write_text('{"model_type": "neobert", "auto_map": {}}')
    places = {"CORPUS": "corpus.jsonl", "MODEL": str(tiny_checkpoint),
              "TOKENIZER": str(tiny_tokenizer), "TAGGER": str(tagger)}
    for name, place in places.items():
        message = message.replace(name, place)
    done = subprocess.run(
        [sys.executable, "-c", CODE, *(places.get(word, word) for word in arguments)],
        capture_output=True, check=False, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "foreign", "full"}
