"""Settings of masked-LM loss under strategies of masking; importing this costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, get_args

from bmtools.errors import require, setting
from bmtools.masking.settings import Corruption, Masking

_RATES = "shares above 0, at most 1, separated by commas"
_PERCENTAGES = "percentages that add up to 100, as in 80/10/10, separated by commas"
_ROUNDING = 1e-6
Value = TypeVar("Value")


@dataclass(frozen=True)
class Combination:
    """One strategy at one rate with one corruption.

    Args:
        masking: name of the strategy.
        mask_rate: share of a sequence's tokens to mask.
        corruption: percentages that become the mask token, a random token, or stay themselves.
    """

    masking: str
    mask_rate: float
    corruption: str

    @property
    def shares(self) -> Corruption:
        """Corruption as shares."""
        masked, random, same = (float(part) for part in self.corruption.split("/"))
        # Rounding must not leave a share for a percentage of 0.
        return Corruption(masked / 100, random / 100 if same else 1 - masked / 100)


@dataclass(frozen=True)
class MaskedLmLossConfig:
    """Masking of texts: each strategy at each rate with each corruption.

    Args:
        masking: units that are masked together, separated by commas: tokens, words, spans, terms.
        mask_rate: shares of tokens to mask, separated by commas.
        corruption: percentages of masked tokens that become the mask token, become a random one
            and stay themselves, separated by commas.
        repeats: draws of masks.
        max_length: longest sequence in tokens, special tokens included; longer texts are cut
            where words begin.
        segmenter: finds words: tokenizer (right where spaces are written), japanese, chinese,
            thai, or one that a package brings.
    """

    masking: str = "tokens,words"
    mask_rate: str = "0.15"
    corruption: str = "80/10/10"
    repeats: int = 3
    max_length: int = 128
    segmenter: str = "tokenizer"

    def __post_init__(self) -> None:
        known = get_args(Masking)
        require(all(name in known for name in self.maskings()), "masking", repr(self.masking),
                f"names from {', '.join(known)}, separated by commas")
        rates = _parse("mask_rate", self.mask_rate, float, _RATES)
        require(all(0 < rate <= 1 for rate in rates), "mask_rate", repr(self.mask_rate), _RATES)
        corruptions = _parse("corruption", self.corruption, _normalized, _PERCENTAGES)
        _require_distinct("masking", self.masking, self.maskings())
        _require_distinct("mask_rate", self.mask_rate, rates)
        _require_distinct("corruption", self.corruption, corruptions)
        require(self.repeats >= 1, "repeats", self.repeats, "1 or more")
        require(self.max_length >= 8, "max_length", self.max_length, "8 or more")

    def maskings(self) -> tuple[str, ...]:
        """Strategies, in the order given."""
        return _split(self.masking)

    def combinations(self) -> tuple[Combination, ...]:
        """All combinations; the corruption changes fastest."""
        return tuple(Combination(masking, float(rate), _normalized(corruption))
                     for masking in self.maskings()
                     for rate in _split(self.mask_rate)
                     for corruption in _split(self.corruption))


def check_usage(config: MaskedLmLossConfig, has_terms: bool, precision: str) -> None:
    """Refuse settings that do not go together.

    Raises:
        ValueError: masking by terms without terms, terms without it, or a precision without
            autocast.
    """
    by_terms = "terms" in config.maskings()
    require(has_terms or not by_terms, "masking", "terms", f"{setting('terms')} as well")
    require(by_terms or not has_terms, "masking", repr(config.masking),
            f"terms as well, as {setting('terms')} is given")
    require(precision != "int8", "precision", "int8", "float32 or bf16 or fp16 here")


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _parse(name: str, text: str, parse: Callable[[str], Value], expected: str) -> list[Value]:
    """Parse a comma-separated list.

    Raises:
        ValueError: a part that cannot be parsed.
    """
    try:
        return [parse(part) for part in _split(text)]
    except ValueError:
        raise ValueError(f"{setting(name)}: found {text!r}, expected {expected}") from None


def _require_distinct(name: str, text: str, values: Sequence[object]) -> None:
    require(len(values) > 0, name, repr(text), "one at least")
    require(len(set(values)) == len(values), name, repr(text), "each once")


def _normalized(corruption: str) -> str:
    """Spell percentages in one way, as in 80/10/10.

    Raises:
        ValueError: not three numbers, 0 or more, that add up to 100.
    """
    percentages = [float(part) for part in corruption.split("/")]
    if len(percentages) != 3 or not all(one >= 0 for one in percentages) \
            or abs(sum(percentages) - 100) > _ROUNDING:
        raise ValueError(corruption)
    return "/".join(f"{one:g}" for one in percentages)
