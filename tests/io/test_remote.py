"""Inputs and outputs at URLs: results equal local results, and files are complete or absent."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from bmtools.cli.parameters import InputFile
from bmtools.errors import BmtoolsError
from bmtools.io import remote
from bmtools.io.failures import is_url, with_urls
from bmtools.io.output import encode_lines
from bmtools.io.remote import fetched, staged, upload
from bmtools.io.sources import open_bytes, split_name

fsspec = pytest.importorskip("fsspec")
RECORDS = [{"id": f"r{number}", "text": f"Patient {number} has a fever of {number} degrees."}
           for number in range(40)]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a separate cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def bucket() -> Any:
    """Return an empty file system in memory."""
    found = fsspec.filesystem("memory")
    found.store.clear()
    found.pseudo_dirs[:] = [""]
    return found


@pytest.fixture
def corpus(bucket: Any) -> str:
    """Return the URL of a file of records."""
    bucket.pipe_file("/b/in.jsonl", encode_lines(RECORDS))
    return "memory://b/in.jsonl"


def test_urls_are_not_paths() -> None:
    assert all(map(is_url, ("s3://b/x", "gs://b", "hf://datasets/o/n/x.jsonl", "https://h/x")))
    assert not any(map(is_url, ("x", "/x", "./s3://b", "-", "C:/x", Path("s3://b"), None)))
    assert split_name("it=s3://b/x") == ("it", "s3://b/x")
    assert split_name("https://h/x?a=b") == ("", "https://h/x?a=b")


def test_a_local_path_needs_no_fsspec_and_no_connection(process: Callable[..., Any],
                                                        tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(encode_lines(RECORDS))
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        "atexit.register(lambda: print(*{'fsspec', 'aiohttp'} & {*sys.modules}, file=sys.stderr))")
    outcome = process("clean", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl",
                      PYTHONPATH=str(tmp_path))
    assert outcome.code == 0
    assert outcome.err.splitlines()[-1] == ""


def test_records_are_streamed_and_written(run: Callable[..., Any], bucket: Any, corpus: str,
                                          cache: Path) -> None:
    outcome = run("clean", corpus, "--min-words", 3, "-o", "memory://b/dir/out.jsonl.gz")
    assert outcome.code == 0, outcome.err
    assert "40 of 40 records to memory://b/dir/out.jsonl.gz" in outcome.err
    assert "uploaded memory://b/dir/out.jsonl.gz" in outcome.err
    assert not [*cache.rglob("*.jsonl*")]
    with open_bytes("memory://b/dir/out.jsonl.gz") as stream:
        assert [json.loads(line)["id"] for line in stream] == [one["id"] for one in RECORDS]
    record = json.loads(bucket.cat_file("/b/dir/out.jsonl.gz.bmtools.json"))
    assert [*record["inputs"]] == [corpus]
    assert "cache" not in json.dumps(record)
    again = run("clean", corpus, "-o", "memory://b/dir/out.jsonl.gz")
    assert again.code == 1
    assert "memory://b/dir/out.jsonl.gz exists; give another name, or --overwrite" in again.err
    assert run("clean", corpus, "-o", "memory://b/dir/out.jsonl.gz", "--overwrite").code == 0


def test_files_are_read_twice_in_parts_and_by_name(run: Callable[..., Any], corpus: str) -> None:
    assert run("dedup", corpus, "--threshold", 0.99).code == 0
    parts = [run("clean", corpus, "--part", f"{number}/3").records for number in (1, 2, 3)]
    assert all(parts) and [*chain(*parts)] == run("clean", corpus).records
    mixed = run("mix", "--corpus", f"a={corpus}", "--size", "1KB")
    assert mixed.code == 0 and mixed.records, mixed.err


def test_a_missing_file_or_package_is_a_one_line_error(run: Callable[..., Any], bucket: Any,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    missing = run("clean", "memory://b/none.jsonl")
    assert (missing.code, missing.err) == (
        1, "bmtools: memory://b/none.jsonl: found no such file, directory or bucket, expected one; "
           "check the name\n")
    monkeypatch.setattr(remote, "_EXTRAS", {"s3": ("s3fs_is_not_there", "s3")})
    package = run("clean", "s3://b/x.jsonl")
    assert package.code == 1 and package.err.count("\n") == 1
    assert "s3://b/x.jsonl needs the package s3fs_is_not_there:" in package.err
    assert "[s3]'" in package.err
    unknown = run("clean", "quatsch://b/x.jsonl")
    assert "quatsch://b/x.jsonl: cannot be read (Protocol not known: quatsch)" in unknown.err


def test_passwords_and_signatures_are_not_shown() -> None:
    assert with_urls("at https://me:secret@h/x.jsonl?sig=1 now") == "at https://h/x.jsonl now"
    assert with_urls("a=/home/me/.cache/bmtools/remote/0123456789abcdef/s3/b/x:12") == "a=s3://b/x:12"
    assert with_urls("/data/bmtools/x") == "/data/bmtools/x"


def test_changed_files_are_copied_again(bucket: Any, tmp_path: Path) -> None:
    bucket.pipe_file("/b/d/a.txt", b"1")
    bucket.pipe_file("/b/d/sub/c.txt", b"2")
    found = fetched("memory://b/d")
    assert (found / "sub/c.txt").read_bytes() == b"2"
    (found / "mark").touch()
    assert (fetched("memory://b/d/") / "mark").exists()
    bucket.pipe_file("/b/d/sub/c.txt", b"33")
    assert (fetched("memory://b/d") / "sub/c.txt").read_bytes() == b"33"
    bucket.store["/b/d/../../../evil"] = bucket.store["/b/d/a.txt"]
    fetched("memory://b/d")
    assert not [*tmp_path.rglob("evil")]


def test_a_record_is_copied_with_its_file(bucket: Any, corpus: str,
                                          run: Callable[..., Any]) -> None:
    assert run("clean", corpus, "-o", "memory://b/out.jsonl").code == 0
    shown = run("lineage", "memory://b/out.jsonl")
    assert shown.code == 0 and "clean" in shown.out, shown.err


def test_files_that_mark_completeness_are_uploaded_last(bucket: Any,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """An older output is first made incomplete. After an error the local files are kept."""
    bucket.pipe_file("/b/m/old.bin", b"1")
    bucket.pipe_file("/b/m/bmtools.json", b"{}")
    target = staged("memory://b/m")
    target.mkdir(parents=True)
    for name in ("bmtools.json", "config.json", "model.safetensors", "z.txt"):
        (target / name).write_text("new")
    events: list[str] = []

    def noting(kind: str, work: Callable[..., object]) -> Callable[..., None]:
        def call(*arguments: Any, **more: Any) -> None:
            if arguments[-1].endswith("z.txt") and len(events) > 4:
                raise OSError("the network is gone")
            work(*arguments, **more)
            events.append(f"{kind} {arguments[-1].rpartition('/')[2]}")
        return call

    monkeypatch.setattr(bucket, "put_file", noting("put", bucket.put_file))
    monkeypatch.setattr(bucket, "rm_file", noting("rm", bucket.rm_file))
    [url] = upload(target)
    assert url == "memory://b/m" and not target.exists()
    assert events[:2] == ["rm bmtools.json", "rm old.bin"]
    assert {*events[-2:]} == {"put bmtools.json", "put config.json"}
    target.mkdir(parents=True)
    for name in ("bmtools.json", "z.txt"):
        (target / name).write_text("newer")
    with pytest.raises(BmtoolsError, match=f"^memory://b/m: cannot be written, and is in {target} "
                                           r"\(the network is gone\)"):
        [*upload(target)]
    assert target.exists() and not bucket.exists("/b/m/bmtools.json")


def test_a_run_continues_from_a_url(run: Callable[..., Any], bucket: Any, corpus: str,
                                    cache: Path, vocabulary: Path, tmp_path: Path) -> None:
    """Shards are read from a URL, and the state of a stopped run is downloaded from one."""
    assert run("tokenize", corpus, "--tokenizer", vocabulary, "-o", "memory://b/shards").code == 0
    common = ("--architecture", "bert-1x64", "--tokenizer", vocabulary, "--steps", 4,
              "--max-length", 16, "--batch-size", 4, "--micro-batch-size", 2)
    whole = run("pretrain", "memory://b/shards", *common, "-o", tmp_path / "m")
    assert whole.code == 0, whole.err
    url = "memory://b/models/m"
    stopped = run("pretrain", "memory://b/shards", *common, "-o", url, "--budget", "0.001s")
    assert stopped.code == 75, stopped.err
    assert f"uploaded {url}.run" in stopped.err and not [*cache.rglob("*.run")]
    assert not bucket.exists("/b/models/m")
    ended = run("pretrain", "memory://b/shards", *common, "-o", url, "--resume")
    assert ended.code == 0, ended.err
    assert ended.records[-1]["checkpoint"] == url
    assert not bucket.find("/b/models/m.run")
    assert bucket.cat_file("/b/models/m/model.safetensors") == \
        (tmp_path / "m" / "model.safetensors").read_bytes()
    again = run("pretrain", "memory://b/shards", *common, "-o", url, "--resume")
    assert again.code == 0 and f"{url} is already finished" in again.err
    assert bucket.exists("/b/models/m/bmtools.json")


def test_a_web_server_is_read(run: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    (tmp_path / "www/lists").mkdir(parents=True)
    (tmp_path / "www/in.jsonl").write_bytes(encode_lines(RECORDS))
    (tmp_path / "www/lists/a.txt").write_text("fever")
    handler = partial(QuietHandler, directory=tmp_path / "www")
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_port}"
    try:
        assert len(run("clean", f"{root}/in.jsonl?signature=secret").records) == 40
        assert (fetched(f"{root}/lists/") / "a.txt").read_text() == "fever"
        refused = run("clean", f"{root}/in.jsonl", "-o", f"{root}/out.jsonl")
        assert refused.code == 1 and "cannot be written (501" in refused.err
    finally:
        server.shutdown()
        server.server_close()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without logging."""

    def log_message(self, *arguments: object) -> None:
        """Do nothing."""


def test_completion_reads_no_url(monkeypatch: pytest.MonkeyPatch) -> None:
    import click

    monkeypatch.setitem(sys.modules, "fsspec", None)
    context = click.Context(click.Command("x"), resilient_parsing=True)
    with pytest.raises(click.BadParameter):
        InputFile()("s3://b/x", None, context)
