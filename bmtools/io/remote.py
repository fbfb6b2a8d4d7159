"""Files at URLs, with fsspec: records are streamed, other inputs cached, outputs uploaded.

fsspec is imported and a connection is opened only if there is a URL.
"""

from __future__ import annotations

import hashlib
import io
import posixpath
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bmtools.errors import BmtoolsError, DataError, setting
from bmtools.installation import require_extra
from bmtools.io.directories import cache_directory, cached
from bmtools.io.failures import NamedStream, reading, with_urls
from bmtools.io.output import RECORD
from bmtools.io.unfinished import BESIDE

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_EXTRAS = {"s3": ("s3fs", "s3"), "gs": ("gcsfs", "gs"), "http": ("aiohttp", "http"),
           "https": ("aiohttp", "http")}
_LAST = ("config.json", "bmtools.json")
"""A directory without these files is not a checkpoint and not complete."""


def open_url(url: str) -> io.BufferedReader:
    """Open a file as a stream for reading."""
    with _connected(url) as (file_system, path):
        return io.BufferedReader(NamedStream(partial(file_system.open, path, "rb"),
                                             partial(_connected, url)))


def size_of(url: str) -> int:
    """Return the size of a file in bytes; raise an error if it does not exist."""
    with _connected(url) as (file_system, path):
        return int(file_system.info(path)["size"])


def fetched(url: str) -> Path:
    """Return a local copy of a file with its record, or of a directory, from the user's cache.

    A file that has changed at the URL is copied again, under another name. The name of a directory
    on a web server ends with a slash.

    Raises:
        DataError: the URL does not exist or cannot be read.
    """
    with _connected(url) as (file_system, path):
        files = {one: file_system.info(one) for one in (path, path + RECORD)
                 if not url.endswith("/") and file_system.isfile(one)} \
            or file_system.find(path + "/", detail=True)
        if not files:
            raise FileNotFoundError(path)
        place, name = _local(url, str(files))
        return cached(place, lambda made: _get(file_system, path, files, made / name)) / name


def staged(url: str) -> Path:
    """Return the local path of an output until `upload`."""
    return cache_directory().joinpath(*_local(url, ""))


def prepare(target: Path, resume: bool, overwrite: bool) -> None:
    """Check that an output of `staged` can be uploaded, and download an unfinished run.

    Raises:
        BmtoolsError: the output exists and may not be replaced, or cannot be written.
    """
    url = with_urls(str(target))
    with _connected(url, "cannot be written") as (file_system, path):
        for ending in ("", *BESIDE) if resume else ():
            copy = Path(f"{target}{ending}")
            if not copy.exists() and file_system.exists(path + ending):
                _get(file_system, path + ending, file_system.find(path + ending), copy)
        if not (resume or overwrite) and file_system.exists(path):
            raise BmtoolsError(f"{url} exists; give another name, or {setting('overwrite')} to "
                               "replace it")
        if not url.startswith("hf://"):  # where each file is a commit
            file_system.pipe_file(path + ".probe", b"")
            file_system.rm_file(path + ".probe")


def upload(target: Path) -> Iterator[str]:
    """Upload an output of `staged` and its unfinished run, delete them here, and yield their URLs.

    The files that mark a directory as complete are removed first and uploaded last.

    Raises:
        DataError: the output cannot be written; the local files are kept.
    """
    url = with_urls(str(target))
    found = [one for one in ("", RECORD, *BESIDE) if Path(f"{target}{one}").exists()]
    with _connected(url, f"cannot be written, and is in {target}") as (file_system, path):
        for ending in ("", RECORD, *BESIDE) if "" in found else found:
            there = path + ending
            for old in sorted(file_system.find(there) if file_system.exists(there) else (),
                              key=lambda name: not name.endswith(_LAST)):
                file_system.rm_file(old)
        for one in [Path(f"{target}{ending}") for ending in found]:
            files = [file for file in (one, *one.rglob("*")) if file.is_file()]
            for file in sorted(files, key=lambda file: file.name.endswith(_LAST)):
                file_system.put_file(str(file), path + str(file).removeprefix(str(target)))
            shutil.rmtree(one) if one.is_dir() else one.unlink()
            yield url + str(one).removeprefix(str(target))


def _get(file_system: AbstractFileSystem, path: str, names: Iterable[str], target: Path) -> None:
    """Copy the files under a path to a local directory; skip names that lead outside."""
    inside = [name for name in names if "/../" not in name]
    file_system.get(inside, [f"{target}{name.removeprefix(path)}" for name in inside])


def _local(url: str, content: str) -> tuple[str, str]:
    """Return a directory of the cache, and the path of a copy in it."""
    name = posixpath.normpath(with_urls(url).replace("://", "/", 1).replace("/../", "/"))
    return f"remote/{hashlib.sha256(f'{name} {content}'.encode()).hexdigest()[:16]}", name


@contextmanager
def _connected(url: str, fault: str = "cannot be read") -> Iterator[tuple[AbstractFileSystem, str]]:
    """Yield the file system of a URL and its path there; name the URL in errors of the block.

    Raises:
        DataError: names the URL, the fault and the fix.
    """
    shown = with_urls(url)
    if needed := _EXTRAS.get(url.partition("://")[0]):
        require_extra(needed[0], shown, needed[1])
    from fsspec.core import url_to_fs

    with reading(shown, fault, "check the name, the network and your credentials", DataError):
        try:
            file_system, path = url_to_fs(url)
            yield file_system, path.rstrip("/")
        except FileNotFoundError as error:
            raise DataError(f"{shown}: found no such file, directory or bucket, expected one; "
                            "check the name") from error
