"""PubMed's XML against pubmed_parser: `pytest --benchmark-enable -s tests/benchmarks`.

From gzipped XML to records. pubmed_parser makes a dictionary of each citation; `import pubmed`
makes records, checks them and their ids, and writes them as JSON Lines; lxml alone takes PMID,
title and labelled abstract. One process and one thread each. The text is a real file of 2016 below
the root of today, repeated under other PMIDs. pubmed_parser is installed by hand, as it needs a
package under the GPL. Without that option each runs once on little input, and only the abstracts
are compared.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import statistics
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from processes import measured, program

_ROUNDS = 3
_COPIES = 19
_FILE = "en/pubmed-xml/medline16n0902.xml.gz"

_WRITE = 'Path(output).write_text("".join(json.dumps(one) + "\\n" for one in found))'
_THEIRS = program("text, output", before="import pubmed_parser", work="""
found = [{"id": one["pmid"], "text": one["abstract"]}
         for one in pubmed_parser.parse_medline_xml(text) if one["abstract"]]
""", after=_WRITE)
_LXML = program("text, output", before="import gzip\nfrom lxml import etree", work="""
found = []
with gzip.open(text) as stream:
    for _, one in etree.iterparse(stream, tag="MedlineCitation"):
        one.findtext("Article/ArticleTitle")
        parts = [(part.get("Label"), "".join(part.itertext()))
                 for part in one.iterfind("Article/Abstract/AbstractText")]
        if parts:
            found.append({"id": one.findtext("PMID"), "text": " ".join(
                f"{label} {part}" if label else part for label, part in parts)})
        one.clear()
        while one.getparent().getprevious() is not None:
            del one.getparent().getparent()[0]
""", after=_WRITE)
_OURS = program("text, output", before="""
from bmtools.cli.main import main
import bmtools.commands.import_.texts, bmtools.corpus.importing, langcodes
import bmtools.corpus.formats.texts.pubmed
""", work="""
try:
    main(["import", "pubmed", text, "-o", output, "--overwrite"])
except SystemExit as end:
    assert not end.code
""")


@pytest.mark.data
def test_pubmed_against_pubmed_parser(benchmark: Any, data: Path, tmp_path: Path) -> None:
    sides = {"lxml alone": _LXML, "bmtools": _OURS}
    if importlib.util.find_spec("pubmed_parser"):
        sides["pubmed_parser"] = _THEIRS
    path = tmp_path / "pubmed.xml.gz"
    megabytes = write_input(data, path, 1 if benchmark.disabled else _COPIES)
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}

    def take_turns() -> None:
        for name, code in sides.items():
            runs[name].append(measured(code, path, tmp_path / name))

    benchmark.pedantic(take_turns, rounds=_ROUNDS)
    ours, *others = (letters(tmp_path / name) for name in ("bmtools", *(set(sides) - {"bmtools"})))
    assert len(ours) == 526 * (1 if benchmark.disabled else _COPIES)
    assert all(other == ours for other in others)
    if not benchmark.disabled:
        report(benchmark, megabytes, runs)


def report(benchmark: Any, megabytes: float, runs: dict[str, list[tuple[float, float]]]) -> None:
    speed = {name: megabytes / statistics.median(seconds for seconds, _ in taken)
             for name, taken in runs.items()}
    peak = {name: max(peak for _, peak in taken) for name, taken in runs.items()}
    benchmark.extra_info.update(
        megabytes=round(megabytes), megabytes_per_second=round(speed["bmtools"], 1),
        lxml_megabytes_per_second=round(speed["lxml alone"], 1),
        peak_megabytes=round(peak["bmtools"]))
    if "pubmed_parser" in speed:
        benchmark.extra_info["times_faster"] = round(speed["bmtools"] / speed["pubmed_parser"], 2)
    print(f"\n{megabytes:.0f} MB of XML, by processor time:", *(
        f"{name} {speed[name]:.1f} MB/s, peak {peak[name]:.0f} MB;" for name in speed))


def letters(path: Path) -> dict[str, str]:
    """Return abstracts by PMID, without white space and the signs behind labels."""
    records = map(json.loads, path.read_text("utf-8").splitlines())
    return {one["id"]: re.sub(r"[\s:]|UNLABELLED", "", one["text"]) for one in records}


def write_input(data: Path, path: Path, copies: int) -> float:
    """Write the file several times over; return its megabytes, uncompressed."""
    text = gzip.decompress((data / _FILE).read_bytes())
    head, first, rest = text.partition(b"<MedlineCitation ")
    citations = (first + rest).partition(b"<DeleteCitation>")[0]
    citations = citations.replace(first, b"<PubmedArticle>\n" + first).replace(
        b"</MedlineCitation>", b"</MedlineCitation>\n</PubmedArticle>")
    numbers = count(10_000_000)
    again = (re.sub(rb'(<MedlineCitation [^>]*>\s*<PMID Version="1">)\d+',
                    lambda match: match[1] + b"%d" % next(numbers), citations)
             for _ in range(copies))
    content = head.replace(b"MedlineCitationSet", b"PubmedArticleSet") + b"".join(again) + \
        b"</PubmedArticleSet>"
    path.write_bytes(gzip.compress(content, 6))
    return len(content) / 1e6
