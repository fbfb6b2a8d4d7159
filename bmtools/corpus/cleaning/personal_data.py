"""Personal data: numbers with check digits, email addresses, and numbers after words such as "tel".

This is a help, not a guarantee. Names, postal addresses and free descriptions are not searched for,
and numbers in an unusual notation are missed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from operator import mul

from bmtools.corpus.cleaning.edits import EditedText

_SEP = r"[ ./\-\u2010-\u2013\xa0\u202f]"
_END = r"(?![\w@]|[.,\-]\d)"
# If this does not match, patterns of numbers cannot match.
_LONG_NUMBER = re.compile(rf"\d(?:[()]?+{_SEP}{{0,2}}+[()]?+\d){{6}}")
_CF_ODD = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25,
           24, 23)
_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_PHONE_WORDS = (r"tel(?:[eé]fono|efoon|efon|efone|ephone)?|t[eé]l(?:éphone)?|phone|fax"
                r"|cell(?:ulare|(?=[.:]))|mobile|móvil|portable|handy|whatsapp|pager|bleep")
_RECORD_WORDS = (
    r"MRN|medical record|(?:patient|hospital|case|chart|unit) (?:id|number|no\b)|NHC"
    r"|cartella(?: clinica)?|nosologic[oa]|historia cl[ií]nica|(?:numéro de |n° de )?dossier"
    r"|IPP|Fallnummer|Patienten(?:nummer|-?ID)|Krankenaktennummer|prontuário")
_BIRTH_WORDS = (
    r"born(?: on)?|date of birth|birth ?date|d\.?o\.?b\b\.?|nat[oa] (?:a [^\d\n]{1,30} )?il"
    r"|data di nascita|née? le|date de naissance|nacid[oa] el|fecha de nacimiento|geb(?:oren)?\.?"
    r"(?: am)?|Geburtsdatum|nascid[oa] em|data de nascimento")
_MONTHS = r"[A-Za-zéûäç]{3,10}\.?"
_DATE = rf"\d{{1,4}}(?:[./\-]\d{{1,2}}[./\-]\d{{2,4}}|(?:st|nd|rd|th|º|\.)?(?: de)? {_MONTHS},?" \
        rf"(?: de)? \d{{4}})|{_MONTHS} \d{{1,2}},? \d{{4}}"
_CF_MIDDLE = re.compile(r"[\dLMNP-V]{2} ?[A-EHLMPRSTa-ehlmprst] ?[\dLMNP-V]{2} ?[A-Za-z] ?"
                        r"[\dLMNP-V]{3} ?[A-Za-z]\b")
_DOI = re.compile(r"\b10\.\d{4,9}/")
_THOUSANDS = re.compile(r"[+(]?\d{1,3}(?:[.,]\d{3})*[.,]000")
_LONGEST_DOI = 100


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


def _weighted(digits: Sequence[int], most: int) -> int:
    """Return the sum of digits, weighted from `most` down to 2."""
    return sum(map(mul, range(most, 1, -1), digits))


def is_codice_fiscale(text: str) -> bool:
    """Check the last letter of an Italian codice fiscale."""
    values = [int(sign) if sign.isdigit() else ord(sign) - ord("A")
              for sign in text.replace(" ", "").upper()]
    total = sum(map(_CF_ODD.__getitem__, values[0:15:2])) + sum(values[1:15:2])
    return total % 26 == values[15]


def is_dni(text: str) -> bool:
    """Check the letter of a Spanish DNI or NIE."""
    plain = text.upper().translate(str.maketrans("", "", " -."))
    number = plain[:-1].translate(str.maketrans("XYZ", "012"))
    return _DNI_LETTERS[int(number) % 23] == plain[-1]


def is_nir(text: str) -> bool:
    """Check the key and birth month of a French NIR; departments 2A and 2B count as 19 and 18."""
    plain = re.sub(r"\W", "", text).upper().replace("2A", "19", 1).replace("2B", "18", 1)
    month = int(plain[3:5])
    return int(plain[13:]) == 97 - int(plain[:13]) % 97 and (1 <= month <= 12 or 20 <= month <= 42)


def is_steuer_id(text: str) -> bool:
    """Check a German Steuer-ID: ISO 7064 (modulus 11, 10), and one repeated digit."""
    digits = list(map(int, _digits(text)))
    check = 10
    for digit in digits[:-1]:
        check = (check + digit) % 10 or 10
        check = check * 2 % 11
    return digits[0] != 0 and (11 - check) % 10 == digits[-1] and len(set(digits[:-1])) in (8, 9)


def is_ssn(text: str) -> bool:
    """Return whether area, group and serial number of a US SSN are in use."""
    area, group, serial = (text[0:3], text[4:6], text[7:])
    return area not in ("000", "666") and area[0] != "9" and group != "00" and serial != "0000"


def is_nhs_number(text: str) -> bool:
    """Check a British NHS number: weights 10 to 2, modulus 11."""
    digits = list(map(int, _digits(text)))
    return (11 - _weighted(digits, 10) % 11) % 11 == digits[9]


def is_cpf(text: str) -> bool:
    """Check the two last digits of a Brazilian CPF."""
    digits = list(map(int, _digits(text)))
    found = [_weighted(digits, most) * 10 % 11 % 10 for most in (10, 11)]
    return found == digits[9:] and len(set(digits)) > 1


def is_iban(text: str) -> bool:
    """Check an IBAN: letters count from 10, modulus 97 (ISO 13616)."""
    plain = text.replace(" ", "")
    return 15 <= len(plain) <= 34 \
        and int("".join(str(int(sign, 36)) for sign in plain[4:] + plain[:4])) % 97 == 1


def _is_phone(text: str) -> bool:
    """Return whether a number has the digits of a telephone number and is not a count."""
    return 7 <= len(_digits(text)) <= 15 and not _THOUSANDS.fullmatch(text)


def _after(words: str, value: str) -> str:
    """Return a pattern for a value after a word that announces it."""
    number = r"(?:(?i:n[or]?|nr|number|num)\b[ .:#°º]{0,3})?"
    return rf"\b(?i:{words})(?=\W)[ .:#°º]{{0,3}}{number}(?:[:=]\s*)?(?P<value>{value}){_END}"


# For each kind: the condition for trying its pattern (one of these strings in the lower-cased text,
# a match of this expression, or by default a long number), the pattern, and a check of the value.
_PATTERNS: dict[str, tuple[tuple[str, ...] | re.Pattern[str], str, Callable[[str], bool]]] = {
    "email": (("@",), r"(?<![\w.+\-])[A-Za-z0-9_][\w.+\-]{0,63}@(?:[A-Za-z0-9\-]{1,63}\.){1,5}"
                   r"[A-Za-z]{2,24}(?![\w@])", bool),
    "iban": ((), r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b", is_iban),
    # Letters in place of digits are accepted only in the printed form: capitals without spaces.
    "codice-fiscale": (_CF_MIDDLE, r"[A-Z](?<!\w[A-Z])[A-Z]{5}[\dLMNP-V]{2}[A-EHLMPRST]"
                       r"[\dLMNP-V]{2}[A-Z][\dLMNP-V]{3}[A-Z]\b"
                       r"|[A-Za-z](?<!\w[A-Za-z])[A-Za-z]{2} ?[A-Za-z]{3} ?\d\d ?"
                       r"[A-EHLMPRSTa-ehlmprst] ?\d\d ?[A-Za-z] ?\d{3} ?[A-Za-z]\b",
                       is_codice_fiscale),
    "nir": ((), rf"(?<!\w)[1278]{_SEP}?\d\d{_SEP}?\d\d{_SEP}?(?:\d\d|2[ABab]){_SEP}?\d{{3}}{_SEP}?"
                rf"\d{{3}}{_SEP}?\d\d{_END}", is_nir),
    "dni": ((), r"(?<![\w.,\-])(?:\d{8}|\d\d\.\d{3}\.\d{3}|[XYZ][- ]?\d{7})-?[A-HJ-NP-TV-Z]"
                r"(?![\w\-])", is_dni),
    "cpf": ((), rf"(?<![\w.,])\d{{3}}\.\d{{3}}\.\d{{3}}-\d\d{_END}", is_cpf),
    "steuer-id": ((), rf"(?<![\w.,])\d\d \d{{3}} \d{{3}} \d{{3}}{_END}|" + _after(
        r"steuer-?(?:liche )?(?:id(?:entifikationsnummer|nr)?|nr)|IdNr|tax id|TIN", r"\d{11}"),
        is_steuer_id),
    "nhs-number": ((), rf"(?<![\w.,\-])\d{{3}}[ -]\d{{3}}[ -]\d{{4}}{_END}|" + _after(
        r"nhs(?: n(?:umber|o\b))?", r"\d{10}"), is_nhs_number),
    "ssn": ((), rf"(?<![\w.,\-])\d{{3}}-\d\d-\d{{4}}{_END}", is_ssn),
    "phone": ((), rf"(?<![\w.,+])\+[1-9]\d{{0,2}}{_SEP}?(?:\(\d{{1,4}}\)|\d){_SEP}?\d"
                  rf"(?:{_SEP}?\d){{4,11}}{_END}"
                  rf"|(?<![\w.,\-])(?:\(\d{{3}}\) ?|\d{{3}}[-.])\d{{3}}[-.]\d{{4}}{_END}|"
              + _after(_PHONE_WORDS, rf"[+(]?\d(?:[()]?{_SEP}{{0,2}}[()]?\d){{5,14}}"), _is_phone),
    "record-number": (
        ("mrn ", "mrn:", "mrn#", "medical record", "patient id", "patient n", "hospital n",
         "hospital id", "case n", "case id", "chart n", "unit n", "nhc", "cartella",
         "nosologic", "historia cl", "dossier", " ipp", "fallnummer", "patienten", "krankenakten",
         "prontu"),
        _after(_RECORD_WORDS, r"(?=[\w\-/]*\d{3})[A-Za-z]{0,4}[\d][\w\-/]{3,15}"), bool),
    "birth-date": (
        ("born ", "birth", "dob ", "dob:", "d.o.b", "nato ", "nata ", "nascita", "né le", "née le",
         "naissance", "nacido", "nacida", "nacimiento", "geb.", "geb ", "geboren", "geburtsdatum",
         "nascid", "nascimento"),
        _after(_BIRTH_WORDS, _DATE), bool)}
_COMPILED = {kind: (needed, re.compile(pattern), check)
             for kind, (needed, pattern, check) in _PATTERNS.items()}


class PersonalData:
    """Search for personal data in texts.

    Args:
        kinds: kinds from `settings.KINDS`; if several match, the first in `_PATTERNS` counts.
    """

    def __init__(self, kinds: Collection[str]) -> None:
        self._patterns = {kind: known for kind, known in _COMPILED.items() if kind in kinds}

    def mask(self, edited: EditedText) -> None:
        """Replace personal data by its kind in capitals, such as `[EMAIL]`, and count it."""
        has_number = _LONG_NUMBER.search(edited.text) is not None
        text = edited.text.lower()
        for kind, (needed, pattern, check) in self._patterns.items():
            if has_number if not needed else any(map(text.__contains__, needed)) \
                    if isinstance(needed, tuple) else needed.search(edited.text):
                edited.substitute(kind, pattern, partial(_masked, kind, check))


def _masked(kind: str, check: Callable[[str], bool], found: re.Match[str]) -> str:
    value = found.groupdict().get("value") or found[0]
    start = found.end() - len(value)
    word = found.string[max(0, start - _LONGEST_DOI):found.end()].split()[-len(value.split()):]
    if not check(value) or _DOI.search(" ".join(word)):
        return found[0]
    before, _, after = found[0].rpartition(value)
    return f"{before}[{kind.upper()}]{after}"

