"""Training of a vocabulary against tokenizers: `pytest --benchmark-enable -s tests/benchmarks`.

Complete processes, including imports, from a file of records to the tokenizer's files. The other
side only imports `tokenizers` and trains from an iterator. Without that option each side runs once
on little input, and only the vocabularies are compared.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from test_bench_tokenize import texts
from timing import alternate, note, ratios, run, summary, write

_THEIRS = """
import json, sys
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
if sys.argv[1] == "wordpiece":
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    steps = [normalizers.NFC(), normalizers.BertNormalizer(lowercase=False, strip_accents=False)]
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    settings, make = {}, trainers.WordPieceTrainer
else:
    tokenizer, steps = Tokenizer(models.BPE()), [normalizers.NFC()]
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    settings, make = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}, trainers.BpeTrainer
tokenizer.normalizer = normalizers.Sequence(steps)
with open(sys.argv[3], encoding="utf-8") as lines:
    tokenizer.train_from_iterator(
        (json.loads(line)["text"] for line in lines),
        make(vocab_size=int(sys.argv[2]), min_frequency=2, special_tokens=special,
             show_progress=False, **settings))
tokenizer.save(sys.argv[4])
"""


@pytest.mark.data
@pytest.mark.parametrize("tokenizer_type", ["wordpiece", "bpe"])
def test_build_vocab_against_tokenizers(benchmark: Any, data: Path, tmp_path: Path,
                                        tokenizer_type: str) -> None:
    documents = itertools.islice(texts(data), 300 if benchmark.disabled else None)
    source = write(tmp_path / "text.jsonl", [{"id": str(number), "text": text}
                                             for number, text in enumerate(documents)])
    size = 1_000 if benchmark.disabled else 30_000
    sides = {"bmtools": ("-m", "bmtools", "build-vocab", source, "--tokenizer-type", tokenizer_type,
                         "--size", size, "-o", tmp_path / "ours", "--overwrite"),
             "tokenizers": ("-c", _THEIRS, tokenizer_type, size, source, tmp_path / "theirs.json")}
    turns = {name: [run(*side)] for name, side in sides.items()} if benchmark.disabled \
        else alternate(sides)
    ours, theirs = (set(json.loads(path.read_text("utf-8"))["model"]["vocab"])
                    for path in (tmp_path / "ours/tokenizer.json", tmp_path / "theirs.json"))
    assert len(ours & theirs) > 0.95 * size
    found = ratios(turns["bmtools"], turns["tokenizers"])
    note(benchmark, megabytes=round(source.stat().st_size / 1e6, 1), sides=summary(turns),
         times_faster={"processor": found["processor"]}, memory=found["memory"])
