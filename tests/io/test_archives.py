"""Files of a corpus, in folders and in zip and tar archives."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from backports import zstd
from damaged import damaged

from bmtools.errors import DataError
from bmtools.io.archives import corpus_files
from bmtools.io.record_size import limiting_records
from bmtools.io.sources import read_lines

FILES = {"b/2.xml": b"two", "a/1.nxml": b"one\r\nmore", "a/3.xml.gz": gzip.compress(b"three"),
         "a/note.txt": b"x", "__MACOSX/a/._1.xml": b"x", "a/.DS_Store": b"\0"}
ALL = {"b/2.xml": ["two"], "a/1.nxml": ["one", "more"], "a/3.xml.gz": ["three"]}
COUNTS = {"files that do not end in .xml or .nxml passed over": 1, "hidden files passed over": 2}


def texts(source: object, *endings: str) -> tuple[dict[str, list[str]], Counter[str]]:
    counts: Counter[str] = Counter()
    found = {name: [line for _, line in read_lines(name)]
             for name in corpus_files(str(source), *endings, counts=counts)}
    return found, counts


def member(name: str, content: bytes = b"x", kind: bytes = tarfile.REGTYPE,
           **keys: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content) if kind == tarfile.REGTYPE else 0
    for key, value in keys.items():
        setattr(info, key, value)
    return info, content


def tarred(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, bytes], Path]:
    def write(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    return write


GOOD = tarred(*(member(*file) for file in FILES.items()))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress])
def test_a_tar_archive_a_zip_archive_and_a_folder_hold_the_same(write, tmp_path, pack) -> None:
    with zipfile.ZipFile(tmp_path / "set.zip", "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in FILES.items():
            opened.writestr(name, content)
            write(f"set/{name}", content)
    for source in (write("set.tar", pack(GOOD)), tmp_path / "set.zip", tmp_path / "set"):
        found, counts = texts(source, ".xml", ".nxml")
        assert found == {f"{source}/{name}": lines for name, lines in ALL.items()}
        assert counts == COUNTS
        assert len(texts(f"{source}")[0]) == 4
    assert list(texts(f"{tmp_path}/set.zip/b")[0]) == [f"{tmp_path}/set.zip/b/2.xml"]


def test_stdin_may_be_a_tar_archive(write, monkeypatch) -> None:
    for content, found in ((GOOD, {f"<stdin>/{name}": lines for name, lines in ALL.items()}),
                           (b"a\nb", {"-": ["a", "b"]})):
        stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(gzip.compress(content))))
        monkeypatch.setattr("sys.stdin", stream)
        assert texts("-", ".xml", ".nxml")[0] == found


def test_what_leads_outside_links_and_devices_are_passed_over(write, tmp_path) -> None:
    path = write("in/evil.tar", tarred(
        member("../out"), member("/etc/out"), member("a/../../out"), member("a/1"),
        member("link", kind=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("hard", kind=tarfile.LNKTYPE, linkname="a/1"),
        member("tty", kind=tarfile.CHRTYPE), member("pipe", kind=tarfile.FIFOTYPE)))
    found, counts = texts(path)
    assert list(found) == [f"{path}/a/1"]
    assert counts == {"files with a path outside their archive passed over": 3,
                      "links and devices passed over": 4}
    assert [one.name for one in tmp_path.rglob("*")] == ["in", "evil.tar"]
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as opened:
        for name, mode in (("../out", 0o100644), ("link", 0o120777), ("a", 0)):
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            opened.writestr(info, b"/etc/passwd")
    found, counts = texts(tmp_path / "evil.zip")
    assert list(found) == [f"{tmp_path}/evil.zip/a"]
    assert sum(counts.values()) == 2


def test_links_in_folders_are_not_followed_outside_and_pipes_not_opened(write, tmp_path) -> None:
    import os

    write("in/a", b"x")
    (tmp_path / "in/broken").symlink_to("absent")
    os.mkfifo(tmp_path / "in/pipe")
    assert texts(tmp_path / "in")[1] == {"links and devices passed over": 2}


def test_joined_archives_are_read_to_the_end(write) -> None:
    path = write("two.tar", tarred(member("a")) + tarred(member("b")))
    assert list(texts(path)[0]) == [f"{path}/a", f"{path}/b"]


def damaged_header() -> bytes:
    content = bytearray(tarred(member("a"), member("b")))
    content[1024] ^= 0xFF
    return bytes(content)


def long_header() -> bytes:
    info, _ = member("a", kind=tarfile.GNUTYPE_LONGNAME)
    info.size = 1 << 30
    return tarred(member("a"))[:1024] + info.tobuf()


@pytest.mark.parametrize(("content", "told"), [
    (damaged_header(), "bad checksum"), (tarred(member("a"))[:1024], "it is cut off"),
    (tarred(member("a"), member("b"))[:1100], "truncated header"),
    (long_header(), "header of more than a megabyte"),
    (tarred(member("a", b"x" * 2000))[:1024], "unexpected end of data"),
    (gzip.compress(tarred(*(member(str(n), str(random.random()).encode()) for n in range(99)))
                   )[:2000], "ended before")])
def test_damage_is_never_taken_for_the_end(write, content: bytes, told: str) -> None:
    path = write("bad.tar", content)
    with pytest.raises(DataError, match=rf"bad\.tar.*{told}"):
        texts(path)


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("a.txt", b"\n" * 1_100_000)
    with limiting_records(1), pytest.raises(DataError, match=r"a\.txt: found a file that unpacks"):
        texts(path)


def test_any_damage_is_read_or_refused(write) -> None:
    for content in damaged(GOOD, (1, 4, 512)):
        path = write("set.tar", content)
        try:
            texts(path)
        except DataError as error:
            assert str(path) in str(error)
