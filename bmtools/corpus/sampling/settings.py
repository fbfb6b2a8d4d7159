"""Settings of samples and mixtures, and amounts of text as they are typed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bmtools.errors import require, require_seed, setting

_BYTES = {"b": 1, **{f"{letter}b": 1000 ** power for power, letter in enumerate("kmgt", 1)},
          **{f"{letter}ib": 1024 ** power for power, letter in enumerate("kmgt", 1)}}
_NUMBERS = {"": 1, "k": 10 ** 3, "m": 10 ** 6, "g": 10 ** 9, "b": 10 ** 9}
_EXPECTED = {
    "size": "sizes of text with their units, as 100MB,300MB,1GB",
    "words": "numbers of words, as 500k,10M,3.2B",
    "records": "whole numbers of records, as 1000,20000",
    "share": "shares of the records above 0, at most 1, as 0.01,0.1"}
UNITS = ("size", "words", "records", "share")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?|\.\d+) ?([a-z]*)", re.IGNORECASE)


@dataclass(frozen=True)
class Rung:
    """One of the samples of a ladder.

    Args:
        name: as it was typed, with the unit if it is not of size.
        amount: bytes, words or records; or a share of them, 0 to 1.
        unit: of `UNITS`.
    """

    name: str
    amount: float
    unit: str


@dataclass(frozen=True)
class SampleConfig:
    """Settings of a sample.

    Args:
        size: text of the sample, titles included, as bytes of UTF-8: 100MB is 100 million of
            them. Several sizes make a ladder, of which each sample contains the smaller ones.
        words: number of words, in place of `size`.
        records: number of records, in place of `size`.
        share: share of the records, 0 to 1, in place of `size`.
        by: key whose values keep their shares in each sample: lang, source, meta.kind ...
        allow_fewer: take all records where there are fewer than a sample should have.
        seed: seed of the choice, which goes by the records' ids, whatever their order.
    """

    size: str = ""
    words: str = ""
    records: str = ""
    share: str = ""
    by: str = ""
    allow_fewer: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        require_seed(self.seed)
        if len([unit for unit in UNITS if getattr(self, unit)]) != 1:
            raise ValueError(f"expected one of {', '.join(map(setting, UNITS))}")
        self.rungs()

    def rungs(self) -> list[Rung]:
        """Return the samples to take, the smallest first.

        Raises:
            ValueError: something else than amounts, or one twice.
        """
        unit = next(unit for unit in UNITS if getattr(self, unit))
        rungs = sorted((Rung(_name(text, unit), parse_amount(text, unit), unit)
                        for text in getattr(self, unit).split(",")), key=lambda one: one.amount)
        require(len({rung.amount for rung in rungs}) == len(rungs), unit,
                repr(getattr(self, unit)), "each amount once")
        return rungs


def _name(text: str, unit: str) -> str:
    name = text.strip().replace(" ", "")
    return name if unit == "size" else f"{name}-{unit}"


def parse_amount(text: str, unit: str) -> float:
    """Read an amount of a unit: `100MB` of size, `3.2B` words, 1000 records, a share of 0.1.

    Raises:
        ValueError: it is none.
    """
    found = _AMOUNT.fullmatch(text.strip())
    factors = _BYTES if unit == "size" else _NUMBERS if unit == "words" else {"": 1}
    factor = factors.get(found[2].lower(), 0) if found else 0
    amount = float(found[1]) * factor if found else 0.0
    if unit != "share":
        amount = int(amount) if unit != "records" or amount.is_integer() else 0
    require(amount > 0 and (unit != "share" or amount <= 1), unit, repr(text), _EXPECTED[unit])
    return amount
