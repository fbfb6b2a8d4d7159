"""Sentences whose words were masked by hand, in BioBIT's layout."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any

from bmtools.errors import DataError, RecordError, Reject, refuse
from bmtools.io.jsonl import open_bytes, source_name
from bmtools.records import MASK, Record

_AROUND = ".,;:!?()[]{}\"'«»“”‘’…"  # noqa: RUF001


def curated_records(names: Iterable[str], reject: Reject = refuse) -> Iterator[Record]:
    """Yield one record for every masking, with the masked word as `target`.

    Source: Buonocore et al. 2023, the Italian benchmark for mean reciprocal rank. Either file is
    taken: `data` holds sentences with `original`, `masked`, `type` and `source`; `contexts` holds
    longer texts with `original` and `masks`. Ids are `SENTENCE-MASKING`, both counted from zero,
    with a `w` before those of `contexts`. Each file is held in memory.

    Args:
        names: JSON files, compressed or not; `-` for stdin.
        reject: receives a masking whose word cannot be found.
    """
    for name in names:
        for prefix, number, item in _items(name):
            original = item.get("original")
            for position, masked in enumerate(item.get("masked", item.get("masks", ()))):
                name_of = f"{prefix}{number}-{position}"
                place = f"{source_name(name)} ({name_of})"
                record = Record(id=name_of, text=masked, place=place)
                try:
                    record["target"] = _target(original, masked, place)
                except RecordError as error:
                    reject(error)
                    continue
                record.update(_keys(item))
                yield record


def unmasked_records(names: Iterable[str], reject: Reject = refuse) -> Iterator[Record]:
    """Yield one record for every sentence, unmasked, as under `original`.

    That is what the authors score pseudo-perplexity on. Ids are the sentences' numbers.

    Args:
        names: see `curated_records`.
        reject: receives a sentence without `original`.
    """
    for name in names:
        for prefix, number, item in _items(name):
            place = f"{source_name(name)} ({prefix}{number})"
            if not isinstance(item.get("original"), str):
                reject(RecordError(place, "found no text under 'original'", item))
                continue
            yield Record(id=f"{prefix}{number}", text=item["original"], **_keys(item),
                         place=place)


def _keys(item: dict[str, Any]) -> dict[str, Any]:
    """Keep what the file says of a sentence."""
    return {key: item[old] for key, old in (("domain", "type"), ("source", "source"))
            if item.get(old)}


def _items(name: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    with open_bytes(name) as stream:
        try:
            content = json.load(stream)
        except UnicodeDecodeError as error:
            raise DataError(f"{source_name(name)}: byte {error.start + 1} is not UTF-8; convert "
                            "the file first (iconv -t UTF-8)") from error
        except json.JSONDecodeError as error:
            raise DataError(f"{source_name(name)}:{error.lineno}: not JSON ({error.msg}); expected "
                            "one object with 'data' or 'contexts'") from error
    found = content if isinstance(content, dict) else {}
    for key, prefix in (("data", ""), ("contexts", "w")):
        if isinstance(found.get(key), list):
            for number, item in enumerate(found[key]):
                if not isinstance(item, dict):
                    raise DataError(f"{source_name(name)}: {key}[{number}]: found {item!r:.40}, "
                                    "expected an object with 'original' and 'masked'")
                yield prefix, number, item
            return
    raise DataError(f"{source_name(name)}: found no list under 'data' or 'contexts', expected "
                    "BioBIT's file of curated maskings")


def _target(original: Any, masked: Any, place: str) -> str:
    """Find the word of `original` behind the mask, without the punctuation around it."""
    if not isinstance(original, str) or not isinstance(masked, str):
        raise RecordError(place, "found no text under 'original' or in the list of maskings",
                          {"original": original, "masked": masked})
    if masked.count(MASK) != 1:
        raise RecordError(place, f"found {masked.count(MASK)} {MASK}, expected exactly one",
                          {"original": original, "masked": masked})
    target = (_cut(original, masked) or _aligned(original, masked)).strip(_AROUND)
    if not target.strip():
        raise RecordError(place, f"found no word of the original at {MASK}, expected the masking "
                                 "to differ from the original in one word",
                          {"original": original, "masked": masked})
    return target


def _cut(original: str, masked: str) -> str:
    """Cut out the text between the parts before and after the mask, if both are there."""
    before, after = masked.split(MASK)
    found = re.fullmatch(f"{re.escape(before)}(.+){re.escape(after)}", original, re.DOTALL)
    if found is None and before and after:
        found = re.search(f"{re.escape(before)}(.+?){re.escape(after)}", original, re.DOTALL)
    return found[1] if found else ""


def _aligned(original: str, masked: str) -> str:
    """The word that stands at the mask once the words of both texts are set against each other.

    Needed where the masking departs from the original elsewhere, be it by a letter.
    """
    ours, theirs = masked.split(), original.split()
    at = next(place for place, word in enumerate(ours) if MASK in word)
    for kind, start, end, their_start, their_end in SequenceMatcher(
            None, ours, theirs, autojunk=False).get_opcodes():
        if kind == "replace" and start <= at < end:
            words = theirs[their_start + at - start:their_end - (end - 1 - at)]
            before, after = ours[at].split(MASK)
            return " ".join(words).removeprefix(before).removesuffix(after)
    return ""
