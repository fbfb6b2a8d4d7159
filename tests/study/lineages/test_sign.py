"""Signatures of directories: keys made by openssl, files changed, added and lost."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bmtools.errors import BmtoolsError, CheckpointError
from bmtools.io.provenance.manifest import hash_directory
from bmtools.study.lineages.sign import load_public_key, sign, signature_fault

pytest.importorskip("model_signing")
pytest.importorskip("OpenSSL")
pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")


def openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pairs of keys, one of them with a passphrase too, and keys that will not do."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("own", "other"):
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", folder / name)
        openssl("ec", "-in", folder / name, "-pubout", "-out", folder / f"{name}.pub")
    openssl("ec", "-in", folder / "own", "-aes256", "-passout", "pass:secret", "-out",
            folder / "locked")
    openssl("ecparam", "-name", "secp256k1", "-genkey", "-noout", "-out", folder / "curve")
    openssl("genpkey", "-algorithm", "RSA", "-out", folder / "rsa")
    (folder / "text").write_text("no key")
    return folder


@pytest.fixture
def signed(keys: Path, tmp_path: Path) -> Path:
    """A signed directory."""
    directory = tmp_path / "model"
    (directory / "below").mkdir(parents=True)
    for name in ("bmtools.json", "README.md", "weights", "below/graph"):
        (directory / name).write_text(name)
    before = hash_directory(directory)
    line = sign(directory, keys / "own")
    assert line == {"signed": str(directory), "signature": str(directory / "model.sig"), "files": 4}
    assert hash_directory(directory) == before
    assert signature_fault(directory, keys / "own.pub") == ""
    return directory


@pytest.mark.parametrize(("change", "expected"), [
    (lambda model: (model / "weights").write_text("weightz"), "Hash mismatch for 'weights'"),
    (lambda model: (model / "README.md").write_text(""), "Hash mismatch for 'README.md'"),
    (lambda model: (model / "bmtools.json").write_text("{}"), "Hash mismatch for 'bmtools.json'"),
    (lambda model: (model / "below" / "graph").unlink(), "Missing files in model"),
    (lambda model: (model / ".gitattributes").touch(), "Extra files found in model 'model': .gita"),
    (lambda model: (model / "below" / "model.sig").touch(), "Extra files found in model"),
    (lambda model: (model / "model.sig").unlink(), "found no model.sig"),
    (lambda model: (model / "model.sig").write_text("{}"), "model.sig cannot be read"),
    (lambda model: (model / "model.sig").write_text(""), "model.sig cannot be read")])
def test_what_changed_is_named(signed: Path, keys: Path, change: Callable[[Path], object],
                               expected: str) -> None:
    change(signed)
    assert expected in signature_fault(signed, keys / "own.pub")


def test_only_the_right_key_will_do(signed: Path, keys: Path) -> None:
    assert signature_fault(signed, keys / "other.pub") == (
        f"signed with another key than that of {keys / 'other.pub'}")
    sign(signed, keys / "other")  # takes the place of the first one
    assert signature_fault(signed, keys / "other.pub") == ""


def test_a_forged_signature_does_not_hold(signed: Path, keys: Path) -> None:
    content = json.loads((signed / "model.sig").read_text())
    envelope = content["dsseEnvelope"]
    forged = base64.b64decode(envelope["payload"]).replace(b"weights", b"weightz")
    envelope["payload"] = base64.b64encode(forged).decode()
    (signed / "weights").rename(signed / "weightz")
    (signed / "model.sig").write_text(json.dumps(content))
    assert signature_fault(signed, keys / "own.pub").startswith("model.sig was changed, or made")


def test_the_directory_may_be_moved(signed: Path, keys: Path) -> None:
    assert signature_fault(signed.rename(signed.with_name("moved")), keys / "own.pub") == ""


@pytest.mark.parametrize(("key", "expected"), [
    ("locked", "BMTOOLS_SIGN_PASSPHRASE takes the passphrase"), ("curve", "P-256"),
    ("rsa", "openssl ecparam"), ("text", "openssl ecparam")])
def test_other_keys_are_refused(signed: Path, keys: Path, key: str, expected: str) -> None:
    before = (signed / "model.sig").read_bytes()
    with pytest.raises(CheckpointError, match=f"{key}: no key that can be used.*{expected}"):
        sign(signed, keys / key)
    assert (signed / "model.sig").read_bytes() == before


def test_the_other_key_of_a_pair_is_named(signed: Path, keys: Path) -> None:
    with pytest.raises(CheckpointError, match=r"own\.pub: found a public key, expected the private "
                                              r"one that it was made from$"):
        sign(signed, keys / "own.pub")
    for name in ("own", "locked"):
        with pytest.raises(CheckpointError, match=(
                f"{name}: found a private key, expected the public one: openssl ec -in "
                f".*{name} -pubout -out key.pub$")):
            load_public_key(keys / name)


def test_passphrases(signed: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMTOOLS_SIGN_PASSPHRASE", "wrong")
    with pytest.raises(CheckpointError, match="takes the passphrase"):
        sign(signed, keys / "locked")
    monkeypatch.setenv("BMTOOLS_SIGN_PASSPHRASE", "secret")
    sign(signed, keys / "locked")
    assert signature_fault(signed, keys / "own.pub") == ""


def test_links_and_empty_directories_are_refused(keys: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="found no files"):
        sign(tmp_path, keys / "own")
    (tmp_path / "link").symlink_to(keys / "own")
    with pytest.raises(CheckpointError, match="cannot be signed"):
        sign(tmp_path, keys / "own")


def test_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmtools.installation.util.find_spec", lambda name: None)
    with pytest.raises(BmtoolsError, match=r"sign needs the package model_signing: .*\[sign\]"):
        sign(tmp_path, tmp_path)
