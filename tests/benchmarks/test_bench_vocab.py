"""Training a vocabulary against the bare library: `pytest --benchmark-enable -s tests/benchmarks`.

Both get the same texts in memory, with their titles, in a process of its own, and all threads.
`build-vocab` also samples documents and breaks ties. Without that option each runs once on little
text, and only the sizes are compared.
"""

from __future__ import annotations

import gzip
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_ROUNDS = 3
_SIZE = 8_000
_ABSTRACTS = "en/corpus/pubmed-drug-reviews.jsonl.gz"

# Each prints the seconds of its work, imports and reading left out, its peak in megabytes, as the
# kernel counts it, and the number of tokens.
_MEASURED = """
import json, re, sys, time
from pathlib import Path
{before}
source, kind, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
texts = source.read_text(encoding="utf-8").split("\\0")
started = time.perf_counter()
{work}
seconds = time.perf_counter() - started
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(seconds, int(peak) / 1024, tokens)
"""
_OURS = _MEASURED.format(before="""
from bmtools.vocab.build_vocab import build_vocab
from bmtools.vocab.settings import VocabularyConfig
""", work="""
built = build_vocab(({"text": text} for text in texts),
                    VocabularyConfig(tokenizer_type=kind, size=size))
tokens = built.results["vocab_size"]
""")
_THEIRS = _MEASURED.format(before="""
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
import transformers
""", work="""
shared = {"vocab_size": size, "show_progress": False}
if kind == "wordpiece":
    bare = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    bare.normalizer = normalizers.Sequence([
        normalizers.NFC(), normalizers.BertNormalizer(lowercase=False, strip_accents=False)])
    bare.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(special_tokens=special, min_frequency=2, **shared)
else:
    bare = Tokenizer(models.BPE() if kind == "bpe" else models.Unigram())
    bare.normalizer = normalizers.NFC()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    if kind == "bpe":
        bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            special_tokens=special, min_frequency=2,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **shared)
    else:
        bare.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(special_tokens=special, unk_token="<unk>", **shared)
bare.train_from_iterator(texts, trainer)
tokens = bare.get_vocab_size()
""")

Measured = tuple[float, float, float]


@pytest.mark.data
@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_build_vocab_against_the_library(benchmark: Any, data: Path, tmp_path: Path,
                                         kind: str) -> None:
    source = tmp_path / "texts"
    source.write_text("\0".join(texts(data)[:300 if benchmark.disabled else None]),
                      encoding="utf-8")
    size = 1_000 if benchmark.disabled else _SIZE
    ours: list[Measured] = []
    theirs: list[Measured] = []

    def run() -> None:
        ours.append(measured(_OURS, source, kind, size))

    theirs.append(measured(_THEIRS, source, kind, size))
    benchmark.pedantic(run, rounds=_ROUNDS)
    assert ours[0][2] == theirs[0][2] == size
    if benchmark.disabled:
        return
    theirs += [measured(_THEIRS, source, kind, size) for _ in range(1, _ROUNDS)]
    report(benchmark, source.stat().st_size / 1e6, kind, ours, theirs)


def texts(data: Path) -> list[str]:
    """Read abstracts with their titles, 13 megabytes."""
    with gzip.open(data / _ABSTRACTS, "rt", encoding="utf-8") as stream:
        return [f"{record['title']}\n{record['text']}" if "title" in record else record["text"]
                for record in map(json.loads, stream)]


def measured(code: str, *arguments: object) -> Measured:
    """Return seconds, peak in megabytes and tokens of a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, check=True,
        env={**os.environ, "TOKENIZERS_PARALLELISM": "true", "HF_HUB_OFFLINE": "1"})
    seconds, peak, tokens = map(float, done.stdout.split()[-3:])
    return seconds, peak, tokens


def report(benchmark: Any, megabytes: float, kind: str, ours: list[Measured],
           theirs: list[Measured]) -> None:
    """Add the comparison to the benchmark's results, and print it."""
    (seconds, peak, _), (their_seconds, their_peak, _) = (
        map(statistics.median, zip(*runs, strict=True)) for runs in (ours, theirs))
    ratio = their_seconds / seconds
    benchmark.extra_info.update(
        megabytes=round(megabytes, 1), seconds=round(seconds, 2), times_faster=round(ratio, 2),
        library_seconds=round(their_seconds, 2), peak_megabytes=round(peak),
        library_peak_megabytes=round(their_peak), threads=os.cpu_count())
    print(f"\n{kind}, {megabytes:.1f} MB: {ratio:.2f} times as fast as the bare library "
          f"({seconds:.2f} s and {their_seconds:.2f} s), peaks {peak:.0f} and {their_peak:.0f} MB")
