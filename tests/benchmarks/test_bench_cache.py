"""Cost of the cache of translated sentences, beside Apertium's time for the same sentences.

With `pytest --benchmark-enable -s tests/benchmarks`; otherwise each runs once on few sentences.
"""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bmtools.text.segment import sentence_spans
from bmtools.translation.cache import DATABASE, SentenceCache
from bmtools.translation.engines.apertium import ApertiumTranslator, installed_modes

_ABSTRACTS = "en/corpus/pubmed-case-reports.jsonl.gz"


@pytest.mark.data
def test_cost_of_the_cache(benchmark: Any, data: Path, tmp_path: Path) -> None:
    if shutil.which("apertium") is None or "eng-cat" not in installed_modes():
        pytest.skip("apertium with eng-cat is not installed")
    with gzip.open(data / _ABSTRACTS, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in
                 itertools.islice(lines, 3 if benchmark.disabled else 700)]
    sentences = list(dict.fromkeys(
        " ".join(text[start:end].split()) for text in texts
        for start, end in sentence_spans(text, "en")))
    engine = ApertiumTranslator("en", "ca")
    size = engine.batch_sentences
    batches = [sentences[start:start + size] for start in range(0, len(sentences), size)]
    started = time.perf_counter()
    translations = [engine.translate(batch) for batch in batches]
    apertium_seconds = time.perf_counter() - started
    numbers = itertools.count()

    def first_run() -> SentenceCache:
        """Look every sentence up in vain, and store its batch."""
        cache = SentenceCache(engine.fingerprint, tmp_path / f"{next(numbers)}-{DATABASE}")
        for batch, found in zip(batches, translations, strict=True):
            assert not any(map(cache.get, batch))
            cache.put(batch, found, Counter())
        return cache

    cache = benchmark.pedantic(first_run, rounds=1 if benchmark.disabled else 5)
    started = time.perf_counter()
    assert all(map(cache.get, sentences))
    look_ups = len(sentences) / (time.perf_counter() - started)
    if not benchmark.disabled:
        seconds = benchmark.stats["median"]
        benchmark.extra_info.update(
            sentences=len(sentences), seconds=seconds, apertium_seconds=apertium_seconds,
            look_ups_per_second=round(look_ups), times_faster=round(apertium_seconds / seconds, 1))
        print(f"\n{len(sentences)} sentences: {1e6 * seconds / len(sentences):.1f} microseconds a "
              f"sentence, {100 * seconds / apertium_seconds:.2f} % of Apertium's time; "
              f"{look_ups:,.0f} look-ups a second; {cache.size()[1] / len(sentences):.0f} bytes a "
              "sentence")
