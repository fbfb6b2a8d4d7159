"""Files in folders and archives, streamed without unpacking, and files read completely."""

from __future__ import annotations

import io
import lzma
import os
import re
import struct
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO

import msgspec

from bmtools.errors import DataError
from bmtools.io.failures import NamedStream, readable_name
from bmtools.io.foreign import not_utf8
from bmtools.io.json_files import parse_json
from bmtools.io.output import RECORD
from bmtools.io.record_size import MEGABYTE, limited_bytes, limiting_records, most_bytes
from bmtools.io.sources import STDIN, MemberName, open_bytes, open_text, source_name
from bmtools.records import readable

# Errors that zipfile and tarfile raise for damaged and encrypted archives.
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError,
           RuntimeError, ValueError, OverflowError, OSError)
_CARRIAGE_RETURNS = re.compile("\r+\n|\r")
_PACKED = (".gz", ".zst", ".zstd")
_UTF8_NAME = 0x800  # flag of a file name in a zip archive
_MOST_HEADER_BYTES = 1 << 20  # of extended headers, which tarfile loads into memory
_MOST_RATIO = 200  # of unpacked to packed size; for XML it is rarely above 20
_EXTENDED = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME,
             tarfile.GNUTYPE_LONGLINK)


Order = Callable[[str], Any]
"""Returns the sort key of a file name."""


def set_files(names: Iterable[str], *endings: str, counts: Counter[str]) -> Iterator[str]:
    """Yield the names of a set's files: the given files, and files in given folders and archives.

    A name in an archive can be opened until the next name is requested. Files of one document
    follow each other.

    Args:
        names: as for `corpus_files`.
        endings: endings of the files to read from folders and archives, such as `.xml`.
        counts: counts skipped files by reason.

    Raises:
        DataError: a folder contains no such file, or an archive is damaged.
    """
    for name in names:
        found = iter([name]) if name == STDIN else \
            corpus_files(name, *endings, counts=counts, order=_order)
        first = next(found, None)
        if first is None:
            raise DataError(f"{Path(name)}: found no file in {' or '.join(endings)}, expected "
                            "at least one")
        yield first
        yield from found


def corpus_files(name: str, *endings: str, counts: Counter[str], folder: str = "",
                 order: Order = str) -> Iterator[str]:
    """Yield the names of the files behind a name, in bounded memory.

    A file in an archive can be opened until the next name is requested. Nothing is written: paths
    out of the archive, links and devices are skipped and counted.

    Args:
        name: a file, a folder, a zip archive, a tar archive (also compressed with gzip or zstd), a
            folder in a zip archive, or `-` for stdin, which may be a tar archive.
        endings: endings of the files to read from folders and archives, such as `.xml`; other files
            are counted. Without endings all files are read.
        counts: counts skipped files by reason.
        folder: folder in which `folder_files` found the file, if it did.
        order: returns the sort key for files of a folder or a zip archive.

    Raises:
        DataError: an archive is damaged, or unpacks to far more bytes than text does.
    """
    if isinstance(name, MemberName):
        yield name
        return
    # An EPUB is also a zip archive.
    is_document = member_ending(name).lower() in endings and Path(name).is_file()
    archive = None if folder or is_document or name == STDIN else archive_of(name)
    if archive is not None:
        found = _zip_files(archive, path_in(archive, name), counts, order)
    elif folder or (name != STDIN and Path(name).is_dir()):
        found = (file for file in ([name] if folder else folder_files(name, order))
                 if _passes(Path(file).relative_to(folder or name), Path(file).is_file(), counts))
    else:
        with open_bytes(name) as stream:
            head = stream.peek(tarfile.BLOCKSIZE)  # type: ignore[attr-defined]
            if is_tar(head):
                yield from _wanted(_tar_files(stream, source_name(name), counts), name, endings,
                                   counts)
                return
            if name == STDIN:
                yield MemberName(STDIN, lambda: stream)
                return
        found = iter([name])
    yield from _wanted(found, folder or name, endings, counts)


def folder_files(folder: str, order: Order = str) -> Iterator[str]:
    """Yield the names of all files in a folder and its subfolders, sorted."""
    for parent, folders, files in os.walk(folder):
        folders.sort()
        yield from (str(Path(parent, file)) for file in sorted(files, key=order))


