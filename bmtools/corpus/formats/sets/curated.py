"""Sentences whose words were masked by hand, in BioBIT's layout."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

from bmtools.corpus.formats.tally import Tally, reader
from bmtools.errors import DataError, RecordError
from bmtools.io.folders import read_json
from bmtools.io.sources import source_name
from bmtools.records import MASK, JsonObject, Record

_PUNCTUATION = ".,;:!?()[]{}\"'«»“”‘’…"  # noqa: RUF001


@reader
def curated_records(names: Iterable[str], tally: Tally, unmasked: bool = False, windows: int = 0,
                    ) -> Iterator[Record]:
    """Yield one record for every masking, with the masked word as `target`.

    Source: Buonocore et al. 2023, the Italian benchmark for mean reciprocal rank. Both files are
    supported. In one file, `data` contains sentences with `original`, `masked`, `type` and
    `source`. In the other, `contexts` contains longer texts with `original` and `masks`. Ids are
    `SENTENCE-MASKING`, both counted from zero, with a `w` before ids from `contexts`. Each file is
    kept in memory.

    Args:
        names: JSON files, compressed or not; `-` for stdin.
        unmasked: yield one record for every sentence in `original`, on which the authors score
            pseudo-perplexity.
        windows: also yield each masking with 1, 2 and up to this number of lines of its text on
            either side; `window` and the end of the id state the number.
        tally: rejects a masking whose word cannot be found, or a sentence without `original`.
    """
    for name in names:
        for sentence, item, maskings, keys in _items(name):
            for number, masked in enumerate([None] if unmasked else maskings):
                own = sentence if unmasked else f"{sentence}-{number}"
                place, original = f"{source_name(name)} ({own})", item.get("original")
                with tally.rejecting():
                    if not unmasked:
                        more = {"text": masked, "target": _target(original, masked, place)}
                        for width, text in _widened(item, str(masked), windows, place):
                            yield Record(id=f"{own}-{width}", **more | {"text": text}, **keys,
                                         window=width, meta={"document": sentence}, place=place)
                        if windows:
                            continue
                    elif isinstance(original, str):
                        more = {"text": original}
                    else:
                        raise RecordError(place, "found no text under 'original'", item)
                    yield Record(id=own, **more, **keys, place=place)


def _items(name: str) -> Iterator[tuple[str, JsonObject, list[object], dict[str, str]]]:
    """Yield a file's sentences: id, content, maskings, and the keys that their records keep."""
    content = read_json(name, "one object with 'data' or 'contexts'")
    if content is None:
        return
    found = content if isinstance(content, dict) else {}
    key = next((key for key in ("data", "contexts") if isinstance(found.get(key), list)), None)
    if key is None:
        raise DataError(f"{source_name(name)}: found no list under 'data' or 'contexts', expected "
                        "BioBIT's file of curated maskings")
    for number, item in enumerate(found[key]):
        if not isinstance(item, dict):
            raise DataError(f"{source_name(name)}: {key}[{number}]: found {item!r:.40}, "
                            "expected an object with 'original' and 'masked'")
        maskings = item.get("masked", item.get("masks", []))
        if not isinstance(maskings, list):
            raise DataError(f"{source_name(name)}: {key}[{number}]: found {maskings!r:.40} under "
                            "'masked', expected a list of maskings")
        keys = {"domain": item.get("type"), "source": item.get("source")}
        yield (f"{'w' * (key == 'contexts')}{number}", item, maskings,
               {name: value for name, value in keys.items() if value})


def _target(original: object, masked: object, place: str) -> str:
    """Find the word of `original` at the mask, without the punctuation around it."""
    if not isinstance(original, str) or not isinstance(masked, str):
        fault = "found no text under 'original' or in the list of maskings"
    elif masked.count(MASK) != 1:
        fault = f"found {masked.count(MASK)} {MASK}, expected exactly one"
    elif (target := _masked_words(original, masked).strip(_PUNCTUATION)).strip():
        return target
    else:
        fault = (f"found no word of the original at {MASK}, expected the masking to differ from "
                 "the original in one word")
    raise RecordError(place, fault, {"original": original, "masked": masked})


def _widened(item: JsonObject, masked: str, windows: int, place: str) -> Iterator[tuple[int, str]]:
    """Yield a masking with 0 to `windows` lines of its text before and after it, and the number."""
    whole = masked.replace(MASK, _masked_words(item["original"], masked))
    before, found, after = item["original"].partition(whole)
    if windows and not (found and before + after):
        raise RecordError(place, "found no text around the masking under 'original', expected "
                                 "a text of several lines that contains it", item)
    earlier, later = before.splitlines(), after.removeprefix("\n").splitlines()
    for width in range(windows + 1 if windows else 0):
        yield width, "\n".join([*earlier[max(len(earlier) - width, 0):], masked, *later[:width]])


def _masked_words(original: str, masked: str) -> str:
    """Return the original's text between the parts before and after the mask.

    If the masking also differs from the original in other places, the words of both are aligned.
    """
    before, after = masked.split(MASK)
    start, end = re.escape(before), re.escape(after)
    found = re.fullmatch(f"{start}(.+){end}", original, re.DOTALL)
    if found is None and before and after:
        found = re.search(f"{start}(.+?){end}", original, re.DOTALL)
    if found is not None:
        return found[1]
    words, others = masked.split(), original.split()
    at = next(number for number, word in enumerate(words) if MASK in word)
    before, after = words[at].split(MASK)
    for kind, first, last, other_first, other_last in SequenceMatcher(
            None, words, others, autojunk=False).get_opcodes():
        if kind == "replace" and first <= at < last:
            aligned = others[other_first + at - first:other_last - (last - 1 - at)]
            return " ".join(aligned).removeprefix(before).removesuffix(after)
    return ""
