"""The sample, compared with a brute-force sample of all sentences."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import RecordError
from bmtools.io import parts as blocks
from bmtools.io.jsonl import RecordReader
from bmtools.text.case_folding import CASELESS
from bmtools.text.find_contexts import find_contexts
from bmtools.text.segment import sentence_spans
from bmtools.text.settings import ContextConfig
from bmtools.text.word_lists import WordList

WORDS = ("asma", "cuore", "diabete mellito", "TNF-alpha", "rene", "assente")
TARGETS = WordList.of(WORDS, CASELESS)
SOME = ("la", "il", "di", "con", "e", "paziente", "terapia", "Asma", *WORDS[:5])


def sentence(rng: random.Random) -> str:
    words = " ".join(rng.choices(SOME, k=rng.randrange(3, 9)))
    return f"{words.capitalize()} {rng.choice(['stabile', 'vol', 'no', 'migliora'])}."


def records(count: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [{"id": str(number), "lang": "it", "source": "s", "extra": [1],
             "text": " ".join(sentence(rng) for _ in range(rng.randrange(6)))}
            for number in range(count)]


@pytest.fixture
def source(write_lines: Callable[..., Path]) -> Path:
    return write_lines("text.jsonl", *records(300))


def draw(*paths: Path, processes: int = 1, targets: WordList = TARGETS, **settings: Any,
         ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    reader = RecordReader([str(path) for path in paths])
    found = find_contexts(reader, targets, ContextConfig(**{"lang": "it", **settings}),
                          processes=processes)
    return list(found.sentences()), list(found.report())


def everything(texts: list[dict[str, Any]]) -> dict[str, list[tuple[str, str, int, int]]]:
    """Find all sentences of each word, with its first position, by regular expressions."""
    found = defaultdict(list)
    for record in texts:
        for start, end in sentence_spans(record["text"], "it"):
            text = record["text"][start:end]
            for word in WORDS:
                place = re.search(rf"(?i)(?<!\w){re.escape(word)}(?!\w)", text)
                if place:
                    found[word].append((f"{record['id']}#{start}", text, *place.span()))
    return found


def sampled(lines: list[dict[str, Any]]) -> dict[str, list[tuple[str, str, int, int]]]:
    found = defaultdict(list)
    for line in lines:
        for target in line["targets"]:
            found[target["word"]].append(
                (line["id"], line["text"], target["start"], target["end"]))
    return found


def test_large_sample_contains_every_sentence(source: Path) -> None:
    lines, report = draw(source, max_sentences=10_000)
    expected = everything(records(300))
    assert sampled(lines) == expected
    assert min(map(len, expected.values())) > 50
    assert [one["word"] for one in report] == list(WORDS)
    assert {one["word"]: one["sampled"] for one in report} == {
        word: len(expected[word]) for word in WORDS}
    text = " ".join(record["text"] for record in records(300))
    assert {one["word"]: one["occurrences"] for one in report} == {
        word: len(re.findall(rf"(?i)(?<!\w){re.escape(word)}(?!\w)", text)) for word in WORDS}


@pytest.mark.parametrize(("processes", "block_bytes"), [(1, 1), (2, 700), (3, 5_000)])
def test_processes_and_blocks_change_nothing(source: Path, monkeypatch: pytest.MonkeyPatch,
                                             processes: int, block_bytes: int) -> None:
    expected = draw(source, max_sentences=5)
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", block_bytes)
    assert draw(source, max_sentences=5, processes=processes) == expected


def test_words_are_sampled_independently_over_all_files(source: Path,
                                                        write_lines: Callable[..., Path]) -> None:
    expected = sampled(draw(source, max_sentences=5)[0])
    parts = [write_lines("a.jsonl", *records(300)[:100]), write_lines("b.jsonl"),
             write_lines("c.jsonl", *records(300)[100:])]
    assert sampled(draw(*parts, max_sentences=5)[0]) == expected
    alone = sampled(draw(source, max_sentences=5,
                         targets=WordList.of(["rene", "asma"], CASELESS))[0])
    assert alone == {word: expected[word] for word in ("asma", "rene")}


def test_every_sentence_has_the_same_chance(write_lines: Callable[..., Path]) -> None:
    """A sentence that contains a word five times is as likely as others, also a repeated one."""
    texts = ["L'asma guarisce. Asma e asma e asma e asma e asma. Asma no.",
             "Asma lieve. Asma sì.",
             "La cura dell'asma riesce. Niente qui. Asma lieve. Asma lieve."]
    source = write_lines("few.jsonl", *({"id": str(number), "lang": "it", "text": text}
                                        for number, text in enumerate(texts)))
    targets = WordList.of(["asma"], CASELESS)
    everywhere = [line["id"] for line in draw(source, max_sentences=99, targets=targets)[0]]
    assert len(everywhere) == 8
    rounds, most = 600, 3
    counts = Counter(line["id"] for seed in range(rounds) for line in
                     draw(source, max_sentences=most, seed=seed, targets=targets)[0])
    expected = rounds * most / len(everywhere)
    # Sampling without replacement: the statistic's mean is the number of unsampled sentences.
    statistic = sum((counts[name] - expected) ** 2 / expected for name in everywhere)
    assert statistic * (len(everywhere) - 1) / (len(everywhere) - most) < 24.3  # 7 degrees, 0.1 %


@pytest.mark.parametrize("processes", [1, 2])
def test_bad_lines_are_rejected_as_by_the_reader(source: Path, monkeypatch: pytest.MonkeyPatch,
                                                 processes: int) -> None:
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 2_000)
    raw = source.read_bytes().splitlines(keepends=True)
    for place in range(250, 0, -50):
        raw[place:place] = [b'{"id": 3, "text": "il"}\n', b"\n", b"[1]\n", b"\xff\n", b"{\n",
                            b'{"id": "x", "text": "y", "entities": [{"start": 0, "end": 9, '
                            b'"type": "z"}]}\n']
    source.write_bytes(b"".join(raw))
    rejected: list[Any] = []
    expected: list[Any] = []
    list(RecordReader([str(source)], lambda error: expected.append(str(error))))
    find_contexts(RecordReader([str(source)], lambda error: rejected.append(str(error))), TARGETS,
                  ContextConfig(lang="it"), processes=processes)
    assert rejected == expected
    assert len(rejected) == 25
    with pytest.raises(RecordError, match=r"text\.jsonl:51: key 'id'"):
        draw(source, processes=processes)


# The kernel's peak value: what getrusage says includes the process that forked this one.
_MEASURED = """
import re, sys
from pathlib import Path
from bmtools.text import find_contexts
assert not {'torch', 'transformers'} & set(sys.modules)
words = [f"w{number}" for number in range(2_000)]
found = find_contexts(sys.argv[1], words)
assert sum(1 for _ in found.sentences()) > 1_000
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    rng = random.Random(0)
    lines = [json.dumps({"id": str(number), "text": " ".join(
        f"w{int(rng.paretovariate(0.6))}" for _ in range(200))}) + "\n" for number in range(3_000)]
    peaks = []
    for copies in (3, 12):
        source = tmp_path / f"{copies}.jsonl"
        source.write_text("".join(lines * copies))
        done = subprocess.run([sys.executable, "-c", _MEASURED, source], capture_output=True,
                              check=True)
        peaks.append(int(done.stdout) / 1024)
    assert source.stat().st_size > 20e6
    assert peaks[1] < 150 and peaks[1] - peaks[0] < 8, f"{peaks} megabytes"
