"""Records into shards: the same bytes by any number of processes, killed or not."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bmtools.data.settings import ShardConfig
from bmtools.data.shards import Corpus, is_shards
from bmtools.data.tokenize import tokenize
from bmtools.errors import BmtoolsError, CheckpointError, RecordError
from bmtools.io import parts as blocks
from bmtools.io.jsonl import RecordReader
from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.tokenizer import fingerprint

WORDS = ["il", "cuore", "pompa", "sangue", "la", "milza", "filtra", "bile", "e", "glucosio"]
SMALL = ShardConfig(shard_tokens=2_000)


def lines(number: int, seed: int = 0) -> list[dict[str, Any]]:
    """Records of a few words; some have a title, some no word at all."""
    rng = np.random.default_rng(seed)
    return [{"id": str(n), "lang": "it", "text": " ".join(rng.choice(WORDS, rng.integers(60))),
             **({"title": f"Il rene {n}"} if n % 3 == 0 else {})} for n in range(number)]


@pytest.fixture
def source(write_lines: Callable[..., Path]) -> Path:
    return write_lines("text.jsonl", *lines(600))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make tens of blocks from a small file."""
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 4_000)


def files_of(directory: Path) -> dict[str, bytes]:
    """Return all files, with the values of the manifest that do not depend on time."""
    found = {path.name: path.read_bytes() for path in directory.iterdir()}
    manifest = json.loads(found["bmtools.json"])
    found["bmtools.json"] = json.dumps({**manifest, "wall_seconds": 0, "started": "",
                                        "energy": {}}).encode()
    return found


