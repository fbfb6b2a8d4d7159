"""Shards written, mapped and read back, against brute-force twins."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from toy_corpora import EncodedDocument, concatenate, corpus_of

from bmtools.data.shards import Corpus, ShardWriter, shard_path
from bmtools.errors import CheckpointError
from bmtools.io.provenance.manifest import Manifest

BOUND = 100


def documents(number: int = 60, seed: int = 0, ids: int = 30_000) -> list[EncodedDocument]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 40, size=number)
    lengths[number // 2] = BOUND + 37
    return [EncodedDocument(rng.integers(0, ids, size=length), rng.random(length) < 0.3,
                            np.unique(np.append(0, rng.integers(0, length, size=3))))
            for length in lengths.tolist()]


def write(directory: Path, given: list[EncodedDocument], size: int = 30_000,
          vocabulary: str = "v" * 64,
          steps: int = 7) -> Path:
    """Write shards of a hundred tokens from a few documents at a time."""
    directory.mkdir()
    writer = ShardWriter(directory, vocabulary, size, BOUND)
    for start in range(0, len(given), steps):
        rest = concatenate(given[start:start + steps])
        while len(rest.lengths):
            head, rest = rest.split(writer.room(rest))
            writer.add(head)
            if len(rest.lengths):
                writer.close()
    writer.close()
    tokens = sum(len(one.ids) for one in given)
    Manifest("tokenize", {}, vocabulary, inputs={"a.jsonl": "0" * 64},
             results={"shards": writer.number, "tokens": tokens}).write(directory)
    return directory


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    return write(tmp_path / "shards", documents())


@pytest.fixture(params=["in memory", "in files"])
def corpus(request: pytest.FixtureRequest, shards: Path) -> Corpus:
    return corpus_of(documents()) if request.param == "in memory" else Corpus.open(shards)


def test_documents_are_read_back_unchanged(corpus: Corpus) -> None:
    given = documents()
    assert corpus.lengths.tolist() == [len(one.ids) for one in given]
    assert (len(corpus), corpus.tokens) == (len(given), sum(len(one.ids) for one in given))
    everything = np.arange(len(given))
    ids, starts = corpus.gather(everything, np.zeros(len(given), int), corpus.lengths)
    assert (ids.dtype, starts.dtype) == (np.int64, np.bool_)
    assert ids.tolist() == np.concatenate([one.ids for one in given]).tolist()
    assert starts.tolist() == np.concatenate([one.word_starts for one in given]).tolist()
    assert corpus.has_sentences
    sentences, counts = corpus.sentence_starts(everything, np.zeros(len(given), int),
                                               corpus.lengths)
    assert counts.tolist() == [len(one.sentences) for one in given]
    assert sentences.tolist() == [token for one in given for token in one.sentences]


@pytest.mark.parametrize("slack", [0, 1, 3, 50])
def test_offsets_move_back_to_the_next_word_start(corpus: Corpus, slack: int) -> None:
    given = documents()
    positions = [(number, offset) for number, one in enumerate(given)
              for offset in range(len(one.ids) + 1)]
    np.random.default_rng(2).shuffle(positions)
    numbers, offsets = np.array(positions).T
    found = corpus.at_or_before(numbers, offsets, slack)
    assert found.tolist() == [slowly(given[number], offset, slack) for number, offset in positions]


def slowly(document: EncodedDocument, offset: int, slack: int) -> int:
    """The definition, an offset at a time."""
    for position in range(offset, max(offset - slack, 0) - 1, -1):
        if position in (0, len(document.ids)) or document.word_starts[position]:
            return position
    return offset


def test_several_directories_are_one_corpus(tmp_path: Path, shards: Path) -> None:
    other = write(tmp_path / "other", documents(seed=5))
    both = Corpus.open(shards, other)
    assert len(both) == 120
    assert both.gather([60], [0], [both.lengths[60]])[0].tolist() == documents(
        seed=5)[0].ids.tolist()
    assert both.inputs == {"a.jsonl": "0" * 64}
    stranger = write(tmp_path / "stranger", documents(), vocabulary="w" * 64)
    with pytest.raises(CheckpointError, match="stranger: found vocabulary wwwwwwwwwwww, expected"):
        Corpus.open(shards, stranger)


def test_shards_of_another_run_are_an_error(tmp_path: Path, shards: Path) -> None:
    last = sorted(shards.glob("shard-*"))[-1]
    shard_path(shards, 90).write_bytes(last.read_bytes())
    with pytest.raises(CheckpointError, match=r"shards: found \d+ shards with"):
        Corpus.open(shards)
    shard_path(shards, 90).unlink()
    other = write(tmp_path / "other", documents(), vocabulary="w" * 64)
    shard_path(shards, 1).write_bytes(shard_path(other, 1).read_bytes())
    with pytest.raises(CheckpointError, match="shards: found vocabulary wwwwwwwwwwww, expected"):
        Corpus.open(shards)


def test_shards_contain_complete_documents_up_to_their_limit(shards: Path) -> None:
    given = documents()
    sizes = [len(load_file(path)["ids"]) for path in sorted(shards.glob("shard-*"))]
    assert sum(sizes) == sum(len(one.ids) for one in given) and len(sizes) > 5
    assert sorted(sizes)[-1] == BOUND + 37, "one document is longer than a shard"
    assert sorted(sizes)[-2] <= BOUND
    for left, right in itertools.pairwise(sizes):
        assert left + right > BOUND, "the next document would have fitted"


def test_bytes_do_not_depend_on_how_documents_are_added(tmp_path: Path) -> None:
    one = write(tmp_path / "one", documents(), steps=1)
    many = write(tmp_path / "many", documents(), steps=60)
    assert ([path.read_bytes() for path in sorted(one.glob("shard-*"))]
            == [path.read_bytes() for path in sorted(many.glob("shard-*"))])


@pytest.mark.parametrize(("size", "kind"), [(1 << 16, "uint16"), ((1 << 16) + 1, "uint32")])
def test_ids_are_as_narrow_as_the_vocabulary_allows(tmp_path: Path, size: int, kind: str) -> None:
    given = [EncodedDocument(np.array([0, size - 1]), np.array([True, True]))]
    written = write(tmp_path / "shards", given, size)
    assert load_file(shard_path(written, 0))["ids"].dtype.name == kind
    corpus = Corpus.open(written)
    assert corpus.gather([0], [0], [2])[0].tolist() == [0, size - 1]
    assert not corpus.has_sentences
    with pytest.raises(CheckpointError, match="bmtools tokenize --sentences"):
        corpus.sentence_at_or_before(np.array([0]), np.array([0]))


def with_borders_astray(path: Path) -> None:
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    begin = 8 + size + json.loads(raw[8:8 + size])["documents"]["data_offsets"][0]
    path.write_bytes(raw[:begin + 4] + b"\xff\xff\0\0" + raw[begin + 8:])


@pytest.mark.parametrize("damage", [
    lambda path: path.write_bytes(path.read_bytes()[:-1]),
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(np.random.default_rng(0).bytes(5_000)),
    lambda path: save_file(
        {**load_file(path), "ids": load_file(path)["ids"].astype(np.int64)}, path),
    with_borders_astray, Path.unlink],
    ids=["cut short", "emptied", "garbled", "of wide ids", "with borders astray", "missing"])
def test_a_damaged_shard_is_named(shards: Path, damage: Callable[[Path], None]) -> None:
    path = shard_path(shards, 2)
    damage(path)
    with pytest.raises(CheckpointError) as raised:
        Corpus.open(shards)
    assert str(raised.value).startswith(f"{path}: ")
    assert "make the shards again with `bmtools tokenize`" in str(raised.value)
    assert "\n" not in str(raised.value)
