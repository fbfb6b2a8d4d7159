"""Finding words against pyahocorasick: `pytest --benchmark-enable -s tests/benchmarks`.

pyahocorasick searches raw text line by line, lower-cased beforehand, and checks the characters
around each match. `find-contexts` starts from JSON Lines, checks every record, folds characters by
BERT's own rule and, in the row "sampling", also samples sentences and writes them. One process and
one thread each. The text is 7,752 abstracts, repeated in other orders. Without that option each
runs once on little input, and only the matches are compared.
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
import statistics
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from processes import measured, program

_ROUNDS = 3
_COPIES = 16
_WORDS = 10_000
_ABSTRACTS = "en/corpus/pubmed-drug-reviews.jsonl.gz"
_VOCABULARY = "vocab/covid-electra-50k-uncased.txt"
_BASE = "vocab/bert-base-uncased.txt"

_program = partial(program, "text, words, output",
                   after="Path(output).write_text(json.dumps(counts))")
_THEIRS = _program(before="""
import ahocorasick
automaton = ahocorasick.Automaton()
for word in Path(words).read_text().split():
    automaton.add_word(word, word)
automaton.make_automaton()
counts = {}
""", work="""
with open(text + ".txt", encoding="utf-8") as stream:
    for line in stream:
        for last, word in automaton.iter(line):
            start = last - len(word)
            if not (line[start:start + 1].isalnum() and start >= 0) and \\
                    not line[last + 1:last + 2].isalnum():
                counts[word] = counts.get(word, 0) + 1
""")
_OPENED = """
from bmtools.io.parallel import read_blocks
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import write_records
from bmtools.text.find_contexts import find_contexts
from bmtools.text.case_folding import Folding
from bmtools.text.matching import Matcher
from bmtools.text.word_lists import read_word_list
rule = json.dumps({"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                   "strip_accents": None, "lowercase": True})
targets = read_word_list(words, rule)
"""
_MATCHING = _program(before=_OPENED + """
import numpy as np
matcher = Matcher(targets.folded, Folding(rule))
found = np.zeros(len(targets.words), dtype=int)
""", work="""
for block in read_blocks(RecordReader([text])):
    texts = [record["text"] for record in block.records(None)]
    found += np.bincount(matcher.find(texts).words, minlength=len(found))
counts = {word: int(count) for word, count in zip(targets.words, found) if count}
""")
_SAMPLING = _program(before=_OPENED, work="""
found = find_contexts(text, targets)
write_records(found.sentences(), output + ".jsonl")
counts = {one["word"]: one["occurrences"] for one in found.report() if one["occurrences"]}
""")


@pytest.mark.data
def test_contexts_against_pyahocorasick(benchmark: Any, data: Path, tmp_path: Path) -> None:
    pytest.importorskip("ahocorasick")
    text, words = write_inputs(data, tmp_path, small=benchmark.disabled)
    programs = {"pyahocorasick": _THEIRS, "matching": _MATCHING, "sampling": _SAMPLING}
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}

    def take_turns() -> None:
        for name, code in programs.items():
            runs[name].append(measured(code, text, words, tmp_path / name))

    benchmark.pedantic(take_turns, rounds=_ROUNDS)
    expected, *others = (json.loads((tmp_path / name).read_text()) for name in programs)
    assert others == [expected, expected]
    assert len(expected) > 100
    if not benchmark.disabled:
        report(benchmark, text, runs)


def write_inputs(data: Path, directory: Path, small: bool) -> tuple[Path, Path]:
    """Write records, the same text in lower case, a line each, and words.

    Characters that the two sides' folding treats differently are left out of the text: accents,
    and what str.isalnum and Unicode's letters, figures and marks disagree about.
    """
    with gzip.open(data / _ABSTRACTS, "rt", encoding="utf-8") as stream:
        texts = [re.sub(r"[^\x20-\x7e±µ°]", " ", json.loads(line)["text"])
                 for line in itertools.islice(stream, 200 if small else None)]
    counts = Counter(word for text in texts for word in re.findall(r"[a-z]+", text.lower()))
    base = set((data / _BASE).read_text(encoding="utf-8").split())
    new = [word for word in (data / _VOCABULARY).read_text(encoding="utf-8").split()
           if re.fullmatch(r"[a-z0-9]*[a-z][a-z0-9]*", word) and word not in base]
    chosen = sorted(new, key=lambda word: -counts[word])[:_WORDS]
    (directory / "words").write_text("\n".join(chosen) + "\n")
    rng = random.Random(0)
    with (directory / "text").open("w") as ours, (directory / "text.txt").open("w") as theirs:
        for copy in range(1 if small else _COPIES):
            rng.shuffle(texts)
            for number, text in enumerate(texts):
                line = {"id": f"{copy}-{number}", "text": text}
                ours.write(json.dumps(line, ensure_ascii=False) + "\n")
                theirs.write(text.lower() + "\n")
    return directory / "text", directory / "words"


def report(benchmark: Any, text: Path, runs: dict[str, list[tuple[float, float]]]) -> None:
    size = text.with_suffix(".txt").stat().st_size / 1e6
    medians = {name: tuple(map(statistics.median, zip(*measures, strict=True)))
               for name, measures in runs.items()}
    theirs = medians["pyahocorasick"][0]
    benchmark.extra_info.update(
        megabytes=round(size, 1), words=_WORDS,
        times_faster=round(theirs / medians["sampling"][0], 2),
        times_faster_than_matching_alone=round(theirs / medians["matching"][0], 2),
        seconds={name: round(seconds, 2) for name, (seconds, _) in medians.items()},
        peak_megabytes={name: round(peak) for name, (_, peak) in medians.items()})
    print(f"\n{size:.0f} MB of text, {_WORDS:,} words, by processor time:")
    for name, (seconds, peak) in medians.items():
        print(f"  {name}: {size / seconds:.1f} MB/s, {theirs / seconds:.1f} times pyahocorasick, "
              f"{peak:.0f} MB resident")
