"""Real files of annotated sets, cut to a few records, and the share that must be accounted for."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lxml import etree

DATA = Path(os.environ.get("BMTOOLS_DATA", Path(__file__).parents[3] / "shared" / "data"))
Records = Sequence[dict[str, Any]]
Balance = Callable[[bytes, Records, Counter[str]], int]
"""What is missing among records and counts of what a damaged file holds; 0 or less is none."""
_COUNT = re.compile(r"([^;:]+): ([\d,]+)(?=;| in )")
_ENDS = re.compile("\r\n|\n|\r")


@dataclass(frozen=True)
class RealFile:
    """A real file to damage.

    Args:
        path: relative path in the data.
        command: command that reads it; `{}` is the file.
        cut: makes the file small.
        balance: returns how much of it is not read and not counted.
    """

    path: str
    command: str
    cut: Callable[[bytes], bytes]
    balance: Balance | None = None

    @property
    def file(self) -> str:
        """The file's name in the kit."""
        return name_in_kit(self.path.removesuffix(".gz"))

    def write(self, folder: Path) -> None:
        """Write the shortened file."""
        content = (DATA / self.path).read_bytes()
        if self.path.endswith(".gz"):
            content = gzip.decompress(content)
        (folder / self.file).write_bytes(self.cut(content))


def name_in_kit(path: str) -> str:
    """Turn a path in the data into a file name."""
    return f"real-{path.replace('/', '-')}"


def told(err: str) -> Counter[str]:
    """Parse the counts in the closing line of `import`."""
    return Counter({name.strip(): int(count.replace(",", ""))
                    for name, count in _COUNT.findall(err.rpartition("bmtools: ")[2])})


def lines_of(content: bytes) -> list[str]:
    """Return the lines of a file that are not blank."""
    return [line for line in _ENDS.split(content.decode("utf-8-sig")) if line.strip()]


def _first_lines(count: int, content: bytes) -> bytes:
    return b"".join(content.splitlines(keepends=True)[:count])


def _of_documents(texts: str, ids: Callable[[bytes], set[str]], content: bytes) -> bytes:
    """Keep the lines of a table whose first column is the id of a shortened text."""
    wanted = ids((DATA / texts).read_bytes())
    return b"".join([line for line in content.splitlines(keepends=True)
                     if line.partition(b"\t")[0].decode() in wanted][:60])


def _standoff_ids(content: bytes) -> set[str]:
    return {line.partition("|")[0] for line in lines_of(_first_lines(3, content))}


def _json_ids(content: bytes) -> set[str]:
    return {text["PMID"] for text in json.loads(content)["data"][:3]}


def _table_ids(content: bytes) -> set[str]:
    return {line.partition("\t")[0] for line in lines_of(_first_lines(3, content))}


def _first_items(keys: Sequence[str | int], count: int, content: bytes) -> bytes:
    """Shorten the list under some keys of a JSON file."""
    whole = json.loads(content)
    holder = whole
    for key in keys:
        if isinstance(holder, list):
            del holder[1:]
        holder = holder[key]
    if isinstance(holder, dict):
        for key in list(holder)[count:]:
            del holder[key]
    else:
        del holder[count:]
    return json.dumps(whole, indent=1, ensure_ascii=False).encode()


def _first_splits(content: bytes) -> bytes:
    return json.dumps({name: items[:4] for name, items in json.loads(content).items()},
                      indent=1).encode()


# Balances


def _tokens(content: bytes, records: Records, counts: Counter[str]) -> int:
    lines = [line for line in lines_of(content) if not line.startswith("-DOCSTART-")]
    return len(lines) - sum(len(re.split("[ \n]", record["text"])) for record in records)


def _rows(headers: int, content: bytes, records: Records, counts: Counter[str]) -> int:
    return len(lines_of(content)) - headers - len(records) - _left_out(counts)


def _mentions(content: bytes, records: Records, counts: Counter[str]) -> int:
    return len(lines_of(content)) - sum(len(record["entities"]) for record in records) \
        - counts["annotations lost"] - counts["repeated annotations left out"]


def _arcs(content: bytes, records: Records, counts: Counter[str]) -> int:
    return len(lines_of(content)) - counts["relations lost"] \
        - counts["repeated relations left out"] - sum(
            len(record["relations"]) for record in records)


def _related(content: bytes, records: Records, counts: Counter[str]) -> int:
    return bool(lines_of(content)) and not counts["relations lost"] and not any(
        record["relations"] for record in records)


def _sentences(content: bytes, records: Records, counts: Counter[str]) -> int:
    found = etree.fromstring(content, etree.XMLParser(resolve_entities=False))
    return len(found.findall(".//sentence")) - len(records) - _left_out(counts)


