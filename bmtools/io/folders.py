"""Files of a set: in folders and zip archives, by paths that lead into both."""

from __future__ import annotations

import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO

import msgspec

from bmtools.errors import DataError
from bmtools.io.foreign import not_utf8
from bmtools.io.json_files import parse_json
from bmtools.io.output import RECORD
from bmtools.io.record_size import (
    MEGABYTE,
    check_record_size,
    limited_bytes,
    limiting_records,
    most_bytes,
)
from bmtools.io.sources import STDIN, MemberName, open_text, read_lines, source_name
from bmtools.records import readable

# What zipfile and tarfile raise at damaged archives, and at encrypted ones.
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError,
           RuntimeError, ValueError, OverflowError, OSError)
_PACKED = (".gz", ".zst", ".zstd")


def set_files(names: Iterable[str], *endings: str) -> Iterator[str]:
    """Yield the names of a set's files: those that are given, and those in folders and archives.

    Names in an archive can be read as long as the next one is not asked for.

    Args:
        names: files, folders, zip archives, or folders in these (`set.zip/train`); `-` for stdin.
        endings: of the files that are taken from folders and archives, as `.xml`.

    Raises:
        DataError: a folder without such a file, or a damaged archive.
    """
    for name in names:
        archive = archive_of(name)
        if archive is not None:
            yield from _archived(archive, path_in(archive, name), endings)
        elif name != STDIN and Path(name).is_dir():
            found = [path for path in sorted(Path(name).rglob("*"), key=_order)
                     if path.is_file() and _is_wanted(path.relative_to(name), endings)]
            if not found:
                raise _no_files(name, endings)
            yield from map(str, found)
        else:
            yield name


def exists(name: str) -> bool:
    """Tell whether a path leads to a file, in an archive too."""
    archive = archive_of(name)
    if archive is None or archive == Path(name):
        return Path(name).is_file()
    with naming_damage(archive), zipfile.ZipFile(archive) as opened:
        return path_in(archive, name) in opened.namelist()


def member_ending(name: str) -> str:
    """Return the ending of a name, without that of a packed file: `.xml` of `a.xml.gz`."""
    path = PurePosixPath(name)
    return PurePosixPath(path.stem).suffix if path.suffix in _PACKED else path.suffix


def is_hidden(path: PurePath) -> bool:
    """Tell whether a path is one of those that macOS and editors leave, or a record of a step."""
    return f".{path.name}".endswith(RECORD) or any(part.startswith((".", "__MACOSX"))
                                                   for part in path.parts)


def archive_of(name: str) -> Path | None:
    """Return the zip archive that a path leads to or into; None where there is none."""
    path = Path(name)
    found = next((one for one in (path, *path.parents) if one.is_file()), None)
    return found if found is not None and zipfile.is_zipfile(found) else None


def path_in(archive: Path, name: str) -> str:
    """Return the path in an archive that a name leads to; empty where it is the archive."""
    return "/".join(Path(name).relative_to(archive).parts)


def read_text(name: str) -> str:
    """Read a file whole, as UTF-8 with LF at the ends of lines.

    Raises:
        DataError: it is not UTF-8, or larger than a record may be.
    """
    lines, size = [], 0
    for _, line in read_lines(name):
        lines.append(line)
        size += len(line) + 1
        check_record_size(size, source_name(name))
    return "\n".join(lines)


def read_raw(name: str) -> str:
    """Read a file whole, as UTF-8, with the ends of lines as they are, which offsets count.

    Raises:
        DataError: it is not UTF-8, or larger than a record may be.
    """
    with open_text(name) as stream:
        content = limited_bytes(stream, source_name(name))
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content[content.rfind(b"\n", 0, error.start) + 1:].partition(b"\n")[0]
        number = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{source_name(name)}:{number}: "
                        f"{not_utf8(line, _fault(line), source_name(name))}") from error


def _fault(line: bytes) -> UnicodeDecodeError:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return error
    raise AssertionError("the line is UTF-8")


def read_json(name: str, expected: str, shape: Any = Any, records: int = 1) -> Any:
    """Read a JSON file whole.

    Args:
        name: of the file; `-` for stdin.
        expected: what the file should hold, for messages.
        shape: type of its content, as far as that is needed.
        records: largest records whose size it may have.

    Returns:
        its content; None where it is blank.

    Raises:
        DataError: it is no JSON, or of another shape.
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


def _archived(archive: Path, folder: str, endings: tuple[str, ...]) -> Iterator[str]:
    with naming_damage(archive), zipfile.ZipFile(archive) as opened:
        members = sorted((member for member in opened.namelist() if not member.endswith("/")),
                         key=_order)
        wanted = [folder] if folder in members else [
            member for member in members if member.startswith(f"{folder}/" if folder else "")
            and _is_wanted(PurePosixPath(member), endings)]
        if not wanted:
            raise _no_files(f"{archive}/{folder}" if folder else str(archive), endings)
        for member in wanted:
            yield MemberName(f"{archive}/{member}", partial(_open_member, opened, member))


def _open_member(archive: zipfile.ZipFile, member: str) -> BinaryIO:
    """Unpack a file of an archive, which may be no larger than a record."""
    place = f"{archive.filename}/{member}"
    check_record_size(archive.getinfo(member).file_size, place)
    with naming_damage(place):
        return io.BufferedReader(io.BytesIO(archive.read(member)))


@contextmanager
def naming_damage(place: object) -> Iterator[None]:
    """Name the archive, or the file in it, that cannot be read.

    Raises:
        DataError: see above.
    """
    try:
        yield
    except _DAMAGE as error:
        raise DataError(f"{place}: this archive cannot be read ({error}); unpack it, or copy or "
                        "download it again") from error


def _order(path: Path | str) -> tuple[object, ...]:
    """Sort by folder and name without ending, so that files of one document are neighbours."""
    found = PurePosixPath(path)
    ending = member_ending(str(path))
    return found.parent.parts, found.name[:found.name.rindex(ending)] if ending else found.name, \
        ending


def _is_wanted(path: PurePath, endings: tuple[str, ...]) -> bool:
    """Tell whether a file has the ending, packed or not, and is not hidden."""
    return member_ending(str(path)).lower() in endings and not is_hidden(path)


def _no_files(name: str, endings: tuple[str, ...]) -> DataError:
    return DataError(f"{name}: found no file in {' or '.join(endings)}, expected one at least")
