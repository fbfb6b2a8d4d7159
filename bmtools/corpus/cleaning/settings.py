"""Settings of `clean`."""

from __future__ import annotations

import re
from typing import Literal

from bmtools.errors import require, require_names
from bmtools.settings import Settings, option

BASIC_REPAIRS = ("line-ends", "control-characters", "invisible-characters", "white-space",
                 "truncation-marks")
REPAIRS = (*BASIC_REPAIRS, "unicode", "entities", "copyright", "publisher", "navigation",
           "repeated-lines")
BASIC_KINDS = ("email", "phone", "record-number", "iban", "codice-fiscale", "dni", "nir",
               "steuer-id", "ssn", "nhs-number", "cpf")
KINDS = (*BASIC_KINDS, "birth-date")
DECLARED = "declared"
COMMERCIAL = "commercial"
_DATE = re.compile(r"\d{1,4}(?:-(?:0[1-9]|1[0-2]))?")


class RepairConfig(Settings, title="Repairs of text"):
    """Repairs of text."""

    repairs: str = option("basic", "What is repaired: basic (line-ends, control-characters, "
                                   "invisible-characters, white-space, truncation-marks), all, "
                                   "none, or names, of which basic may be one: unicode (needs "
                                   "ftfy), entities, copyright, publisher, navigation, "
                                   "repeated-lines.", metavar="basic|all|none|NAME,...")

    def __post_init__(self) -> None:
        require_names("repairs", self.names, REPAIRS)

    @property
    def names(self) -> frozenset[str]:
        """The repairs by name."""
        return _listed(self.repairs, BASIC_REPAIRS, REPAIRS)


class FilterConfig(Settings, title="Records left out"):
    """Records left out."""

    min_words: int = option(0, "Fewest words of a text (PubMedBERT: 128); 0 for no limit.")
    max_words: int = option(0, "Most words of a text; 0 for no limit.")
    min_characters: int = option(
        0, "Fewest characters of a text, for writing without spaces; 0 for no limit.")
    languages: str = option("", "Languages found by py3langid that are kept, by ISO 639-1 codes; "
                                "declared stands for the lang of each record. Texts too short to "
                                "tell are kept.", metavar="declared|CODE,...")
    drop_truncated: bool = option(False, "Leave out records whose text has a mark such as "
                                         "(ABSTRACT TRUNCATED) instead of removing the mark.")
    from_year: str | int = option(
        "", "First `meta.year` kept, or month, as 2020-03, by `meta.month`. Records without this "
            "date are left out.", metavar="YEAR[-MM]")
    to_year: str | int = option(
        "", "Last `meta.year` kept, or month, as 2020-03, by `meta.month`. Records without this "
            "date are left out.", metavar="YEAR[-MM]")
    licences: str = option("", "Licences kept, as CC-BY,CC0, in any version and spelling; "
                               "commercial for those that allow commercial use. Records without "
                               "one are left out.", metavar="commercial|NAME,...")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.max_words or self.min_words <= self.max_words, "min_words",
                self.min_words, f"at most max_words, {self.max_words}")
        for name in ("from_year", "to_year"):
            found = getattr(self, name)
            require(not found or bool(_DATE.fullmatch(str(found))), name, found,
                    "a year, or a month as 2020-03")
        last = date_limit(self.to_year)
        require(not last or date_limit(self.from_year)[:len(last)] <= last, "from_year",
                self.from_year, f"at most to_year, {self.to_year}")


class PersonalDataConfig(Settings, title="Personal data"):
    """Personal data."""

    personal_data: Literal["keep", "flag", "mask", "drop"] = option(
        "keep", "keep it, flag under meta.personal how much of a kind there is, mask it as "
                "[EMAIL], or drop the record. Patterns are a help and no guarantee: they do not "
                "know names or addresses.")
    personal_kinds: str = option(
        "basic", "Basic (email, phone, record-number, iban and tax, insurance and health numbers "
                 "with check digits: codice-fiscale, dni, nir, steuer-id, ssn, nhs-number, cpf), "
                 "all (birth-date too), or names.", metavar="basic|all|NAME,...")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_names("personal_kinds", self.kinds, KINDS)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of personal data by name."""
        return _listed(self.personal_kinds, BASIC_KINDS, KINDS)


def date_limit(date: str | int) -> list[int]:
    """Read a year, or a year and a month; empty for no limit."""
    return [int(part) for part in str(date or "").split("-") if part]


def _listed(text: str, basic: tuple[str, ...], known: tuple[str, ...]) -> frozenset[str]:
    """Read names between commas, of which some stand for several."""
    groups = {"basic": basic, "all": known, "none": (), "": ()}
    return frozenset(name for one in text.split(",")
                     for name in groups.get(one.strip(), (one.strip(),)))
