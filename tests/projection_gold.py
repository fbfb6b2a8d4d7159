"""Gold data for projection: entities annotated by hand, and arguments revised by people.

As a program, `python tests/projection_gold.py DATA FOLDER` writes source, translation and gold data
of the entities. With these files and the files of the arguments it measures the confidence, and
writes the calibration that bmtools contains, confidence.json.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import msgspec
import numpy as np

from bmtools.corpus.formats.sets.conll import conll_records
from bmtools.corpus.formats.settings import ConllConfig
from bmtools.records import Record
from bmtools.translation.projection.confidence import SHIPPED, WHOLE
from bmtools.translation.projection.documents import DocumentPair, pair_document
from bmtools.translation.projection.edges import Sentence
from bmtools.translation.projection.gold import (
    Sample,
    calibration_error,
    fit_calibration,
    gold_samples,
)
from bmtools.translation.projection.settings import ProjectionConfig

ARGUMENTS = {
    "abstrct": [(f"abstrct-en-it/{part}.en.tsv", f"abstrct-en-it/{part}.it.tsv")
                for part in ("glaucoma-test", "neoplasm-dev", "neoplasm-test")],
    "casimedicos": [(f"casimedicos-arg/EN/{part}.tsv", f"casimedicos-arg/IT/{part}.tsv")
                    for part in ("dev", "test")]}
"""Files of English and Italian sentences by set, below parallel/."""
CONTRADICTORY = ", contradictory"
ORIGIN = ("English to Italian by align and exact with edge rules: AbstRCT (glaucoma-test, "
          "neoplasm-dev, neoplasm-test), CasiMedicos (dev, test), 200 sentences of NCBI-disease "
          "and BC5CDR")
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


def argument_records(path: Path, place: str, lang: str) -> list[Record]:
    """Read sentences whose second column has tags: I after O also begins a span."""
    records = []
    for block in filter(str.strip, path.read_text(encoding="utf-8").split("\n\n")):
        text, spans, last = "", [], "O"
        for line in filter(str.strip, block.splitlines()):
            word, tag = re.split(r"[ \t]", line)[:2]
            start = len(text) + bool(text)
            text = f"{text} {word}".lstrip()
            if tag[0] == "I" and last != "O":
                spans[-1]["end"] = len(text)
            elif tag[0] != "O":
                spans.append({"start": start, "end": len(text), "type": tag[2:]})
            last = tag[0]
        records.append(Record({"id": f"{place} {len(records)}", "lang": lang, "text": text,
                               "entities": spans}, place=f"{place}:{len(records) + 1}"))
    return records


def gold_documents(data: Path) -> list[DocumentPair]:
    """Pair the sentences of the three sets with their gold data, whose place names the set.

    The place of sentences whose gold contradicts the English spans ends with `CONTRADICTORY`.
    """
    pairs = [pair for name, files in ARGUMENTS.items() for both in files
             for pair in zip(*(argument_records(data / "parallel" / path, name, lang)
                               for path, lang in zip(both, ("en", "it"), strict=True)),
                             strict=True)]
    pairs += zip(source_records(data), (Record(one, place="mentions:1") for one in gold_records()),
                 strict=True)
    return [pair_document(source, Record(gold, place=f"{gold.place.split(':')[0]}"
                                         f"{CONTRADICTORY * contradicts(source, gold)}:1"))
            for source, gold in pairs]


def contradicts(source: Record, gold: Record) -> bool:
    """Return whether a span begins only one of the two sentences, without `The` or `Il` before it.

    Spans belong together if they have the same id or position.
    """
    left, right = (sorted(one["entities"], key=lambda entity: entity.get("id", "0"))
                   for one in (source, gold))
    for spans in zip(left, right, strict=False):
        begins = []
        for record, span in zip((source, gold), spans, strict=True):
            sentence = Sentence(record["text"], record["lang"])
            before = range(sentence.range_of(span["start"], span["end"])[0])
            begins.append((all(map(sentence.is_sign, before)),
                           all(sentence.is_sign(at) or sentence.is_function(at) for at in before)))
        if any(one[0] and not other[1] for one, other in (begins, begins[::-1])):
            return True
    return False


def left_out(samples: Sequence[Sample]) -> dict[str, list[tuple[float, bool, bool]]]:
    """Fit on two sets and test on the third: confidence, correctness, and contradictory gold.

    Uses spans inside sentences.
    """
    within = [(name.removesuffix(CONTRADICTORY), values, right, name.endswith(CONTRADICTORY))
              for name, values, right in samples if not values[WHOLE]]
    found = {}
    for name in sorted({one[0] for one in within}):
        model = fit_calibration([one[:3] for one in within if one[0] != name], {}, "")
        found[name] = [(model.confidence(values), right, contradictory)
                       for own, values, right, contradictory in within if own == name]
    return found


def kept(found: Sequence[tuple[float, bool]], precision: float = 0.95) -> float:
    """Return the largest share of spans above a confidence at which this precision is reached."""
    ordered = sorted(found, reverse=True)
    right = list(accumulate(good for _, good in ordered))
    return max((at for at in range(1, len(ordered) + 1) if right[at - 1] >= precision * at
                and (at == len(ordered) or ordered[at][0] < ordered[at - 1][0])),
               default=0) / len(ordered)


def measure(samples: Sequence[Sample]) -> Iterator[str]:
    """Describe the confidence of spans inside sentences for each set, with a fit on the others."""
    for name, found in left_out(samples).items():
        for kind in ("all", "consistent"):
            own = [(confidence, right) for confidence, right, contradictory in found
                   if kind == "all" or not contradictory]
            yield (f"{name}, {kind}: {len(own)} spans, right {np.mean([one for _, one in own]):.3f}"
                   f", confidence {np.mean([one for one, _ in own]):.3f}, error "
                   f"{calibration_error(own):.3f}, kept at 95 % precision {kept(own):.2f}")


if __name__ == "__main__":
    data_folder, folder = map(Path, sys.argv[1:])
    print(dict(write_gold(data_folder, folder)))
    all_samples, methods = gold_samples(gold_documents(data_folder), ProjectionConfig())
    print(*measure(all_samples), sep="\n")
    calibration = fit_calibration([(name.removesuffix(CONTRADICTORY), *rest)
                                   for name, *rest in all_samples], methods, ORIGIN)
    (folder / SHIPPED.name).write_bytes(
        msgspec.json.format(msgspec.json.encode(calibration), indent=1) + b"\n")
