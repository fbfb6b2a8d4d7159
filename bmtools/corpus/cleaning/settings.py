"""Settings of `clean`."""

from __future__ import annotations

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
    from_year: int = option(
        0, "First `meta.year` kept; records without one are left out. 0 for no limit.")
    to_year: int = option(
        0, "Last `meta.year` kept; records without one are left out. 0 for no limit.")
    licences: str = option("", "Licences kept, as CC-BY,CC0, in any version and spelling; "
                               "commercial for those that allow commercial use. Records without "
                               "one are left out.", metavar="commercial|NAME,...")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.max_words or self.min_words <= self.max_words, "min_words",
                self.min_words, f"at most max_words, {self.max_words}")
        require(not self.to_year or self.from_year <= self.to_year, "from_year", self.from_year,
                f"at most to_year, {self.to_year}")


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


def _listed(text: str, basic: tuple[str, ...], known: tuple[str, ...]) -> frozenset[str]:
    """Read names between commas, of which some stand for several."""
    groups = {"basic": basic, "all": known, "none": (), "": ()}
    return frozenset(name for one in text.split(",")
                     for name in groups.get(one.strip(), (one.strip(),)))