def is_tar(head: bytes) -> bool:
    """Return whether content begins with a tar header, according to its checksum."""
    try:
        tarfile.TarInfo.frombuf(head[:tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return False
    return True


def exists(name: str) -> bool:
    """Return whether a path leads to a file, on disk or in an archive."""
    archive = archive_of(name)
    if archive is None or archive == Path(name):
        return Path(name).is_file()
    with naming_damage(archive), zipfile.ZipFile(archive) as opened:
        return path_in(archive, name) in map(member_path, opened.infolist())


def member_path(member: zipfile.ZipInfo) -> str:
    """Return the path of a file in a zip archive.

    The name is read as UTF-8 if it is valid UTF-8, even without the flag; otherwise as code page
    437.
    """
    try:
        # zipfile decodes names without the flag as code page 437.
        return member.filename if member.flag_bits & _UTF8_NAME else \
            member.filename.encode("cp437").decode()
    except UnicodeError:
        return member.filename


def member_ending(name: str) -> str:
    """Return the ending of a name without the ending for compression: `.xml` for `a.xml.gz`."""
    path = PurePosixPath(name)
    return PurePosixPath(path.stem).suffix if path.suffix in _PACKED else path.suffix


def is_hidden(path: PurePath) -> bool:
    """Return whether a path is hidden, belongs to macOS's metadata, or is a record of a step."""
    return f".{path.name}".endswith(RECORD) or any(part.startswith((".", "__MACOSX"))
                                                   for part in path.parts)


def archive_of(name: str) -> Path | None:
    """Return the zip archive that a path names or leads into; None if there is none."""
    path = Path(name)
    found = next((one for one in (path, *path.parents) if one.is_file()), None)
    return found if found is not None and zipfile.is_zipfile(found) else None


def path_in(archive: Path, name: str) -> str:
    """Return the path inside an archive that a name leads to; empty for the archive itself."""
    return "/".join(Path(name).relative_to(archive).parts)


def read_text(name: str) -> str:
    """Read a complete file as UTF-8, with LF at line ends and without the last line end."""
    return _CARRIAGE_RETURNS.sub("\n", read_raw(name)).removesuffix("\n")


def read_raw(name: str) -> str:
    """Read a complete file as UTF-8, with unchanged line ends, so that offsets stay correct.

    Raises:
        DataError: the file is not UTF-8, or larger than a record may be.
    """
    with open_text(name) as stream:
        content = limited_bytes(stream, source_name(name))
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        start = content.rfind(b"\n", 0, error.start) + 1
        line, number = content[start:].partition(b"\n")[0], content.count(b"\n", 0, start) + 1
        raise DataError(f"{source_name(name)}:{number}: " + not_utf8(
            line, error.start - start, source_name(name))) from error


def read_json(name: str, expected: str, shape: Any = Any, records: int = 1) -> Any:
    """Read a complete JSON file.

    Args:
        name: of the file; `-` for stdin.
        expected: the expected content, for messages.
        shape: type of the content, as far as the caller uses it.
        records: allows the size of this many records of maximum size.

    Returns:
        the content; None if the file is blank.

    Raises:
        DataError: the file is not JSON, or its content has another type.
    """
    with limiting_records(records * most_bytes() // MEGABYTE):
        content = whole_json(read_text(name), name, expected)
    try:
        return content if content is None else msgspec.convert(content, shape)
    except msgspec.ValidationError as error:
        raise DataError(f"{source_name(name)}: {readable(str(error))}; "
                        f"expected {expected}") from error


def whole_json(text: str, name: str, expected: str) -> Any:
    """Parse the text of a JSON file; see `read_json`."""
    if not text.strip():
        return None
    try:
        return parse_json(text, repeats=False)
    except ValueError as error:
        line, fault = getattr(error, "lineno", 1), getattr(error, "msg", error)
        raise DataError(f"{source_name(name)}:{line}: not JSON ({fault}); expected "
                        f"{expected}") from error


@contextmanager
def naming_damage(place: object) -> Iterator[None]:
    """Add the name of an archive, or of a file in it, to the errors of a block that reads it.

    Raises:
        DataError: the archive is damaged.
    """
    try:
        yield
    except _DAMAGE as error:
        raise DataError(f"{readable_name(str(place))}: this archive cannot be read ({error}); "
                        "unpack it, or copy or download it again") from error


def _order(path: str) -> tuple[object, ...]:
    """Sort by folder and name without ending, so that files of one document are neighbours."""
    found, ending = PurePosixPath(path), member_ending(path)
    return found.parent.parts, found.name[:found.name.rindex(ending)] if ending else found.name, \
        ending


def _wanted(found: Iterator[str], name: str, endings: tuple[str, ...],
            counts: Counter[str]) -> Iterator[str]:
    """Yield the files with one of the endings, and a file that the user named."""
    for one in found:
        if not endings or member_ending(one).lower() in endings or one in (name, str(Path(name))):
            yield one
        else:
            counts[f"files that do not end in {' or '.join(endings)} passed over"] += 1


def _passes(path: PurePath, is_file: bool, counts: Counter[str]) -> bool:
    """Return whether to read a member of a folder or archive; count it if not."""
    if path.is_absolute() or ".." in path.parts:
        counts["files with a path outside their archive passed over"] += 1
    elif not is_file:
        counts["links and devices passed over"] += 1
    elif is_hidden(path):
        counts["hidden files passed over"] += 1
    else:
        return True
    return False


def _zip_files(archive: Path, folder: str, counts: Counter[str], order: Order) -> Iterator[str]:
    with naming_damage(archive), zipfile.ZipFile(archive) as opened:
        for member in sorted(opened.infolist(), key=lambda member: order(member_path(member))):
            own = member_path(member)
            path, place = PurePosixPath(own), f"{archive}/{own}"
            if member.is_dir() or (folder and not path.is_relative_to(folder)):
                continue
            if _passes(path, member.external_attr >> 28 in (0, 8), counts):
                yield _member(place, partial(_unzipped, opened, member, place))


def _unzipped(archive: zipfile.ZipFile, member: zipfile.ZipInfo, place: str) -> Any:
    if member.file_size > max(most_bytes(), _MOST_RATIO * member.compress_size):
        raise DataError(f"{place}: found a file that unpacks to {member.file_size} bytes, more "
                        f"than {_MOST_RATIO} times its compressed size, expected text; unpack it "
                        "if you trust it")
    return archive.open(member)


def _tar_files(stream: BinaryIO, name: str, counts: Counter[str]) -> Iterator[str]:
    with naming_damage(name), _Tar.open(fileobj=stream, mode="r|") as opened:
        for member in iter(opened.next, None):
            opened.members.clear()  # type: ignore[attr-defined] # the list grows with the archive
            path = PurePosixPath(member.name)
            if not member.isdir() and _passes(path, member.isreg(), counts):
                yield _member(f"{name}/{path}", partial(opened.extractfile, member))


def _member(place: str, opener: Callable[[], Any]) -> MemberName:
    return MemberName(place, lambda: io.BufferedReader(
        NamedStream(opener, partial(naming_damage, place))))


class _Header(tarfile.TarInfo):
    """Header of a tar archive; raises where tarfile takes a damaged header for the end."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        """Parse a header.

        Raises:
            tarfile.HeaderError: it is not a header, or announces names of more than a megabyte.
        """
        found = super().frombuf(buf, encoding, errors)
        if found.type in _EXTENDED and found.size > _MOST_HEADER_BYTES:
            raise tarfile.HeaderError("header of more than a megabyte")
        if found.type == tarfile.GNUTYPE_SPARSE:  # its list of holes has no limit
            raise tarfile.HeaderError("sparse file")
        return found

    @classmethod
    def fromtarfile(cls, archive: Any) -> _Header:
        """Read the next header.

        Raises:
            tarfile.ReadError: the archive is damaged, or ends without an end mark.
        """
        try:
            found: _Header = super().fromtarfile(archive)
            return found
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            archive.has_ended = True
            raise
        except tarfile.EmptyHeaderError as error:  # type: ignore[attr-defined]
            if not archive.has_ended:
                raise tarfile.ReadError("it is cut off") from error
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from error


class _Tar(tarfile.TarFile):
    """Tar archive, or several tar archives joined to one file."""

    tarinfo = _Header
    ignore_zeros = True
    has_ended = False
