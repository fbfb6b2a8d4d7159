"""Accounts of characters: every one of a source is in a record, or in a class that was left out.

The reader of a format takes no part in its account. The source is read a second time, by another
parser, into pieces of text; those that are in no class of what is left out are then followed
through the records, white space aside. So text that a reader drops, doubles or makes up shows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from operator import eq

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
    """

    place: str
    text: str
    added: bool = False
    left_out: str = ""


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


_Ways = dict[int, Counter[str]]
"""Ways to read a record so far: where each goes on, and what it counted."""


@dataclass
class _Matching:
    """State of the walk through the pieces of a source and the records made of it.

    As some text may be left out, a record can be read in several ways for a while; all are
    followed.
    """

    pieces: Iterator[Piece]
    name: str
    counts: Counter[str]
    signs: str
    signs_are: str
    signs_in: str
    text: str = ""  # of records, as far as a way has not read it
    ways: _Ways = field(default_factory=lambda: {0: Counter()})

    def follow(self, text: str) -> None:
        """Find the text of a record in the next pieces."""
        read = min(self.ways)
        self.text = self.text[read:] + text
        self.ways = {at - read: counts for at, counts in self.ways.items()}
        while len(self.text) not in self.ways:
            piece = next(self.pieces, None)
            if piece is None:
                raise self._made_up()
            self._read(piece)

    def end(self) -> None:
        """Refuse what is left of the source, but for what may be left out."""
        for piece in self.pieces:
            self._read(piece)
        if len(self.text) not in self.ways:
            raise self._made_up()
        self.counts.update(self.ways[len(self.text)])

    def _read(self, piece: Piece) -> None:
        """Take the next piece of the source into account."""
        at, counts = next(iter(self.ways.items()))
        if len(self.ways) == 1 and not (piece.added or piece.left_out or self.signs) \
                and self.text.startswith(piece.text, at):
            counts[IN_RECORDS] += len(piece.text)
            self.ways = {at + len(piece.text): counts}
            return
        may_be_absent = piece.added or bool(piece.left_out)
        ways = self._in_record(piece, may_be_absent)
        if may_be_absent:
            left_out = Counter({LEFT_OUT.format(piece.left_out): len(piece.text)}
                               if piece.left_out else {})
            ways |= {at: counts + left_out for at, counts in self.ways.items()}
        self.ways = _fewer(ways)

    def _in_record(self, piece: Piece, may_be_absent: bool) -> _Ways:
        """Return the ways to read a record up to the end of a piece, whose signs may be absent.

        Raises:
            DataError: there are none, and the piece may not be absent; names the first of its
                characters that the record does not have.
        """
        signs = self.signs if self.signs_in in piece.place and not piece.added else ""
        parts = re.split(f"([{re.escape(signs)}])", piece.text) if signs else [piece.text]
        kept_as, sign = ADDED if piece.added else IN_RECORDS, LEFT_OUT.format(self.signs_are)
        ways, read = self.ways, 0
        for part in filter(None, parts):
            further: _Ways = {}
            for at, counts in ways.items():
                if self.text.startswith(part, at):
                    further.setdefault(at + len(part), counts + Counter({kept_as: len(part)}))
                if part in signs:
                    further.setdefault(at, counts + Counter({sign: 1}))
            if not (further or may_be_absent):
                found = self.text[max(ways):]
                alike = sum(takewhile(bool, map(eq, part, found)))
                raise _unaccounted(piece.place, piece.text[read + alike:], found[alike:])
            ways, read = _fewer(further), read + len(part)
        return ways

    def _made_up(self) -> DataError:
        return DataError(f"{self.name}: found the text {_sample(self.text[max(self.ways):])} in a "
                         "record at its end, expected each character of the file once; please "
                         f"report it, and leave out {setting('account')} to go on")


def _fewer(ways: _Ways) -> _Ways:
    """Keep some of many ways: in long runs of signs, about all or about none are there."""
    if len(ways) <= 4 * _WAYS:
        return ways
    ordered = sorted(ways)
    return {at: ways[at] for at in (*ordered[:_WAYS], *ordered[-_WAYS:])}


def _unaccounted(place: str, text: str, found: str) -> DataError:
    instead = f"where the record has {_sample(found)}" if found else "at the end"
    return DataError(f"{place}: the text {_sample(text)} is not accounted for, {instead}; "
                     "expected it in a record or in a class that is left out; report it, unless "
                     f"the file is damaged there, and leave out {setting('account')} to go on")


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