def stopping_after(count: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Pass blocks on, and interrupt after some of them."""

    def watch(encoded: Iterator[Any]) -> Iterator[Any]:
        for number, one in enumerate(encoded, 1):
            yield one
            if number == count:
                raise KeyboardInterrupt

    return watch


def counting(seen: list[int]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def watch(encoded: Iterator[Any]) -> Iterator[Any]:
        for one in encoded:
            seen.append(one.block)
            yield one

    return watch


def test_shards_contain_the_output_of_the_tokenizer(source: Path, tokenizer: Any,
                                                    tmp_path: Path) -> None:
    records = RecordReader([str(source)])
    manifest = tokenize(records, tokenizer, tmp_path / "shards", SMALL)
    texts = [f"{one['title']}\n{one['text']}" if "title" in one else one["text"]
             for one in lines(600)]
    found = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    expected = [one.ids for one in found if one.ids]
    corpus = Corpus.open(tmp_path / "shards")
    assert len(corpus) == len(expected)
    for number, ids in enumerate(expected):
        assert corpus.gather([number], [0], [len(ids)])[0].tolist() == ids
    _, starts = corpus.gather(range(len(corpus)), np.zeros(len(corpus)), corpus.lengths)
    assert starts.sum() == sum(len(set(one.word_ids)) for one in found)
    empty = sum(not one.ids for one in found)
    assert empty > 0, "texts without words have to be tested"
    assert manifest["results"] == {
        "shards": len(corpus.shards), "records": 600, "documents": 600 - empty, "empty": empty,
        "tokens": corpus.tokens, "words": starts.sum(),
            "unknown": sum(ids.count(tokenizer.unk_token_id) for ids in expected),
        "characters": sum(map(len, texts)), "languages": {"it": 600}}
    assert len(corpus.shards) > 3
    digests = {Path(name).name: digest for name, digest in records.hashes.items()}
    assert manifest["inputs"] == digests == corpus.inputs
    assert fingerprint(load_tokenizer(tmp_path / "shards")) == corpus.vocabulary


def test_special_tokens_in_a_text_are_read_as_text(write_lines: Callable[..., Path],
                                                   tokenizer: Any, tmp_path: Path) -> None:
    source = write_lines("text.jsonl", *({"id": str(n), "text": text} for n, text in enumerate(
        ("il cuore [SEP] e [MASK] bile", "la milza", "[CLS] il [PAD]cuore"))))
    tokenize(RecordReader([str(source)]), tokenizer, tmp_path / "shards", SMALL)
    corpus = Corpus.open(tmp_path / "shards")
    ids, _ = corpus.gather(range(3), np.zeros(3), corpus.lengths)
    assert not {*tokenizer.all_special_ids} - {tokenizer.unk_token_id} & {*ids.tolist()}


def test_output_does_not_depend_on_the_number_of_processes(source: Path, tokenizer: Any,
                                                           tmp_path: Path) -> None:
    settings = ShardConfig(shard_tokens=2_000, sentences=True)
    for processes in (1, 2):
        tokenize(RecordReader([str(source)]), tokenizer, tmp_path / str(processes), settings,
                 processes=processes)
    assert files_of(tmp_path / "1") == files_of(tmp_path / "2")


@pytest.mark.parametrize("bound", [150, 2_000, 4_000])
def test_interrupted_twice_equals_uninterrupted(source: Path, tokenizer: Any, tmp_path: Path,
                                                bound: int) -> None:
    settings = ShardConfig(shard_tokens=bound, sentences=True)

    def go(name: str, **options: Any) -> dict[str, Any]:
        return tokenize(RecordReader([str(source)]), tokenizer, tmp_path / name, settings,
                        **options)

    whole = go("whole")
    for count in (11, 5):
        with pytest.raises(KeyboardInterrupt):
            go("parts", resume=True, watch=stopping_after(count))
    assert not (tmp_path / "parts").exists()
    assert is_shards(tmp_path / "parts.run")
    seen: list[int] = []
    parts = go("parts", resume=True, watch=counting(seen))
    assert seen[0] > 5, "encoded what was in shards already"
    assert parts["results"] == whole["results"]
    assert files_of(tmp_path / "parts") == files_of(tmp_path / "whole")
    assert not (tmp_path / "parts.run").exists()


@pytest.mark.slow
def test_killed_equals_uninterrupted(tokenizer: Any, vocabulary: Path, source: Path,
                                     tmp_path: Path) -> None:
    """SIGKILL of the command while its input still flows; its workers must not outlive it."""
    given = source.read_bytes() * 100  # there, a block is a megabyte
    options = ["--tokenizer", str(vocabulary), "--shard-tokens", "50000", "--workers", "2"]
    command = [sys.executable, "-m", "bmtools", "tokenize", *options]
    with subprocess.Popen([*command, "-o", str(tmp_path / "parts")], stdin=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as running:
        assert running.stdin is not None
        running.stdin.write(given[:len(given) * 3 // 4])
        running.stdin.flush()
        until(lambda: is_shards(tmp_path / "parts.run"))
        workers = children(running.pid)
        assert workers
        running.kill()
        with contextlib.suppress(BrokenPipeError):
            running.stdin.close()
    until(lambda: not any(map(alive, workers)))
    assert not (tmp_path / "parts").exists()
    for name, more in (("parts", ["--resume"]), ("whole", [])):
        subprocess.run([*command, "-o", str(tmp_path / name), *more], input=given, check=True,
                       capture_output=True)
    assert files_of(tmp_path / "parts") == files_of(tmp_path / "whole")


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "waited for a minute"
        time.sleep(0.02)


def children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    return [int(number) for number in listed.split()]


def alive(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_the_input_must_be_the_same_to_resume(source: Path, tokenizer: Any, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        tokenize(RecordReader([str(source)]), tokenizer, tmp_path / "s", SMALL,
                 watch=stopping_after(12))
    raw = source.read_bytes()
    for other in (raw.replace(b"cuore", b"fegato", 1), raw[:raw.index(b"\n", 9_000) + 1]):
        source.write_bytes(other)
        with pytest.raises(CheckpointError, match=r"s\.run: the unfinished run read a different"):
            tokenize(RecordReader([str(source)]), tokenizer, tmp_path / "s", SMALL, resume=True)
    source.write_bytes(raw)
    renamed = source.rename(tmp_path / "renamed.jsonl")
    with pytest.raises(CheckpointError, match=r"s\.run: made with shard_tokens 2000, found 9;"):
        tokenize(RecordReader([str(renamed)]), tokenizer, tmp_path / "s",
                 ShardConfig(shard_tokens=9), resume=True)
    tokenize(RecordReader([str(renamed)]), tokenizer, tmp_path / "s", SMALL, resume=True)


def test_a_damaged_unfinished_run_is_named(source: Path, tokenizer: Any, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        tokenize(RecordReader([str(source)]), tokenizer, tmp_path / "s", SMALL,
                 watch=stopping_after(12))
    [*_, last] = sorted((tmp_path / "s.run").glob("shard-*"))
    first = tmp_path / "s.run/progress.json"
    for path, damage in ((last, b"x" * 99), (first, b"{"), (first, b"[" * 100_000),
                         (first, b'{"identity": {}, "rejects": 3}')):
        path.write_bytes(damage)
        with pytest.raises(CheckpointError, match=path.name):
            tokenize(RecordReader([str(source)]), tokenizer, tmp_path / "s", SMALL, resume=True)


def test_sentence_starts_match_the_text(write_lines: Callable[..., Path], tokenizer: Any,
                                        tmp_path: Path) -> None:
    source = write_lines(
        "a.jsonl", {"id": "a", "lang": "it", "title": "Il cuore",
                    "text": "Il cuore pompa il sangue. La milza filtra.\n\nIl rene."},
        {"id": "b", "lang": "it", "text": "La bile."}, {"id": "c", "text": "La linfa. Il rene."})
    rejected: list[RecordError] = []
    result = tokenize(RecordReader([str(source)], rejected.append), tokenizer, tmp_path / "s",
                      ShardConfig(sentences=True))
    corpus = Corpus.open(tmp_path / "s")
    found = [sentences(corpus, tokenizer, number) for number in range(len(corpus))]
    assert found == [["Il cuore", "Il cuore pompa il sangue.", "La milza filtra.", "Il rene."],
                     ["La bile."]]
    assert result["results"]["sentences"] == 5
    assert [str(error) for error in rejected] == [
        f"{source}:3: found no language, expected the key 'lang' or lang to split sentences"]
    tokenize(RecordReader([str(source)]), tokenizer, tmp_path / "t",
             ShardConfig(sentences=True, lang="it"))
    corpus = Corpus.open(tmp_path / "t")
    assert sentences(corpus, tokenizer, 2) == ["La linfa.", "Il rene."]


def sentences(corpus: Corpus, tokenizer: Any, document: int) -> list[str]:
    whole = np.array([document]), np.array([0]), corpus.lengths[[document]]
    parts = np.split(corpus.gather(*whole)[0], corpus.sentence_starts(*whole)[0][1:])
    return [tokenizer.decode(part.tolist()) for part in parts]


def test_a_worker_that_dies_ends_the_run(source: Path, tokenizer: Any, tmp_path: Path) -> None:
    def kill_one(encoded: Iterator[Any]) -> Iterable[Any]:
        for one in encoded:
            yield one
            for worker in children(os.getpid()):
                if b"spawn_main" in Path(f"/proc/{worker}/cmdline").read_bytes():
                    os.kill(worker, signal.SIGKILL)

    with pytest.raises(BmtoolsError, match=r"a worker process ended, .*; continue with resume"):
        tokenize(RecordReader([str(source)]), tokenizer, tmp_path / "s", SMALL, processes=2,
                 watch=kill_one)
