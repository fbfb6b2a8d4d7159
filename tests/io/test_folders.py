"""Files of a corpus or a set, in folders and in zip and tar archives."""

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
from bmtools.io.folders import archive_of, corpus_files, exists, read_text, set_files
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
def test_a_tar_archive_a_zip_archive_and_a_folder_have_equal_files(write, tmp_path, pack) -> None:
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


def test_outside_paths_links_and_devices_are_skipped(write, tmp_path) -> None:
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


def test_links_out_of_folders_and_pipes_are_skipped(write, tmp_path) -> None:
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
def test_damage_is_not_mistaken_for_the_end(write, content: bytes, told: str) -> None:
    path = write("bad.tar", content)
    with pytest.raises(DataError, match=rf"bad\.tar.*{told}"):
        texts(path)


def test_an_archive_bomb_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("a.xml", b"\n" * 1_100_000)
    with limiting_records(1), pytest.raises(DataError, match=r"a\.xml: found a file that unpacks"):
        texts(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_bytes(content)
    return tmp_path / "set"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "set.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in FILES.items():
            opened.writestr(name, content)
    return path


def set_texts(source: Path | str) -> dict[str, list[str]]:
    return {name: [line for _, line in read_lines(name)]
            for name in set_files([str(source)], ".xml", ".nxml", counts=Counter())}


@pytest.mark.parametrize(("name", "expected"), [
    ("caf\u00e9/n\u00e4.xml".encode(), "caf\u00e9/n\u00e4.xml"),  # zip on Linux and macOS
    (b"caf\x82.xml", "caf\u00e9.xml"), (b"caf\xe9.xml", "caf\u0398.xml")])
def test_valid_utf8_names_in_a_zip_are_utf8(tmp_path: Path, name: bytes, expected: str) -> None:
    path = tmp_path / "set.zip"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("x" * len(name), "text")
    path.write_bytes(path.read_bytes().replace(b"x" * len(name), name))
    assert set_texts(path) == {f"{path}/{expected}": ["text"]}
    assert exists(f"{path}/{expected}")


def test_a_folder_and_its_zip_have_equal_files(folder: Path, archive: Path) -> None:
    for source in (folder, archive):
        assert set_texts(source) == {f"{source}/{name}": lines for name, lines in ALL.items()}
    assert set_texts(f"{archive}/a/note.txt") == {f"{archive}/a/note.txt": ["x"]}
    assert archive_of(str(folder)) is None
    assert archive_of(f"{archive}/b/absent") == archive


def test_a_zip_is_read_however_its_path_is_spelled(
        archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(archive.parent)
    for source in (f"./{archive.name}", f".//{archive.name}/"):
        assert list(set_texts(source).values()) == [["one", "more"], ["three"], ["two"]]
        assert [Path(name).name for name in set_texts(f"{source}/b")] == ["2.xml"]


def test_files_are_read_whatever_their_ending(folder: Path) -> None:
    names = ["-", f"{folder}/a/note.txt"]
    assert list(set_files(names, ".xml", counts=Counter())) == names


def test_skipped_files_of_a_set_are_counted(folder: Path, archive: Path) -> None:
    for source in (folder, archive):
        counts: Counter[str] = Counter()
        assert len(list(set_files([str(source)], ".xml", counts=counts))) == 2
        assert counts["files that do not end in .xml passed over"] > 0


def test_no_files_are_an_error(folder: Path, archive: Path) -> None:
    for source in (folder, archive):
        with pytest.raises(DataError, match=r"found no file in \.ann, expected at least one"):
            list(set_files([str(source)], ".ann", counts=Counter()))
    with pytest.raises(DataError, match=r"set\.zip/c: found no file"):
        list(set_files([f"{archive}/c"], ".xml", counts=Counter()))


@pytest.mark.parametrize("shift", [8, 1], ids=["data", "name"])
def test_a_damaged_archive_is_named(archive: Path, shift: int) -> None:
    content = bytearray(archive.read_bytes())
    content[content.index(b"a/1.nxml") + shift] ^= 0xFF
    archive.write_bytes(content)
    with pytest.raises(DataError, match=r"set\.zip/a/1\.nxml: this archive cannot be read"):
        set_texts(archive)


def test_a_text_is_read_completely(folder: Path, tmp_path: Path) -> None:
    assert read_text(f"{folder}/a/1.nxml") == "one\nmore"
    (tmp_path / "bad").write_bytes(b"a\nb\xff")
    with pytest.raises(DataError, match="bad:2: byte 2 is not UTF-8"):
        read_text(str(tmp_path / "bad"))


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_damaged_archives_are_read_or_rejected(write, archive: Path, kind: str) -> None:
    path = write("bad.tar", GOOD) if kind == "tar" else archive
    for content in damaged(path.read_bytes(), (1, 4, 30)):
        path.write_bytes(content)
        try:
            texts(path, ".xml", ".nxml")
        except DataError as error:
            assert str(path) in str(error)
