"""Files that are complete or absent, and streams that are written directly."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import threading
from pathlib import Path

import pytest
from backports import zstd

from bmtools.errors import BmtoolsError
from bmtools.io.failures import require_room
from bmtools.io.output import is_special, new_file, open_output, temporary_file, write_records

RECORDS = [{"id": "1", "text": "è"}]
LINES = '{"id":"1","text":"è"}\n'.encode()


@pytest.mark.parametrize(("name", "unpack"), [
    ("pipe", bytes), ("pipe.gz", gzip.decompress),
    ("pipe.zst", zstd.decompress)])
def test_a_pipe_is_compressed_like_a_file_of_its_name(tmp_path: Path, name: str, unpack) -> None:
    os.mkfifo(tmp_path / name)
    content: list[bytes] = []
    reader = threading.Thread(target=lambda: content.append((tmp_path / name).read_bytes()))
    reader.start()
    write_records(RECORDS, str(tmp_path / name))
    reader.join(10)
    assert [unpack(one) for one in content] == [LINES]


def test_a_pipe_without_reader_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(BmtoolsError, match=r"pipe: cannot be written \(broken pipe\); its"), \
            open_output(str(tmp_path / "pipe")) as stream:
        os.close(reader)
        stream.write(b"x")


def test_an_open_file_is_continued_at_its_position(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as stream:
        stream.write(b"before\n")
        stream.flush()
        write_records(RECORDS, f"/dev/fd/{stream.fileno()}")
        stream.write(b"after\n")
    assert path.read_bytes() == b"before\n" + LINES + b"after\n"


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_stdout_has_several_names(name: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_records(RECORDS, name)
    assert capfdbinary.readouterr().out == LINES


def test_a_closed_descriptor_is_named() -> None:
    with pytest.raises(BmtoolsError, match=r"^/dev/fd/987: cannot be written \(bad file desc"):
        write_records(RECORDS, "/dev/fd/987")


def test_a_directory_or_a_disk_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(BmtoolsError, match="found a directory, expected the name of a file"):
        write_records(RECORDS, str(tmp_path))
    try:
        os.mknod(tmp_path / "disk", stat.S_IFBLK | 0o600, os.makedev(7, 200))
    except PermissionError:
        pytest.skip("making a disk takes root")
    with pytest.raises(BmtoolsError, match="found a disk, expected the name of a file"):
        is_special(tmp_path / "disk")


def test_a_full_device_is_named() -> None:
    with pytest.raises(BmtoolsError, match=(
            r"^/dev/full: cannot be written \(no space left on device\); make room, or write "
            "elsewhere$")):
        write_records(RECORDS, "/dev/full")


def test_a_link_to_a_missing_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("new/file")
    write_records(RECORDS, str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "new" / "file").read_bytes() == LINES


def test_other_users_cannot_read_an_unfinished_file(tmp_path: Path) -> None:
    path = tmp_path / "patients"
    path.write_text("old")
    path.chmod(0o600)
    with new_file(path) as stream:
        stream.write(b"new")
        [partial] = [file for file in tmp_path.iterdir() if file != path]
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_a_new_file_has_the_mode_of_new_files(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    with new_file(tmp_path / "new"):
        pass
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_finished_file_is_kept_if_the_last_step_fails(tmp_path: Path,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "replace", fail)
    kept = tmp_path / f"out.finished-{os.getpid()}"
    with pytest.raises(BmtoolsError, match=(
            rf"out: the last step failed \(permission denied\); the finished file is {kept}")), \
            new_file(tmp_path / "out") as stream:
        stream.write(b"all of it")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["all of it"]
    assert kept.exists()


def test_errors_of_temporary_files_name_their_directory(monkeypatch: pytest.MonkeyPatch,
                                                        tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with temporary_file() as stream:
        stream.write(b"one\ntwo\n")
        stream.seek(4)
        assert stream.readline() == b"two\n"
    with Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr("tempfile.TemporaryFile", lambda buffering: full)
        spool = temporary_file()
    spool.write(b"x")
    with pytest.raises(BmtoolsError, match=f"^a temporary file in {tmp_path}: cannot be written"):
        spool.close()


def test_free_space_is_checked_on_the_disk_of_a_new_directory(tmp_path: Path) -> None:
    require_room(tmp_path / "new" / "out", 1)
    with pytest.raises(OSError, match=r"no space left on device: 1,000,000,000,000\.0 MB needed, "
                                      r"[\d,.]+ MB free"):
        require_room(tmp_path / "new" / "out", 10**18)


def test_compressed_files_have_checksums(tmp_path: Path) -> None:
    write_records(RECORDS, str(tmp_path / "a.zst"))
    assert (tmp_path / "a.zst").read_bytes()[4] & 4  # the checksum flag in the frame header
