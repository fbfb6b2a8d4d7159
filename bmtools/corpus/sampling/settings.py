"""Settings of samples and mixtures, and parsing of text amounts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bmtools.errors import LAST_SEED, require, setting
from bmtools.settings import Settings, option

_BYTES = {"b": 1, **{f"{letter}b": 1000 ** power for power, letter in enumerate("kmgt", 1)},
          **{f"{letter}ib": 1024 ** power for power, letter in enumerate("kmgt", 1)}}
_NUMBERS = {"": 1, "k": 10 ** 3, "m": 10 ** 6, "g": 10 ** 9, "b": 10 ** 9}
_EXPECTED = {
    "size": "sizes of text with units, such as 100MB,300MB,1GB",
    "words": "numbers of words, such as 500k,10M,3.2B",
    "records": "whole numbers of records, such as 1000,20000",
    "share": "shares of the records above 0 and at most 1, such as 0.01,0.1",
    "weights": "numbers above 0, such as general=0.3,notes=0.7"}
UNITS = ("size", "words", "records", "share")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?|\.\d+) ?([a-z]*)", re.IGNORECASE)


@dataclass(frozen=True)
class Rung:
    """A sample in a ladder.

    Args:
        name: amount as typed, followed by the unit unless it is a size.
        amount: number of bytes, words or records, or a share from 0 to 1.
        unit: one of `UNITS`.
    """

    name: str
    amount: float
    unit: str


class SampleConfig(Settings, title="A sample"):
    """Settings of a sample."""

    size: str = option("", "Text of the sample including titles, in UTF-8 bytes: 100MB is 100 "
                           "million bytes. Several sizes make a ladder, in which each sample "
                           "contains all smaller samples.", metavar="100MB,...")
    words: str = option("", "Number of words, in place of `size`.", metavar="N,...")
    records: str = option("", "Number of records, in place of `size`.", metavar="N,...")
    share: str = option("", "Share of the records, 0 to 1, in place of `size`.", metavar="X,...")
    by: str = option("", "Key whose values keep their shares in each sample: lang, source, "
                         "meta.kind ...", metavar="KEY")
    allow_fewer: bool = option(
        False, "Take all records if there are fewer than a sample should have.")
    seed: int = option(
        0, "Seed of the choice, which depends on the records' ids and not on their order.",
        most=LAST_SEED)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len([unit for unit in UNITS if getattr(self, unit)]) != 1:
            raise ValueError(f"expected one of {', '.join(map(setting, UNITS))}")
        self.rungs()

    def rungs(self) -> list[Rung]:
        """Return the requested samples, the smallest first.

        Raises:
            ValueError: a value is not an amount, or an amount occurs twice.
        """
        unit = next(unit for unit in UNITS if getattr(self, unit))
        end = "" if unit == "size" else f"-{unit}"
        rungs = sorted((Rung(text.strip().replace(" ", "") + end, parse_amount(text, unit), unit)
                        for text in getattr(self, unit).split(",")), key=lambda one: one.amount)
        require(len({rung.amount for rung in rungs}) == len(rungs), unit,
                repr(getattr(self, unit)), "each amount once")
        return rungs


def parse_amount(text: str, unit: str) -> float:
    """Parse an amount in a unit: a size `100MB`, `3.2B` words, 1000 records, a share of 0.1.

    Raises:
        ValueError: the text is not such an amount.
    """
    found = _AMOUNT.fullmatch(text.strip())
    factors = _BYTES if unit == "size" else _NUMBERS if unit == "words" else {"": 1}
    factor = factors.get(found[2].lower(), 0) if found else 0
    amount = float(found[1]) * factor if found else 0.0
    if unit not in ("share", "weights"):
        amount = int(amount) if unit != "records" or amount.is_integer() else 0
    require(amount > 0 and (unit != "share" or amount <= 1), unit, repr(text), _EXPECTED[unit])
    return amount


class MixConfig(Settings, title="A mixture"):
    """Settings of a mixture."""

    weights: str = option("", "Shares of the corpora in the text, relative to each other: "
                              "general=0.3,notes=0.7. Default: proportional to their sizes.",
                          metavar="NAME=X,...")
    size: str = option("", "Total size of the text, such as 1GB. Default: as much as the weights "
                           "allow with each record once.", metavar="100MB")
    repeat: bool = option(False, "Repeat the records of a corpus that is smaller than its part.")
    seed: int = option(0, "Seed of the choice and the order of records.", most=LAST_SEED)

    def parts(self, totals: Mapping[str, int]) -> dict[str, float]:
        """Return the bytes of each corpus in the mixture, computed from the sizes of the corpora.

        Raises:
            ValueError: weights and corpora have different names, or the size is not a size.
        """
        weights: Mapping[str, float] = totals
        if self.weights:
            found = {name.strip(): text for name, _, text in (
                one.partition("=") for one in self.weights.split(","))}
            require(found.keys() == set(totals), "weights", repr(self.weights),
                    f"NAME=VALUE of each corpus: {', '.join(totals)}")
            weights = {name: parse_amount(text, "weights") for name, text in found.items()}
        shares = {name: weight / sum(weights.values()) for name, weight in weights.items()}
        most = min(totals[name] / share for name, share in shares.items() if share)
        whole = parse_amount(self.size, "size") if self.size else \
            most if self.weights else sum(totals.values())
        return {name: whole * share for name, share in shares.items()}
