"""Signatures of directories by keys of one's own, in the format of model-signing; no network."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from bmtools.errors import CheckpointError
from bmtools.installation import require_extra
from bmtools.io.output import new_file
from bmtools.io.provenance.manifest import SIGNATURE
from bmtools.records import JsonObject

if TYPE_CHECKING:
    from model_signing.hashing import Config as HashingConfig
    from model_signing.verifying import Config as VerifyingConfig

PASSPHRASE = "BMTOOLS_SIGN_PASSPHRASE"
"""Environment variable with the passphrase of a private key that has one."""
_CURVES = "expected one of the curves P-256, P-384 and P-521: openssl ecparam -name prime256v1 " \
          "-genkey -noout -out key.pem; openssl ec -in key.pem -pubout -out key.pub"


def sign(directory: Path, key: Path) -> JsonObject:
    """Sign all files of a directory, and those below, into its file `model.sig`.

    Args:
        directory: to sign; its hash stays as it is.
        key: private key of an elliptic curve, PEM.

    Returns:
        `signed` (the directory), `signature` (the file) and `files` (how many).

    Raises:
        CheckpointError: no files, symbolic links, or a key that cannot be used.
    """
    _require_package("sign")
    from model_signing import signing

    passphrase = os.environ.get(PASSPHRASE, "").encode() or None
    files = [path for path in directory.rglob("*")
             if path.is_file() and path != directory / SIGNATURE]
    if not files:
        raise CheckpointError(f"{directory}: found no files, expected some to sign")
    with _usable_key(key, "private"):
        config = signing.Config().use_elliptic_key_signer(private_key=key, password=passphrase)
    with TemporaryDirectory() as folder:
        path = Path(folder) / SIGNATURE
        try:
            config.set_hashing_config(_hashing()).sign(directory.resolve(), path)
        except ValueError as error:
            raise CheckpointError(f"{directory}: cannot be signed ({error})") from error
        with new_file(directory / SIGNATURE) as stream:
            stream.write(path.read_bytes())
    return {"signed": str(directory), "signature": str(directory / SIGNATURE), "files": len(files)}


def load_public_key(path: Path) -> VerifyingConfig:
    """Return the settings by which signatures are checked with a key.

    Args:
        path: of the key of who signed, PEM.

    Raises:
        CheckpointError: a key that cannot be used.
    """
    _require_package("verify --public-key")
    from model_signing import verifying

    with _usable_key(path, "public"):
        return verifying.Config().use_elliptic_key_verifier(public_key=path)


def signature_fault(directory: Path, public_key: Path) -> str:
    """Say what differs between a directory and its signature; empty where it holds.

    Args:
        directory: with `model.sig`.
        public_key: of who is to have signed it, PEM.

    Raises:
        CheckpointError: a key that cannot be used.
    """
    config = load_public_key(public_key)
    from cryptography.exceptions import InvalidSignature

    signature = directory / SIGNATURE
    if not signature.is_file():
        return f"found no {SIGNATURE}, expected a signature as bmtools sign writes it"
    try:
        config.set_hashing_config(_hashing()).verify(directory.resolve(), signature)
    except InvalidSignature:
        return f"{SIGNATURE} was changed, or made with another key than that of {public_key}"
    except (ValueError, KeyError, TypeError, IndexError) as error:
        return _explained(str(error), public_key)
    return ""


def _explained(message: str, public_key: Path) -> str:
    """Name the files that differ, or what is wrong with a signature."""
    if message.startswith("Key mismatch"):
        return f"signed with another key than that of {public_key}"
    kind, _, listed = message.partition("Signature mismatch: ")
    if kind or not listed:
        return f"{SIGNATURE} cannot be read ({message.splitlines()[0] if message else 'empty'})"
    differences = [one.partition(": Expected")[0] for one in ast.literal_eval(listed)]
    return f"not what was signed: {'; '.join(differences)}"


def _hashing() -> HashingConfig:
    """Make settings by which all files count, except the signature."""
    from model_signing import hashing

    return hashing.Config().set_ignored_paths(paths=[SIGNATURE], ignore_git_paths=False)


@contextmanager
def _usable_key(key: Path, kind: str) -> Iterator[None]:
    """Name a key that a library refuses, and one that is private where a public one is needed, or
    the other way round."""
    try:
        yield
    except (AttributeError, TypeError, ValueError) as error:
        for found, way_out in (
                ("private", f": openssl ec -in {quote(str(key))} -pubout -out key.pub"),
                ("public", " that it was made from")):
            if found != kind and f"{found.upper()} KEY-----".encode() in key.read_bytes():
                raise CheckpointError(f"{key}: found a {found} key, expected the {kind} "
                                      f"one{way_out}") from error
        reason = str(error).partition(". ")[0].rstrip(".")
        way_out = f"{PASSPHRASE} takes the passphrase" if "assword" in reason else _CURVES
        raise CheckpointError(f"{key}: no key that can be used ({reason}); {way_out}") from error


def _require_package(needed_by: str) -> None:
    require_extra("model_signing", needed_by, "sign")
    require_extra("OpenSSL", needed_by, "sign")  # which the other needs without saying so
