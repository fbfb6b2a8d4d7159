"""Accounts of characters: every one of a source is in a record, or in a class that was left out.

The reader of a format takes no part in its account. The source is read a second time, by another
parser, into pieces of text; those that are in no class of what is left out are then followed
through the records, white space aside. So text that a reader drops, doubles or makes up shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from bmtools.errors import DataError, setting
from bmtools.io.sources import open_bytes, source_name
from bmtools.records import Record

IN_RECORDS = "characters in records"
LEFT_OUT = "characters left out as {}"
ADDED = "characters added"
_SAMPLE = 60  # characters
_WAYS = 16  # to read a record, from either end of them


# A reader may write the exponent of `10<sup>6</sup>` by characters of its own.
SUPERSCRIPTS = str.maketrans("0123456789+-\u2212\u2013", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
_PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻\u2212\u2013", "0123456789+---")


def squeezed(text: str) -> str:
    """Remove white space, which readers set as they like, and raise or lower no number."""
    text = "".join(text.split())
    return text if text.isascii() else text.translate(_PLAIN)


@dataclass
class Piece:
    """Text of a source that records should have.

    Args:
        place: `file:line: path/of/elements`.
        text: without white space.
        added: whether it stands in no text node, and may be absent from the record.
        left_out: class of text that may be absent, as of citations; empty for all other.
        parts: of what may come later in the record than in the source, as a caption.
        unit: number of the element of `XmlClasses.units` that it is in.
    """

    place: str
    text: str
    added: bool = False
    left_out: str = ""
    parts: list[Piece] = field(default_factory=list)
    unit: int = 0


def accounted(records: Iterable[Record], pieces: Iterable[Piece], name: str,
              counts: Counter[str], signs: str = "", signs_are: str = "",
              signs_in: str = "") -> Iterator[Record]:
    """Yield the records of a source, and prove that they hold its text, in order and once.

    Args:
        records: as the reader yields them.
        pieces: of the source, without what is left out; see `xml_account.xml_pieces`.
        name: of the source in messages.
        counts: counts the characters in records, and those that readers added.
        signs: characters that a reader may leave out, as brackets around citations.
        signs_are: class of these.
        signs_in: element that has them; empty for all.

    Raises:
        DataError: text in no record, or text of a record that the source does not have there.
    """
    matching = _Matching(iter(pieces), name, counts, signs, signs_are, signs_in)
    for record in records:
        matching.follow(squeezed(record.get("title", "")) + squeezed(record["text"]))
        yield record
    matching.end()


_Waiting = tuple[int, ...]
_Ways = dict[tuple[int, _Waiting], Counter[str]]
"""Ways to read a record so far: where it goes on, the pieces that wait, what was counted."""


@dataclass
class _Matching:
    """State of the walk through the pieces of a source and the records made of it.

    As some text may be left out or may move, a record can be read in several ways for a while;
    all are followed.
    """

    pieces: Iterator[Piece]
    name: str
    counts: Counter[str]
    signs: str
    signs_are: str
    signs_in: str
    text: str = ""  # of records, as far as a way has not read it
    ways: _Ways = field(default_factory=lambda: {(0, ()): Counter()})
    moving: dict[int, Piece] = field(default_factory=dict)
    moved: int = 0  # pieces that may move, so far

    def follow(self, text: str) -> None:
        """Find the text of a record in the next pieces."""
        read = min(at for at, _ in self.ways)
        self.text = self.text[read:] + text
        self.ways = {(at - read, waiting): counts for (at, waiting), counts in self.ways.items()}
        while not self._whole():
            piece = next(self.pieces, None)
            if piece is None:
                raise self._made_up()
            self._read(piece)
        used = {number for _, waiting in self.ways for number in waiting}
        self.moving = {number: self.moving[number] for number in sorted(used)}

    def end(self) -> None:
        """Refuse what is left of the source, but for what may be left out."""
        for piece in self.pieces:
            self._read(piece)
        whole = self._whole()
        if not whole:
            raise self._made_up()
        waiting = min(whole, key=len)
        self.counts.update(whole[waiting])
        for part in chain.from_iterable(self.moving[number].parts for number in waiting):
            ways = self._after(part, {(0, ()): Counter()}, "") or self._fail(
                part, {(0, ()): Counter()}, "")
            self.counts.update(ways[0, ()])

    def _whole(self) -> dict[_Waiting, Counter[str]]:
        """Return the ways that have read all records so far."""
        self.ways = self._with_moved(self.ways, self.text)
        return {waiting: counts for (at, waiting), counts in self.ways.items()
                if at == len(self.text)}

    def _read(self, piece: Piece) -> None:
        """Take the next piece of the source into account."""
        (at, waiting), counts = next(iter(self.ways.items()))
        if len(self.ways) == 1 and not (waiting or piece.parts or piece.added or piece.left_out) \
                and self.text.startswith(piece.text, at) and not self.signs:
            counts[IN_RECORDS] += len(piece.text)
            self.ways = {(at + len(piece.text), ()): counts}
        elif piece.parts:
            self.moved += 1
            self.moving[self.moved] = piece
            self.ways = {(at, (*waiting, self.moved)): counts
                         for (at, waiting), counts in self.ways.items()}
        else:
            ways = self._with_moved(self.ways, self.text)
            self.ways = self._after(piece, ways, self.text) or self._fail(piece, ways, self.text)

    def _made_up(self) -> DataError:
        at = max(at for at, _ in self.ways)
        return DataError(f"{self.name}: found the text {_sample(self.text[at:])} in a record at "
                         "its end, expected each character of the file once; please report it, "
                         f"and leave out {setting('account')} to go on")

    def _after(self, piece: Piece, ways: _Ways, text: str) -> _Ways:
        """Return the ways to read a record up to the end of a piece."""
        found: _Ways = {}
        size = len(piece.text)
        if not piece.added and self.signs and self.signs_in in piece.place:
            found = self._without_signs(piece.text, ways, text)
        for (at, waiting), counts in ways.items():
            if piece.added or piece.left_out:
                left_out = {LEFT_OUT.format(piece.left_out): size} if piece.left_out else {}
                found.setdefault((at, waiting), counts + Counter(left_out))
            if text.startswith(piece.text, at):
                more = Counter({ADDED if piece.added else IN_RECORDS: size})
                found.setdefault((at + size, waiting), counts + more)
        return _fewer(found)

    def _without_signs(self, piece: str, ways: _Ways, text: str) -> _Ways:
        """Return the ways to read a record up to the end of a piece whose signs may be absent."""
        begun: dict[tuple[int, _Waiting], tuple[int, _Waiting]] = {way: way for way in ways}
        for character in piece:
            is_sign = character in self.signs
            further: dict[tuple[int, _Waiting], tuple[int, _Waiting]] = {}
            for (at, waiting), start in begun.items():
                if text.startswith(character, at):
                    further.setdefault((at + 1, waiting), start)
                if is_sign:
                    further.setdefault((at, waiting), start)
            begun = _fewer(further)
        sign = LEFT_OUT.format(self.signs_are)
        return {(at, waiting): ways[start] + Counter(
            {IN_RECORDS: at - start[0], sign: len(piece) - at + start[0]})
            for (at, waiting), start in begun.items()}

    def _with_moved(self, ways: _Ways, text: str) -> _Ways:
        """Add the ways in which a record goes on with pieces that wait."""
        found, fresh = dict(ways), ways
        while fresh:
            further: _Ways = {}
            for (at, waiting), counts in fresh.items():
                for number in waiting:
                    rest = tuple(one for one in waiting if one != number)
                    inner: _Ways = {(at, rest): counts}
                    for part in self.moving[number].parts:
                        inner = self._with_moved(self._after(part, inner, text), text)
                    further |= {way: more for way, more in inner.items()
                                if way[0] > at and way not in found}
            found |= further
            fresh = further
        return found

    def _fail(self, piece: Piece, ways: _Ways, text: str) -> _Ways:
        """Refuse a piece that no way goes on with.

        Raises:
            DataError: names the first of its characters that the record does not have.
        """
        at = max(at for at, _ in ways)
        signs = self.signs if self.signs_in in piece.place else ""
        alike = 0
        for character in piece.text:
            if text.startswith(character, at):
                at += 1
            elif character not in signs:
                break
            alike += 1
        raise _unaccounted(piece.place, piece.text[alike:], text[at:])


_Value = TypeVar("_Value")


def _fewer(ways: dict[tuple[int, _Waiting], _Value]) -> dict[tuple[int, _Waiting], _Value]:
    """Keep some of many ways: in long runs of signs, about all or about none are there."""
    if len(ways) <= 4 * _WAYS:
        return ways
    ordered = sorted(ways)
    return {way: ways[way] for way in (*ordered[:_WAYS], *ordered[-_WAYS:])}


def _unaccounted(place: str, text: str, found: str = "") -> DataError:
    instead = f"where the record has {_sample(found)}" if found else "at the end"
    return DataError(f"{place}: the text {_sample(text)} is not accounted for, {instead}; "
                     "expected it in a record or in a class that is left out; please report "
                     f"it, and leave out {setting('account')} to go on")


def account_in_words(counts: Counter[str]) -> str:
    """Take what was counted of characters out of the counts, and say it.

    Args:
        counts: of a reader; those of characters are removed.
    """
    prefix = LEFT_OUT.format("")
    left_out = {name.removeprefix(prefix): counts.pop(name) for name in list(counts)
                if name.startswith(prefix)}
    added, kept = counts.pop(ADDED, 0), counts.pop(IN_RECORDS, 0)
    total = kept + sum(left_out.values())
    classes = ", ".join(f"{name} {count:,}" for name, count in sorted(
        left_out.items(), key=lambda item: (-item[1], item[0])))
    share = 100 * kept / max(total, 1)
    return (f"{total:,} characters of text: {kept:,} in records ({share:.1f} %), "
            f"{total - kept:,} left out{classes and f' ({classes})'}, 0 unaccounted for"
            + f"; {added:,} added by the reader" * bool(added))


def _sample(text: str) -> str:
    return repr(text[:_SAMPLE] + "..." * (len(text) > _SAMPLE))


def line_pieces(name: str) -> Iterator[Piece]:
    """Yield the lines of a text."""
    with open_bytes(name) as stream:
        for number, line in enumerate(stream, 1):
            if text := squeezed(line.decode()):
                yield Piece(f"{source_name(name)}:{number}", text)