def _objects(key: str, content: bytes, records: Records, counts: Counter[str]) -> int:
    """Count the JSON objects with a key, including objects hidden by a repeated key."""
    found = 0

    def count(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found += any(name == key for name, _ in pairs)

    json.loads(content.decode("utf-8-sig"), object_pairs_hook=count)
    return found - len(records) - _left_out(counts) - sum(
        counts[kind] for kind in counts if kind.endswith(" questions") or "lost" in kind)


def _left_out(counts: Counter[str]) -> int:
    return sum(count for name, count in counts.items() if "left out" in name)


# Files


def _real_files() -> Iterator[RealFile]:
    for pattern, options, count in (
            ("[ei][nst]/ner/*/*.t[sx][vt]", "", 120), ("en/pico/*/*.txt", " --documents", 150),
            ("parallel/abstrct-en-it/*.tsv", " --tag-column 2", 120),
            ("parallel/casimedicos-arg/*/*.tsv", " --tag-column 2", 120)):
        for path in _paths(pattern):
            if "_corpus" not in path and "_annotations" not in path:
                yield RealFile(path, f"import conll {{}}{options}", partial(_first_lines, count),
                               _tokens)
    for pattern, form, count, headers in (
            ("en/re/GAD/test.tsv", "gad", 12, 1), ("en/re/GAD/train.tsv", "gad", 12, 0),
            ("en/re/chemprot/*.txt", "chemprot", 8, 0), ("en/cls/HoC/hoc.tsv", "hoc", 20, 1),
            ("en/sts/BIOSSES/biosses.tsv", "biosses", 12, 1),
            ("en/qa/bioasq/yesno/*.tsv", "bioasq-yesno", 8, 1),
            ("it/corpus/general-ud.txt", "text", 20, 0),
            ("it/corpus/native-clinical.jsonl", "jsonl", 5, 0)):
        for path in _paths(pattern):
            yield RealFile(path, f"import {form} {{}}", partial(_first_lines, count),
                           partial(_rows, headers))
    yield RealFile("en/corpus/raw-csv-sample.csv", "import table {} --columns "
                   "text=abstract,label=label_included", partial(_first_lines, 5))
    yield RealFile("parallel/tico19-terms/en_it-IT.csv", "import table {} --columns "
                   "text=sourceString,text_pair=targetString", partial(_first_lines, 20))
    for path in _paths("it/ner/*/*_corpus.txt"):
        yield from _standoff(path)
    for path in _paths("it/re/*/*_CORPUS.json"):
        yield from _related_texts(path)
    yield from _official("en/re/chemprot-official/chemprot_development_{}.tsv")
    for path in _paths("en/re/DDI-2013/test-medline-xml/2170*.xml"):
        yield RealFile(path, "import ddi {}", bytes, _sentences)
    for path in ("en/pubmed-xml/pubmed-29768149.xml", "en/pubmed-xml/pubmed24-sample.xml.gz"):
        yield RealFile(path, "import pubmed {} --titles --other-abstracts", bytes)
    for path in ("en/qa/bioasq/squad-answers.json", "en/qa/bioasq/BioASQ-test-factoid-4b-1.json",
                 "it/qa/SQuAD_it-test.json.gz"):
        yield RealFile(path, "import squad {}", partial(
            _first_items, ("data", 0, "paragraphs"), 2), partial(_objects, "question"))
    for path in _paths("en/qa/bioasq/*golden.json"):
        yield RealFile(path, "import bioasq {} --type factoid", partial(
            _first_items, ("questions",), 3), partial(_objects, "snippets"))
    for path in _paths("it/qa/*.json"):
        yield RealFile(path, "import biobit-qa {} --split train", _first_splits)
    yield RealFile("en/qa/pubmedqa/ori_pqal.json", "import pubmedqa {}", partial(
        _first_items, (), 3), partial(_objects, "QUESTION"))
    yield RealFile("it/mrr/mlm_data.json", "import curated {}", partial(
        _first_items, ("data",), 2))


def _paths(pattern: str) -> list[str]:
    return [str(path.relative_to(DATA)) for path in sorted(DATA.glob(pattern))]


def _standoff(texts: str) -> Iterator[RealFile]:
    mentions = texts.replace("_corpus", "_annotations")
    command = f"import standoff {name_in_kit(texts)} --annotations {name_in_kit(mentions)}"
    yield RealFile(texts, command, partial(_first_lines, 3), partial(_rows, 0))
    yield RealFile(mentions, command, partial(_of_documents, texts, _standoff_ids), _mentions)


def _related_texts(texts: str) -> Iterator[RealFile]:
    form = "chemprot" if "CHEMPROT" in texts else "biored"
    entities, relations = (texts.replace("CORPUS.json", f"{ending}.txt")
                           for ending in ("ANN", "REL"))
    command = _with_tables(form, texts, entities, relations)
    table = partial(_of_documents, texts, _json_ids)
    yield RealFile(texts, command, partial(_first_items, ("data",), 3),
                   partial(_objects, "Testo"))
    yield RealFile(entities, command, table, _mentions)
    yield RealFile(relations, command, table, _arcs if form == "chemprot" else _related)


def _with_tables(form: str, texts: str, entities: str, relations: str) -> str:
    return (f"import {form} {name_in_kit(texts)} --entities {name_in_kit(entities)} "
            f"--relations {name_in_kit(relations)}")


def _official(path: str) -> Iterator[RealFile]:
    texts, entities, relations = (path.format(what)
                                  for what in ("abstracts", "entities", "relations"))
    command = _with_tables("chemprot", texts, entities, relations)
    table = partial(_of_documents, texts, _table_ids)
    yield RealFile(texts, command, partial(_first_lines, 3), partial(_rows, 0))
    yield RealFile(entities, command, table, _mentions)
    yield RealFile(relations, command, table, _arcs)


REAL_FILES = tuple(_real_files()) if DATA.is_dir() else ()
