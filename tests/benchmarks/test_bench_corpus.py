"""Work on corpora compared with usual scripts: `pytest --benchmark-enable -s tests/benchmarks`.

`clean` is compared with a typical script: JSON Lines, with ftfy and py3langid on complete texts.
Reading records is compared with `json` and type checks in Python. All times are processor time on
one core, without imports. Without that option each side runs once on little input, and only the
kept records are compared.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from timing import ROUNDS, in_turns, note

from bmtools.corpus.cleaning.clean import Cleaner
from bmtools.corpus.cleaning.settings import FilterConfig, PersonalDataConfig, RepairConfig
from bmtools.io.jsonl import Block
from bmtools.io.workers import RecordWorker

_CORPORA = ("en/corpus/pubmed-drug-reviews.jsonl.gz", "en/corpus/pubmed-case-reports.jsonl.gz")
_BLOCK_LINES = 500
_BLOCK_BYTES = 1 << 17
_PLAIN = "basic,entities,copyright,publisher,navigation,repeated-lines"
_RULES = {"min_words": 50, "max_words": 100_000}


def clean_lines(lines: list[bytes], repairs: str, **filters: Any) -> list[str]:
    """Clean with bmtools, and return the ids of kept records."""
    worker = RecordWorker(partial(Cleaner, RepairConfig(repairs), FilterConfig(**filters),
                                  PersonalDataConfig()))
    kept = b"".join(
        outcome.lines for number in range(0, len(lines), _BLOCK_LINES)
        for outcome in worker(Block(number, "f", number + 1, b"".join(
            lines[number:number + _BLOCK_LINES]), "")))
    return [json.loads(line)["id"] for line in kept.splitlines()]


def clean_by_script(lines: list[bytes]) -> list[str]:
    """Clean with a script that tries every rule on every text."""
    import ftfy
    import py3langid

    kept = []
    for line in lines:
        record = json.loads(line)
        text = " ".join(ftfy.fix_text(record["text"], uncurl_quotes=False).split())
        record["text"] = text
        words = re.findall(r"\w+", text)
        if (_RULES["min_words"] <= len(words) <= _RULES["max_words"]
                and py3langid.classify(text)[0] == "en"):
            json.dumps(record, ensure_ascii=False)
            kept.append(record["id"])
    return kept


@pytest.mark.data
def test_clean_against_a_script(benchmark: Any, data: Path) -> None:
    lines = []
    for name in _CORPORA:
        with gzip.open(data / name) as stream:
            lines += itertools.islice(stream, 150 if benchmark.disabled else None)
    sides = {"script": clean_by_script,
             "bmtools": lambda lines: clean_lines(lines, "all", languages="en", **_RULES),
             "without language and Unicode": lambda lines: clean_lines(lines, _PLAIN, **_RULES)}
    kept = {name: clean(lines) for name, clean in sides.items()}  # imports, loads the model
    assert len(kept["bmtools"]) > len(lines) / 2
    # The script also counts the words of truncation marks, and ftfy changes more characters.
    differ = set(kept["bmtools"]) ^ set(kept["script"])
    assert len(differ) <= len(lines) / 500, differ
    if benchmark.disabled:
        benchmark(lambda: None)
        return
    seconds = in_turns({name: partial(clean, lines) for name, clean in sides.items()}, ROUNDS)
    megabytes = sum(map(len, lines)) / 1e6
    rates = {name: round(megabytes / statistics.median(own), 1) for name, own in seconds.items()}
    note(benchmark, megabytes=round(megabytes, 1), megabytes_per_second=rates,
         times_faster=round(rates["bmtools"] / rates["script"], 2))
