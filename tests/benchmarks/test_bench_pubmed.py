"""Readers of PubMed's XML and PMC's articles compared with pubmed_parser.

`import pubmed` and `import pmc` make and check records, and write PubMed's records as JSON Lines.
pubmed_parser makes dictionaries, with two calls per article. It must be installed by hand, because
it needs a package under the GPL. lxml only parses PubMed's citations and drops them. PubMed's text
is a real file of 2016, repeated with other PMIDs.
Without `--benchmark-enable` each side runs once on little input, and only the abstracts are
compared.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
from perturbed import repeated_citations
from timing import ROUNDS, in_turns, measured, note, program

from bmtools.corpus.formats.texts.jats import jats_records

_COPIES, _COPY_MEGABYTES = 19, 4
_FILE = "en/pubmed-xml/medline16n0902.xml.gz"

_WRITE = 'Path(sys.argv[2]).write_text("".join(json.dumps(one) + "\\n" for one in found))'
_THEIRS = program("import pubmed_parser", """
found = [{"id": one["pmid"], "text": one["abstract"]}
         for one in pubmed_parser.parse_medline_xml(sys.argv[1]) if one["abstract"]]
""", _WRITE)
_LXML = program("import gzip; from lxml import etree", """
for _, one in etree.iterparse(gzip.open(sys.argv[1]), tag="MedlineCitation"):
    one.clear()
    while one.getprevious() is not None:
        del one.getparent()[0]
""")
_OURS = program("""
from bmtools.cli.main import main
import bmtools.commands.import_.texts, bmtools.corpus.importing, langcodes
import bmtools.corpus.formats.texts.pubmed
""", """
try:
    main(["import", "pubmed", sys.argv[1], "-o", sys.argv[2], "--overwrite"])
except SystemExit as end:
    assert not end.code
""")


@pytest.mark.data
def test_pubmed_against_pubmed_parser(benchmark: Any, data: Path, tmp_path: Path) -> None:
    sides = {"bmtools": _OURS}
    if importlib.util.find_spec("pubmed_parser"):
        sides["pubmed_parser"] = _THEIRS
    path = tmp_path / "pubmed.xml.gz"
    copies, rounds = (1, 1) if benchmark.disabled else (_COPIES, ROUNDS)
    content = b"".join(repeated_citations(data / _FILE, _COPY_MEGABYTES * copies))
    path.write_bytes(gzip.compress(content, 6))
    megabytes = len(content) / 1e6
    turns = [{name: measured(code, path, tmp_path / name)
              for name, code in (sides | {"lxml": _LXML}).items()} for _ in range(rounds)]
    runs = {name: [turn[name] for turn in turns] for name in turns[0]}
    found = [letters(tmp_path / name) for name in sides]
    assert len(found[0]) == 526 * copies
    assert all(other == found[0] for other in found)
    note(benchmark, megabytes=round(megabytes),
         megabytes_per_second={name: round(megabytes / statistics.median(
             seconds for seconds, _ in own), 1) for name, own in runs.items()},
         peak_megabytes={name: round(max(peak for _, peak in own)) for name, own in runs.items()})


@pytest.mark.data
def test_articles_against_pubmed_parser(benchmark: Any, data: Path) -> None:
    pubmed_parser = pytest.importorskip("pubmed_parser")
    files = sorted(map(str, (data / "en" / "pmc-nxml").glob("*.nxml")))
    turns = in_turns({
        "bmtools": lambda: list(jats_records(files)),
        "pubmed_parser": lambda: [(pubmed_parser.parse_pubmed_xml(file),
                                   pubmed_parser.parse_pubmed_paragraph(file, all_paragraph=True))
                                  for file in files]}, 1 if benchmark.disabled else 25)
    megabytes = sum(Path(file).stat().st_size for file in files) / 1e6
    note(benchmark, megabytes_per_second={name: round(megabytes / min(own), 1)
                                          for name, own in turns.items()},
         times_faster=round(min(turns["pubmed_parser"]) / min(turns["bmtools"]), 2))


def letters(path: Path) -> dict[str, str]:
    """Return abstracts by PMID, without white space and the punctuation after labels."""
    records = map(json.loads, path.read_text("utf-8").splitlines())
    return {one["id"]: re.sub(r"[\s:]|UNLABELLED", "", one["text"]) for one in records}
