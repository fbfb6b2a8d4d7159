"""Gold of projected entities, made by hand, with its English sentences from the sets at hand.

As a program: `python tests/projection_gold.py DATA FOLDER` writes source, translation and gold.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path

from bmtools.corpus.formats.sets.conll import conll_records
from bmtools.corpus.formats.settings import ConllConfig
from bmtools.records import Record

GOLD = Path(__file__).with_name("translation") / "gold" / "ncbi-bc5cdr.it.jsonl"
DIGEST = 16


def gold_records() -> list[Record]:
    """Read the Italian sentences with their gold spans."""
    lines = GOLD.read_text(encoding="utf-8").splitlines()
    return [Record(json.loads(line), place=f"{GOLD.name}:{number}")
            for number, line in enumerate(lines, 1)]


def source_records(data: Path) -> list[Record]:
    """Read the English sentences of the gold records, their entities numbered e1, e2, ...

    Args:
        data: folder with en/ner/NCBI-disease and en/ner/BC5CDR.
    """
    sets: dict[str, list[Record]] = {}
    sources = []
    for gold in gold_records():
        name = "{set}/{file}".format(**gold["meta"])
        if name not in sets:
            sets[name] = list(conll_records([str(data / "en" / "ner" / name)],
                                            ConllConfig(default_type="Disease")))
        sentence = sets[name][gold["meta"]["sentence"] - 1]
        digest = hashlib.sha256(sentence["text"].encode()).hexdigest()[:DIGEST]
        assert digest == gold["meta"]["source_sha256"], f"{gold.place}: {name} is another edition"
        sources.append(sentence.replace(id=gold["id"], lang="en", entities=[
            {"id": f"e{number}", **entity}
            for number, entity in enumerate(sentence["entities"], 1)]))
    return sources


def write_gold(data: Path, folder: Path) -> Counter[str]:
    """Write source.jsonl, translation.jsonl (without entities) and gold.jsonl; count entities."""
    gold = gold_records()
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    for name, records in (("source", source_records(data)), ("gold", gold),
                          ("translation", [one.without("entities") for one in gold])):
        counts[name] = sum(len(record.get("entities", ())) for record in records)
        (folder / f"{name}.jsonl").write_text("".join(
            json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return counts


if __name__ == "__main__":
    print(dict(write_gold(Path(sys.argv[1]), Path(sys.argv[2]))))
