"""Files of a set, in folders and zip archives."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest
from damaged import damaged

from bmtools.errors import DataError
from bmtools.io.folders import archive_of, read_text, set_files
from bmtools.io.record_size import limiting_records
from bmtools.io.sources import read_lines

FILES = {"b/2.xml": b"two", "a/1.xml": b"one\r\nmore", "a/3.xml.gz": gzip.compress(b"three"),
         "a/note.txt": b"x", "__MACOSX/a/._1.xml": b"x", "a/.DS_Store": b"\0"}


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


def texts(source: Path | str) -> dict[str, list[str]]:
    return {name: [line for _, line in read_lines(name)] for name in set_files([str(source)],
                                                                               ".xml")}


ALL = {"a/1.xml": ["one", "more"], "a/3.xml.gz": ["three"], "b/2.xml": ["two"]}


def test_a_folder_and_its_zip_hold_the_same(folder: Path, archive: Path) -> None:
    for source in (folder, archive):
        assert texts(source) == {f"{source}/{name}": lines for name, lines in ALL.items()}
        assert list(texts(f"{source}/b")) == [f"{source}/b/2.xml"]
    assert texts(f"{archive}/a/note.txt") == {f"{archive}/a/note.txt": ["x"]}
    assert archive_of(str(folder)) is None
    assert archive_of(f"{archive}/b/absent") == archive


def test_a_zip_is_read_however_its_path_is_spelled(
        archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(archive.parent)
    for source in (f"./{archive.name}", f".//{archive.name}/"):
        assert list(texts(source).values()) == list(ALL.values())
        assert [Path(name).name for name in texts(f"{source}/b")] == ["2.xml"]


def test_files_are_taken_whatever_their_ending(folder: Path) -> None:
    assert list(set_files(["-", f"{folder}/a/note.txt"], ".xml")) == ["-", f"{folder}/a/note.txt"]


def test_no_files_are_an_error(folder: Path, archive: Path) -> None:
    for source in (folder, archive):
        with pytest.raises(DataError, match=r"found no file in \.ann, expected one at least"):
            list(set_files([str(source)], ".ann"))
    with pytest.raises(DataError, match=r"set\.zip/c: found no file"):
        list(set_files([f"{archive}/c"], ".xml"))


@pytest.mark.parametrize("shift", [8, 1], ids=["data", "name"])
def test_damage_is_named(archive: Path, shift: int) -> None:
    content = bytearray(archive.read_bytes())
    content[content.index(b"a/1.xml") + shift] ^= 0xFF
    archive.write_bytes(content)
    with pytest.raises(DataError, match=r"set\.zip/a/1\.xml: this archive cannot be read"):
        texts(archive)


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("a.xml", b"\n" * 1_100_000)
    with limiting_records(1), pytest.raises(DataError, match=r"a\.xml: found a record of more"):
        texts(path)


def test_a_whole_text(folder: Path, tmp_path: Path) -> None:
    assert read_text(f"{folder}/a/1.xml") == "one\nmore"
    (tmp_path / "bad").write_bytes(b"a\nb\xff")
    with pytest.raises(DataError, match="bad:2: byte 2 is not UTF-8"):
        read_text(str(tmp_path / "bad"))


def test_any_damage_is_read_or_refused(archive: Path) -> None:
    verdicts = set()
    for content in damaged(archive.read_bytes(), (1, 4, 30)):
        archive.write_bytes(content)
        try:
            verdicts.add(bool(texts(archive)))
        except DataError as error:
            verdicts.add(str(archive) in str(error))
    assert verdicts == {True}
