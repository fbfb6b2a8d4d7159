"""Known kinds of damage: each file is reported in one line, before any output is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Change = Callable[[bytes], bytes]
DEEP = 100_000
SCORE = ("score-pppl", "--model", "model", "in.jsonl")
TOPICS = ("describe", "in.jsonl", "--topics", "p.toml")
CONFIG = ("import", "jsonl", "in.jsonl", "--config", "c.toml")
TRAIN = ("pretrain", "--model", "model", "in.jsonl", "--steps", "1", "--max-length", "16", "-o",
         "out")


def header(**entries: Any) -> Change:
    """Replace entries in the header of a safetensors file."""
    def change(content: bytes) -> bytes:
        end = 8 + int.from_bytes(content[:8], "little")
        text = json.dumps({**json.loads(content[8:end]), **entries}).encode()
        return len(text).to_bytes(8, "little") + text + content[end:]

    return change


def keys(**values: Any) -> Change:
    """Replace values in a JSON object."""
    return lambda content: json.dumps({**json.loads(content), **values}).encode()


def bytes_of(content: bytes) -> Change:
    return lambda _: content


DAMAGED = "is damaged or not a safetensors file ("


@pytest.fixture
def files(tmp_path: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_checkpoint, "model")
    for name, text in (("in.jsonl", '{"id": "1", "text": "Il paziente ha asma."}\n'),
                       ("in.txt", "asma\n"), ("c.toml", ""), ("p.toml", ""), ("c.json", "")):
        Path(name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(("file", "change", "command", "message"), [
    ("model/model.safetensors", lambda content: content[:-1], SCORE, DAMAGED),
    ("model/model.safetensors", header(x={"dtype": 1, "shape": [1], "data_offsets": [0, 4]}),
     SCORE, DAMAGED),
    ("model/config.json", keys(num_hidden_layers=2**31), SCORE,
     "found num_hidden_layers 2147483648, expected 1 to"),
    ("model/config.json", keys(num_hidden_layers=0), SCORE,
     "found num_hidden_layers 0, expected 1 to"),
    ("model/config.json", keys(num_attention_heads=3), SCORE,
     "found num_attention_heads 3, expected a divisor of hidden_size 64"),
    ("model/tokenizer.json", lambda content: content.replace(b'": 7,', b'": 2147483648,', 1),
     SCORE, "the tokenizer cannot encode text (found the token id 2147483648"),
    ("model/tokenizer.json", lambda content: content.replace(b'"id": "[SEP]"', b'"id": "[X]"', 1),
     SCORE, "the tokenizer cannot encode text (its template uses '[X]'"),
    ("model/tokenizer.json", keys(normalizer=["x"]), SCORE,
     "its normalizer could not be read ("),
    ("model/tokenizer.json", lambda content: content.replace(b'"[UNK]"', b'"[unk]"', 1)
     .replace(b'"unk_token":"[UNK]"', b'"unk_token":"[none]"')
     .replace(b'"unk_token": "[UNK]"', b'"unk_token": "[none]"'),
     SCORE, "the tokenizer cannot encode text (WordPiece error: Missing [UNK] token"),
    ("model/config.json", bytes_of(b'{"a":' * DEEP), SCORE, "not JSON (maximum recursion depth"),
    ("model/config.json", keys(model_type="\ud800"), SCORE, "surrogates not allowed"),
    ("model/config.json", keys(num_attention_heads=0.5), SCORE,
     "key 'num_attention_heads': found a number, expected a whole number"),
    ("model/config.json", keys(pad_token_id="x"), TRAIN,
     "key 'pad_token_id': found text, expected a whole number or null"),
    ("model/tokenizer.json", keys(version="2"), SCORE, "no tokenizer could be loaded (Unknown"),
    ("model/tokenizer_config.json", bytes_of(b"[]"), SCORE, "no tokenizer could be loaded ("),
    ("model/bmtools.json", keys(settings=3), SCORE, "found a whole number, expected an object"),
    ("in.jsonl", bytes_of(b'{"id":' * DEEP + b"\n"), SCORE, ":1: found "),
    ("in.jsonl", bytes_of(b'{"id": "1", "text": "\\ud800"}\n'), SCORE, ":1: found "),
    ("in.jsonl", bytes_of(b'{"id": "1", "n": ' + b"7" * 5000 + b', "text": "a"}\n'), SCORE,
     ":1: found "),
    ("c.json", bytes_of(b'[' * DEEP), ("import", "curated", "c.json"), ":1: not JSON (maximum"),
    ("c.json", bytes_of(b'{"data": [{"original": "\\ud800", "masked": ["[MASK]"]}]}'),
     ("import", "curated", "c.json"), ":1: not JSON ('utf-8' codec"),
    ("c.json", bytes_of(b'{"mrr": {}, "signature": "x"}\n'),
     ("score-mrr", "--model", "model", "in.jsonl", "--fail-below-baseline", "c.json"),
     ":1: found neither a score nor a record, expected lines that score-mrr wrote"),
    ("p.toml", bytes_of(b"a = " + b"7" * 5000), (*TRAIN, "--phases", "p.toml"),
     "not TOML (Exceeds"),
    ("p.toml", bytes_of(b".".join([b"a"] * DEEP) + b" = 1"), TOPICS,
     "found a line with more than 500 dots"),
    ("c.toml", bytes_of(b"jsonl = 1"), CONFIG, "c.toml:1: found unknown key 'jsonl'"),
    ("c.toml", bytes_of(b"a = " + b"[" * DEEP), CONFIG, "not TOML (maximum recursion depth"),
    ("c.toml", bytes_of(b"\xff"), CONFIG, "c.toml: not TOML ("),
])
def test_damaged_files_are_named(files: Path, run: Run, file: str, change: Change,
                                 command: tuple[str, ...], message: str) -> None:
    path = Path(file)
    path.write_bytes(change(path.read_bytes() if path.exists() else b""))
    before = sorted(files.iterdir())
    outcome = run(*command)
    assert outcome.code == (2 if command is CONFIG else 1), outcome.err
    assert outcome.err.startswith(f"bmtools: {path.parts[0]}") and outcome.err.count("\n") == 1
    assert message in outcome.err and "report it" not in outcome.err
    assert sorted(files.iterdir()) == before


@pytest.mark.parametrize(("changes", "message"), [
    ({"results": {"shards": 1}}, "shards: found no manifest"),
    ({"results": {"shards": 1, "tokens": 2, "records": [1]}},
     "bmtools.json: key 'results.records': found a list"),
    ({"results": []}, "bmtools.json: key 'results': found a list, expected an object"),
])
def test_a_manifest_of_shards_is_checked(files: Path, run: Run, changes: dict[str, Any],
                                         message: str) -> None:
    assert run("tokenize", "--tokenizer", "model", "-o", "shards", "in.jsonl").code == 0
    path = Path("shards", "bmtools.json")
    path.write_bytes(keys(**changes)(path.read_bytes()))
    outcome = run(*(word.replace("in.jsonl", "shards") for word in TRAIN))
    assert outcome.code == 1
    assert message in outcome.err and outcome.err.count("\n") == 1


def test_ids_beyond_the_vocabulary_are_reported(files: Path, run: Run) -> None:
    assert run("tokenize", "--tokenizer", "model", "-o", "shards", "in.jsonl").code == 0
    path = Path("shards", "shard-00000.safetensors")
    content = path.read_bytes()
    base = 8 + int.from_bytes(content[:8], "little")
    start, end = json.loads(content[8:base])["ids"]["data_offsets"]
    ids = b"\xff" * (end - start)
    path.write_bytes(content[:base + start] + ids + content[base + end:])
    outcome = run(*(word.replace("in.jsonl", "shards") for word in TRAIN))
    assert outcome.code == 1 and not Path("out").exists()
    assert outcome.err.splitlines()[-1].startswith(
        "bmtools: the shards are damaged: found the token 65535, expected ")


@pytest.mark.parametrize(("settings", "message"), [
    ({"task": "x"}, "found the task 'x', expected one of ner, "),
    ({"task": "ner", "max_length": 0}, "settings: --max-length: found 0, expected 8 or more"),
    ({"task": "ner", "max_length": "x"}, "key 'max_length': found text, expected a whole number"),
])
def test_settings_of_a_fine_tuned_model_are_checked(files: Path, run: Run, settings: dict[str, Any],
                                                    message: str) -> None:
    path = Path("model", "bmtools.json")
    path.write_bytes(keys(settings=settings)(path.read_bytes()))
    outcome = run("predict", "--model", "model", "in.jsonl")
    assert outcome.code == 1, outcome.err
    assert outcome.err.startswith(f"bmtools: {path}: ") and outcome.err.count("\n") == 1
    assert message in outcome.err
