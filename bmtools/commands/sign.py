"""`bmtools sign`."""

from __future__ import annotations

from pathlib import Path

import click

from bmtools.cli.options import Command, existing_directory
from bmtools.cli.parameters import InputFile
from bmtools.cli.results import Closing, Line, finish, print_results, prints_results
from bmtools.cli.step import CommandStep
from bmtools.errors import count_of


@click.command("sign", cls=Command, examples=(
    "bmtools sign model --key key.pem", "bmtools sign vocabulary --key key.pem --table"),
    groups={"Key": "key"}, topics="checkpoints")
@click.argument("directory", type=existing_directory, metavar="DIR")
@click.option("--key", type=InputFile(Path, allow_dash=False), required=True,
              metavar="FILE", help="Private key of an elliptic curve, as openssl makes it (PEM).")
@prints_results
def command(step: CommandStep, directory: Path, key: Path) -> None:
    """Sign the files of a directory with a key of your own.

    The signature is the file model.sig in DIR, in the format of model-signing (extra "sign"); the
    directory's hash stays as it is. No network is used. What is signed includes bmtools.json and
    the card; "bmtools verify DIR --public-key FILE" tells whether all is still as it was signed.

    Keys come from openssl: openssl ecparam -name prime256v1 -genkey -noout -out key.pem, and
    openssl ec -in key.pem -pubout -out key.pub. The environment variable BMTOOLS_SIGN_PASSPHRASE
    has the passphrase of a key that is encrypted.
    """
    from bmtools.study.lineages.sign import sign

    [line] = print_results(step, [sign(directory, key)])
    finish(step, *closing(line))


def closing(line: Line) -> Closing:
    """Close `sign`."""
    return (f"signed {count_of(line['files'], 'files')} of {line['signed']}: {line['signature']}",
            f"bmtools verify {line['signed']} --public-key FILE")
