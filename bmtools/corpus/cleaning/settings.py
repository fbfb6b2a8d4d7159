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

    repairs: str = option("basic", "Repairs to make: basic (line-ends, control-characters, "
                                   "invisible-characters, white-space, truncation-marks), all, "
                                   "none, or a list of names, which may include basic: unicode "
                                   "(needs ftfy), entities, copyright, publisher, navigation, "
                                   "repeated-lines.", metavar="basic|all|none|NAME,...")

    def __post_init__(self) -> None:
        require_names("repairs", self.names, REPAIRS)

    @property
    def names(self) -> frozenset[str]:
        """The repairs by name."""
        return _listed(self.repairs, BASIC_REPAIRS, REPAIRS)


class FilterConfig(Settings, title="Records left out"):
    """Records left out."""

    min_words: int = option(0, "Minimum words in a text (PubMedBERT: 128); 0 for no limit.")
    max_words: int = option(0, "Maximum words in a text; 0 for no limit.")
    min_characters: int = option(
        0, "Minimum characters in a text, for scripts without spaces; 0 for no limit.")
    languages: str = option("", "Languages to keep, as ISO 639-1 codes; py3langid finds them. "
                                "declared means the lang of each record. Texts that are too short "
                                "to identify are kept.", metavar="declared|CODE,...")
    drop_truncated: bool = option(False, "Leave out records whose text has a mark such as "
                                         "(ABSTRACT TRUNCATED) instead of removing the mark.")
    from_year: str | int = option(
        "", "First `meta.year` to keep, or first month, such as 2020-03 (uses `meta.month`). "
            "Records without this date are left out.", metavar="YEAR[-MM]")
    to_year: str | int = option(
        "", "Last `meta.year` to keep, or last month, such as 2020-03 (uses `meta.month`). "
            "Records without this date are left out.", metavar="YEAR[-MM]")
    licences: str = option("", "Licences to keep, such as CC-BY,CC0, in any version and spelling; "
                               "commercial keeps licences that allow commercial use. Records "
                               "without a licence are left out.", metavar="commercial|NAME,...")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.max_words or self.min_words <= self.max_words, "min_words",
                self.min_words, f"at most max_words, {self.max_words}")
        for name in ("from_year", "to_year"):
            found = getattr(self, name)
            require(not found or bool(_DATE.fullmatch(str(found))), name, found,
                    "a year, or a month such as 2020-03")
        last = date_limit(self.to_year)
        require(not last or date_limit(self.from_year)[:len(last)] <= last, "from_year",
                self.from_year, f"at most to_year, {self.to_year}")


class PersonalDataConfig(Settings, title="Personal data"):
    """Personal data."""

    personal_data: Literal["keep", "flag", "mask", "drop"] = option(
        "keep", "keep it, flag the number of each kind in meta.personal, mask it with names such "
                "as [EMAIL], or drop the record. Patterns are a help, not a guarantee: they do not "
                "find names or addresses.")
    personal_kinds: str = option(
        "basic", "basic (email, phone, record-number, iban and tax, insurance and health numbers "
                 "with check digits: codice-fiscale, dni, nir, steuer-id, ssn, nhs-number, cpf), "
                 "all (also birth-date), or names.", metavar="basic|all|NAME,...")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_names("personal_kinds", self.kinds, KINDS)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of personal data by name."""
        return _listed(self.personal_kinds, BASIC_KINDS, KINDS)


def date_limit(date: str | int) -> list[int]:
    """Parse a year, or a year and a month; empty for no limit."""
    return [int(part) for part in str(date or "").split("-") if part]


def _listed(text: str, basic: tuple[str, ...], known: tuple[str, ...]) -> frozenset[str]:
    """Parse names between commas; some names stand for a group of names."""
    groups = {"basic": basic, "all": known, "none": (), "": ()}
    return frozenset(name for one in text.split(",")
                     for name in groups.get(one.strip(), (one.strip(),)))
