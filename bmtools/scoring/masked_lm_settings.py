"""Settings of scores by masking; importing this costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, get_args

from bmtools.errors import require
from bmtools.masking.settings import Corruption, Masking

_RATES = "shares above 0, at most 1, separated by commas"
_PERCENTAGES = "percentages that add up to 100, as in 80/10/10, separated by commas"
_ROUNDING = 1e-6
Value = TypeVar("Value")


@dataclass(frozen=True)
class Combination:
    """One way of hiding.

    Args:
        masking: name of the strategy.
        mask_rate: share of a row's tokens to hide.
        corruption: percentages that become the mask token, a random token, or stay themselves.
    """

    masking: str
    mask_rate: float
    corruption: str

    @property
    def shares(self) -> Corruption:
        """Shares of what hidden tokens become."""
        return _corruption(self.corruption)


@dataclass(frozen=True)
class MaskedLmLossConfig:
    """What is hidden from checkpoints: each strategy at each rate with each corruption.

    Args:
        masking: what is hidden together, separated by commas: tokens, words, spans, terms.
        mask_rate: shares of tokens to hide, separated by commas.
        corruption: percentages of hidden tokens that become the mask token, become a random one
            and stay themselves, separated by commas.
        repeats: draws of masks.
        max_tokens: longest row, special tokens included; longer texts are cut where words begin.
        segmenter: what finds words: tokenizer (right where spaces are written), japanese,
            chinese, thai, or one that a package brings.
    """

    masking: str = "tokens,words"
    mask_rate: str = "0.15"
    corruption: str = "80/10/10"
    repeats: int = 3
    max_tokens: int = 128
    segmenter: str = "tokenizer"

    def __post_init__(self) -> None:
        require(all(name in get_args(Masking) for name in self.maskings()), "--masking",
                repr(self.masking),
                f"names from {', '.join(get_args(Masking))}, separated by commas")
        rates = _read(self.mask_rate, float, "--mask-rate", _RATES)
        require(all(0 < rate <= 1 for rate in rates), "--mask-rate", repr(self.mask_rate), _RATES)
        corruptions = _read(self.corruption, _spelled, "--corruption", _PERCENTAGES)
        for option, given, values in (("--masking", self.masking, self.maskings()),
                                      ("--mask-rate", self.mask_rate, rates),
                                      ("--corruption", self.corruption, corruptions)):
            require(len(values) > 0, option, repr(given), "one at least")
            require(len(set(values)) == len(values), option, repr(given), "each once")
        require(self.repeats >= 1, "--repeats", self.repeats, "1 or more")
        require(self.max_tokens >= 8, "--max-tokens", self.max_tokens, "8 or more")

    def maskings(self) -> tuple[str, ...]:
        """Strategies, in the order given."""
        return _parts(self.masking)

    def combinations(self) -> tuple[Combination, ...]:
        """All of them; the corruption changes fastest."""
        return tuple(Combination(masking, float(rate), _spelled(corruption))
                     for masking in self.maskings()
                     for rate in _parts(self.mask_rate)
                     for corruption in _parts(self.corruption))


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _read(text: str, read: Callable[[str], Value], option: str, expected: str) -> list[Value]:
    """Read what commas separate.

    Raises:
        ValueError: a part that cannot be read.
    """
    try:
        return [read(part) for part in _parts(text)]
    except ValueError:
        raise ValueError(f"{option}: found {text!r}, expected {expected}") from None


def _spelled(corruption: str) -> str:
    """Spell percentages in one way, as in 80/10/10.

    Raises:
        ValueError: not three numbers, 0 or more, that add up to 100.
    """
    percentages = [float(part) for part in corruption.split("/")]
    if len(percentages) != 3 or not all(one >= 0 for one in percentages) \
            or abs(sum(percentages) - 100) > _ROUNDING:
        raise ValueError(corruption)
    return "/".join(f"{one:g}" for one in percentages)


def _corruption(spelled: str) -> Corruption:
    masked, random, same = (float(part) for part in spelled.split("/"))
    # A rounding must not leave a share where none is wanted.
    return Corruption(masked / 100, random / 100 if same else 1 - masked / 100)
