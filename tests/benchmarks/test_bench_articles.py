"""Reading articles beside pubmed_parser.

`pytest tests/benchmarks/test_bench_articles.py -s --benchmark-enable`: pubmed_parser is asked for
what a record has, which takes two calls a file, `parse_pubmed_xml` (title, abstract, ids) and
`parse_pubmed_paragraph`. It is not in the extra `test`, as its wheel installs packages that are
named `tests` and `docs`; without it the test is skipped. Without the option each runs once, and
only what both read is compared.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from bmtools.corpus.account import squeezed
from bmtools.corpus.formats.texts.jats import jats_records
from bmtools.records import Record

_ROUNDS = 25


def cpu_seconds(function: Callable[[], object]) -> float:
    """Measure processor time, which a busy machine disturbs less than the clock."""
    started = time.process_time()
    function()
    return time.process_time() - started


@pytest.mark.data
def test_articles_beside_pubmed_parser(benchmark: Any, data: Path) -> None:
    pubmed_parser = pytest.importorskip("pubmed_parser")
    files = sorted(map(str, (data / "en" / "pmc-nxml").glob("*.nxml")))

    def ours() -> list[Record]:
        return list(jats_records(files))

    def theirs() -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
        return [(pubmed_parser.parse_pubmed_xml(file),
                 pubmed_parser.parse_pubmed_paragraph(file, all_paragraph=True))
                for file in files]

    counts = Counter[str]()
    for file, record, found in zip(files, ours(), theirs(), strict=True):
        compare(record, *found, left_out(file), counts)
    assert counts == {"same": 177, "letters missing": 18, "left out": 36, "empty": 1}
    rounds = _ROUNDS if benchmark.enabled else 1
    turns = [(cpu_seconds(ours), cpu_seconds(theirs)) for _ in range(rounds)]
    fastest = [min(side) for side in zip(*turns, strict=True)]
    benchmark.pedantic(ours, rounds=1)
    megabytes = sum(Path(file).stat().st_size for file in files) / 1e6
    benchmark.extra_info |= {"times_faster": fastest[1] / fastest[0],
                             "megabytes_per_second": megabytes / fastest[0]}
    if benchmark.enabled:
        print(f"\n{megabytes / fastest[0]:.0f} MB/s, {fastest[1] / fastest[0]:.1f} times as fast")
        assert fastest[1] > 2 * fastest[0]


def left_out(file: str) -> set[str]:
    """Collect the paragraphs that `import pmc` leaves out, by where they stand."""
    root = etree.parse(file, etree.XMLParser(load_dtd=False)).getroot()
    places = ("fig", "table-wrap", "supplementary-material", "fn")
    return {squeezed("".join(one.itertext())) for one in root.iter("p")
            if next(one.iterancestors(*places), None) is not None}


def compare(record: Record, facts: dict[str, Any], paragraphs: list[dict[str, Any]],
            elsewhere: set[str], counts: Counter[str]) -> None:
    """Compare a record with what pubmed_parser reads, and count its paragraphs.

    It loses the text of elements within other inline elements, so that its other paragraphs are
    those of the article with letters missing.
    """
    assert (facts["pmid"], facts["doi"]) == (record["meta"]["pmid"], record["meta"]["doi"])
    assert f"PMC{facts['pmc']}" == record["id"]
    assert squeezed(facts["full_title"]) == squeezed(record["title"])
    assert facts["journal"] == record["meta"]["journal"]
    blocks = [squeezed(block) for block in record["text"].split("\n\n")]
    at = 0
    for paragraph in paragraphs:
        text = squeezed(paragraph["text"])
        if not text:
            counts["empty"] += 1
        elif text in blocks[at:]:
            at = blocks.index(text, at) + 1
            counts["same"] += 1
        elif any(is_part(text, other) for other in elsewhere):
            counts["left out"] += 1
        else:
            assert any(is_part(text, block) for block in blocks), text
            counts["letters missing"] += 1


def is_part(text: str, whole: str) -> bool:
    """Tell whether a text is another one, or that one with letters missing."""
    letters = iter(whole)
    return all(letter in letters for letter in text) and len(text) > len(whole) / 2
